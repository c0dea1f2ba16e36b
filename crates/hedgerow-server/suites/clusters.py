"""Three servers with a map of slots, under cluster clients in Python, JavaScript, Go and Java."""

import argparse
import atexit
import os
import shutil
import signal
import socket
import subprocess
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("scratch")
parser.add_argument("--replicas", type=int, choices=[0, 1], default=0, help="1: each server has one")
parser.add_argument("--ioredis", help="a folder, in which npm installs it")
parser.add_argument("--go-redis", help="the program of clusters.go")
parser.add_argument("--lettuce", help="the folder of its jars")
options = parser.parse_args()
program, scratch = options.program, options.scratch
KEYS = 3000
# The checks of the programs in Go and Java, without and with replicas. Change them with the
# programs.
CHECKS = {"go-redis": (65, 71), "Lettuce": (58, 61)}
PRIMARIES = ("north", "middle", "south")
SLOTS = ("0-5460", "5461-10922", "10923-16383")
LAST_OF_FIRST = 5460
SCRIPT = """
const Redis = require("ioredis");
const cluster = new Redis.Cluster([{ host: "127.0.0.1", port: Number(process.argv[2]) }]);
(async () => {
  for (let i = 0; i < 3000; i++) await cluster.set(`node:${i}`, i);
  const calls = Array.from({ length: 3000 }, (_, i) => cluster.get(`node:${i}`));
  const found = await Promise.all(calls);
  if (!found.every((value, i) => value === String(i))) throw new Error("other values");
  const moved = await cluster.multi().set("{node}a", 1).incr("{node}a").exec();
  if (moved[1][1] !== 2) throw new Error("another number");
  const refused = await cluster.mget("node:1", "node:2").catch((error) => error.message);
  if (!String(refused).includes("slot")) throw new Error(`expected CROSSSLOT, found ${refused}`);
  console.log(`ioredis: 3000 keys over ${cluster.nodes("master").length} servers`);
  cluster.disconnect();
})().catch((error) => { console.error(error); process.exit(1); });
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, name, options):
        self.name, self.port = name, free_port()
        self.command = [program, "serve", "--db", os.path.join(scratch, name), "--port", str(self.port)]
        self.command += ["--memory-budget", "32MiB", "--cluster-node", name, *options]

    def begin(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        assert "ready" in self.process.stdout.readline()

    def client(self):
        return redis.Redis(port=self.port, decode_responses=True)


def write_map(path, primaries, replicas, slots):
    lines = [f"{it.name} 127.0.0.1:{it.port} {part}" for it, part in zip(primaries, slots)]
    lines += [f"{it.name} 127.0.0.1:{it.port} replica-of {of.name}" for it, of in zip(replicas, primaries)]
    with open(path + ".new", "w") as file:
        file.write("# written by the suite\n" + "\n".join(lines) + "\n")
    os.rename(path + ".new", path)


def with_redis_py(servers):
    cluster = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", servers[1].port)], decode_responses=True)
    assert len(cluster.get_primaries()) == 3
    for number in range(KEYS):
        cluster.set(f"key:{number}", number)
    assert all(cluster.get(f"key:{number}") == str(number) for number in range(0, KEYS, 7))
    sizes = [server.client().dbsize() for server in servers[:3]]
    assert sum(sizes) == KEYS and min(sizes) > KEYS // 5, sizes
    pipe = cluster.pipeline()
    for number in range(100):
        pipe.incr(f"key:{number}")
    assert pipe.execute() == [number + 1 for number in range(100)]
    assert cluster.mset({"{tag}a": 1, "{tag}b": 2}) and cluster.mget("{tag}a", "{tag}b") == ["1", "2"]
    cluster.zadd("{tag}z", {"a": 1, "b": 2})
    assert cluster.zunionstore("{tag}u", ["{tag}z", "{tag}z"]) == 2
    assert cluster.eval("return redis.call('GET', KEYS[1])", 1, "{tag}a") == "1"
    try:
        # The client itself refuses this before it asks.
        servers[0].client().execute_command("SUNIONSTORE", "a", "b", "c")
        raise AssertionError("expected CROSSSLOT, found a reply")
    except redis.ResponseError as error:
        assert "slot" in str(error).lower(), error
    print(f"redis-py: {KEYS} keys over 3 servers, {sizes}")
    return cluster


def with_ioredis(servers):
    if not options.ioredis or shutil.which("npm") is None:
        print("no npm: ioredis was not run")
        return
    if not os.path.isdir(os.path.join(options.ioredis, "node_modules")):
        os.makedirs(options.ioredis, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", options.ioredis, "ioredis@5.4.1"]
        subprocess.run(command, check=True)
    path = os.path.join(options.ioredis, "clusters.js")
    with open(path, "w") as file:
        file.write(SCRIPT)
    subprocess.run(["node", path, str(servers[2].port)], check=True, timeout=120)


def count_of(server, name):
    """The number of replies of a server that were errors of a kind."""
    found = server.client().info("errorstats").get(f"errorstat_{name}", {"count": 0})
    return found["count"]


def reads_of(server):
    return server.client().info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]


def until_equal(primaries, replicas):
    """Waits until replicas have everything."""
    for replica, primary in zip(replicas, primaries):
        offset = primary.client().info("replication")["master_repl_offset"]
        while True:
            found = replica.client().info("replication")
            if found["master_link_status"] == "up" and found["slave_repl_offset"] >= offset:
                break
            time.sleep(0.02)


def with_program(name, command, servers, slots):
    """Runs a program of another language, for which slots move from the first server to the last."""
    map_path, primaries, replicas = servers
    addresses = ",".join(f"127.0.0.1:{server.port}" for server in primaries)
    command = [*command, addresses, *map(str, slots), str(len(replicas))]
    moved, reads = count_of(primaries[0], "MOVED"), [reads_of(replica) for replica in replicas]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(running.kill)
    steps = {
        "step moved": lambda: move_slots(map_path, primaries, replicas, slots),
        "step replicated": lambda: until_equal(primaries, replicas),
    }
    checks = None
    for line in map(str.strip, running.stdout):
        if line in steps:
            steps[line]()
            running.stdin.write("done\n")
            running.stdin.flush()
        elif line.startswith("checks "):
            checks = int(line.removeprefix("checks "))
        else:
            print(line)
    assert running.wait() == 0, f"{name} failed"
    expected = CHECKS[name][bool(replicas)]
    assert checks == expected, f"expected {expected} checks of {name}, found {checks}"
    moved = count_of(primaries[0], "MOVED") - moved
    assert moved > 0, f"{name} was not sent on"
    reads = [reads_of(replica) - before for replica, before in zip(replicas, reads)]
    assert not replicas or min(reads) > 1000, reads
    print(f"{name}: {checks} checks; sent on {moved} times; reads at replicas: {reads}")


def move_slots(path, primaries, replicas, slots):
    """Moves slots from the end of the first server's to the last server, as the documents say."""
    begin, end = slots
    first, _, last = primaries

    def load(of_last, assigned):
        write_map(path, primaries, replicas, (f"0-{begin - 1}", SLOTS[1], of_last + SLOTS[2]))
        for server in primaries + replicas:
            server.process.send_signal(signal.SIGHUP)
        for server in primaries + replicas:
            while server.client().execute_command("CLUSTER INFO")["cluster_slots_assigned"] != str(assigned):
                time.sleep(0.01)

    load(f"{end + 1}-{LAST_OF_FIRST} " if end < LAST_OF_FIRST else "", 16384 - (end + 1 - begin))
    urls = [f"redis://127.0.0.1:{server.port}" for server in (last, first)]
    subprocess.run([program, "import", "--slots", f"{begin}-{end}", "--db", *urls], check=True)
    load(f"{begin}-{LAST_OF_FIRST} ", 16384)
    # A copied key can be removed: the client looks for it at the other server.
    for slot in range(begin, end + 1):
        client = first.client()
        with client.pipeline(transaction=False) as pipe:
            for key in client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
                pipe.execute_command("ASKING")
                pipe.delete(key)
            pipe.execute()


