"""Three servers with a map of slots, under cluster clients in Python and JavaScript."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

program, scratch, ioredis = sys.argv[1:4]
REPLICAS = int(sys.argv[4])
KEYS = 3000
PRIMARIES = ("north", "middle", "south")
SLOTS = ("0-5460", "5461-10922", "10923-16383")
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
    if shutil.which("npm") is None:
        print("no npm: ioredis was not run")
        return
    if not os.path.isdir(os.path.join(ioredis, "node_modules")):
        os.makedirs(ioredis, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ioredis, "ioredis@5.4.1"]
        subprocess.run(command, check=True)
    path = os.path.join(ioredis, "clusters.js")
    with open(path, "w") as file:
        file.write(SCRIPT)
    subprocess.run(["node", path, str(servers[2].port)], check=True, timeout=120)


def slots_move(cluster, path, primaries, replicas):
    """Moves slots from the first server to the last while a client runs, as the documents say."""
    first, _, last = primaries
    before = [server.client().dbsize() for server in primaries]
    write_map(path, primaries, replicas, ("0-5000", SLOTS[1], SLOTS[2]))
    for server in primaries:
        server.process.send_signal(signal.SIGHUP)
    urls = [f"redis://127.0.0.1:{server.port}" for server in (last, first)]
    subprocess.run([program, "import", "--slots", "5001-5460", "--db", *urls], check=True)
    write_map(path, primaries, replicas, ("0-5000", SLOTS[1], "5001-5460 " + SLOTS[2]))
    for server in primaries:
        server.process.send_signal(signal.SIGHUP)
    for server in primaries:
        while server.client().execute_command("CLUSTER INFO")["cluster_slots_assigned"] != "16384":
            time.sleep(0.01)
    # What was copied can be removed: the client looks for it at the other server.
    for slot in range(5001, 5461):
        client = first.client()
        with client.pipeline(transaction=False) as pipe:
            for key in client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
                pipe.execute_command("ASKING")
                pipe.delete(key)
            pipe.execute()
    after = [server.client().dbsize() for server in primaries]
    assert sum(after) == sum(before) and after[0] < before[0] and after[2] > before[2], (before, after)
    expected = [str(number + (number < 100)) for number in range(KEYS)]
    assert [cluster.get(f"key:{number}") for number in range(KEYS)] == expected
    print(f"slots 5001-5460 moved: {before} keys before, {after} after")


def replicas_serve(cluster, primaries, replicas):
    """Reads at replicas, then one of them takes the place of its primary."""
    for replica, primary in zip(replicas, primaries):
        replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
    for replica, primary in zip(replicas, primaries):
        while replica.client().dbsize() != primary.client().dbsize():
            time.sleep(0.05)
    reader = RedisCluster(host="127.0.0.1", port=primaries[0].port, read_from_replicas=True, decode_responses=True)
    assert len(reader.get_replicas()) == 3
    expected = [cluster.get(f"key:{number}") for number in range(KEYS)]
    assert [reader.get(f"key:{number}") for number in range(KEYS)] == expected
    read = [replica.client().info("commandstats")["cmdstat_get"]["calls"] for replica in replicas]
    assert min(read) > 0, read
    print(f"replicas: {read} reads at each")


def main():
    path = os.path.join(scratch, "map")
    primaries = [Server(name, ["--cluster-map", path]) for name in PRIMARIES]
    replicas = [Server(f"{name}-replica", ["--cluster-map", path]) for name in PRIMARIES] if REPLICAS else []
    write_map(path, primaries, replicas, SLOTS)
    for server in primaries + replicas:
        server.begin()
    cluster = with_redis_py(primaries)
    with_ioredis(primaries)
    slots_move(cluster, path, primaries, replicas)
    if replicas:
        replicas_serve(cluster, primaries, replicas)


main()