def slots_move(cluster, servers, slots):
    """Moves slots under redis-py."""
    primaries = servers[1]
    before = [server.client().dbsize() for server in primaries]
    move_slots(*servers, slots)
    after = [server.client().dbsize() for server in primaries]
    assert sum(after) == sum(before) and after[0] < before[0] and after[2] > before[2], (before, after)
    expected = [str(number + (number < 100)) for number in range(KEYS)]
    assert [cluster.get(f"key:{number}") for number in range(KEYS)] == expected
    print(f"slots {slots} moved: {before} keys before, {after} after")


def replicas_serve(cluster, primaries, replicas):
    """Reads of redis-py at replicas."""
    until_equal(primaries, replicas)
    reader = RedisCluster(host="127.0.0.1", port=primaries[0].port, read_from_replicas=True, decode_responses=True)
    assert len(reader.get_replicas()) == 3
    before = [reads_of(replica) for replica in replicas]
    expected = [cluster.get(f"key:{number}") for number in range(KEYS)]
    assert [reader.get(f"key:{number}") for number in range(KEYS)] == expected
    read = [reads_of(replica) - count for replica, count in zip(replicas, before)]
    assert min(read) > 0, read
    print(f"replicas: {read} reads at each")


def main():
    path = os.path.join(scratch, "map")
    begin = lambda name: Server(name, ["--cluster-map", path])
    primaries = [begin(name) for name in PRIMARIES]
    replicas = [begin(f"{name}-replica") for name in PRIMARIES] if options.replicas else []
    write_map(path, primaries, replicas, SLOTS)
    for server in primaries + replicas:
        server.begin()
    for replica, primary in zip(replicas, primaries):
        replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
    servers = path, primaries, replicas
    cluster = with_redis_py(primaries)
    with_ioredis(primaries)
    slots_move(cluster, servers, (5001, 5460))
    if options.go_redis:
        with_program("go-redis", [options.go_redis], servers, (4901, 5000))
    else:
        print("no go: go-redis was not run")
    if options.lettuce:
        here = os.path.dirname(os.path.abspath(__file__))
        command = ["java", "-cp", f"{options.lettuce}/*", f"{here}/clusters.java"]
        with_program("Lettuce", command, servers, (4801, 4900))
    else:
        print("no java or mvn: Lettuce was not run")
    if replicas:
        replicas_serve(cluster, primaries, replicas)


main()
