"""Copies a Redis into databases of `hedgerow serve` and back, under kills, and compares digests."""

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import redis

program, scratch = sys.argv[1:3]
KEYS, KILLS = int(sys.argv[3]), int(sys.argv[4])
DATABASES = 16
DAY = 86_400
FACTS = ("length", "last-generated-id", "max-deleted-entry-id", "entries-added", "recorded-first-entry-id", "groups")
chance = random.Random(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def begin_redis(name):
    directory, port = os.path.join(scratch, name), free_port()
    os.mkdir(directory)
    options = ["--port", str(port), "--dir", directory, "--save", "", "--enable-debug-command", "yes"]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    atexit.register(process.kill)
    client = redis.Redis(port=port)
    for _ in range(100):
        try:
            client.ping()
            return client, f"redis://127.0.0.1:{port}", directory
        except redis.ConnectionError:
            time.sleep(0.05)
    raise AssertionError("expected a redis-server, found none")


def text(number):
    """A string: a number, random bytes, or something that can be compressed."""
    kinds = [str(number), str(-number * 10**9), "ab" * (number % 300), chance.randbytes(number % 200)]
    return kinds[number % len(kinds)]


def small(pipe, number):
    """A key of a type, with a few or some hundred elements."""
    key, kind = f"key:{number}", number % 6
    many = 400 if number % 997 == 0 else number % 20 + 1
    if kind == 0:
        pipe.set(key, text(number))
    elif kind == 1:
        pipe.rpush(key, *(text(number + place) for place in range(many)))
    elif kind == 2:
        numbers = number % 12 == 2
        pipe.sadd(key, *(place * 7 if numbers else f"member {place}" for place in range(many)))
    elif kind == 3:
        pipe.zadd(key, {f"member {place}": place / 3 - number for place in range(many)})
    elif kind == 4:
        pipe.hset(key, mapping={f"field {place}": text(number + place) for place in range(many)})
    else:
        for place in range(many):
            pipe.xadd(key, {"name": text(number), f"field {place % 3}": place}, id=f"{number}-{place + 1}")
        pipe.xgroup_create(key, "group", "0")
        pipe.xreadgroup("group", "one", {key: ">"}, count=3)
        pipe.xreadgroup("group", "two", {key: ">"}, count=3)
        pipe.xack(key, "group", f"{number}-1")
        pipe.xdel(key, f"{number}-2")
    if number % 5 == 0:
        pipe.expire(key, DAY + number)


def large(client, elements):
    for begin in range(0, elements, 10_000):
        numbers = range(begin, min(begin + 10_000, elements))
        pipe = client.pipeline(transaction=False)
        pipe.rpush("large list", *numbers)
        pipe.sadd("large set", *(f"member {number}" for number in numbers))
        pipe.sadd("large set of numbers", *numbers)
        pipe.hset("large hash", mapping={f"field {number}": f"value {number}" * 3 for number in numbers})
        pipe.zadd("large sorted set", {f"member {number}": number % 1000 for number in numbers})
        for number in numbers:
            pipe.xadd("large stream", {"number": number}, id=f"{number + 1}-0")
        pipe.execute()
    client.xgroup_create("large stream", "group", "0")
    client.xreadgroup("group", "one", {"large stream": ">"}, count=5000)
    client.set("large string", random.Random(2).randbytes(20 * elements))


def fill(client):
    for db in range(DATABASES):
        client.select(db)
        pipe = client.pipeline(transaction=False)
        # Half of all keys are in database 0.
        keys = KEYS // 2 if db == 0 else KEYS // 2 // (DATABASES - 1)
        for number in range(keys):
            small(pipe, number * DATABASES + db)
            if len(pipe) >= 2_000:
                pipe.execute()
        pipe.execute()
    client.select(3)
    large(client, KEYS)
    client.select(0)
    client.execute_command("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 5 end)")


def streams(client):
    """The facts about groups, which the digest has not."""
    found = {}
    for db in (0, 3, DATABASES - 1):
        client.select(db)
        keys = client.scan_iter(count=1000, _type="stream")
        for key in sorted(keys)[:500]:
            facts = client.xinfo_stream(key, full=True)
            found[db, key] = {name: facts[name] for name in FACTS}
    client.select(0)
    return found


def run(*arguments, kill_after=None):
    """Runs a copy. Returns its object, or None if it was killed."""
    process = subprocess.Popen([program, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    how = chance.choice((signal.SIGKILL, signal.SIGINT))
    try:
        out, errors = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(how)
        out, errors = process.communicate()
        # It may have ended just before.
        if process.returncode != 0:
            assert process.returncode in (-signal.SIGKILL, 130), (process.returncode, errors)
            return None
    assert process.returncode == 0, errors
    return json.loads(out)


def under_kills(seconds, *arguments):
    """Kills a copy at random moments, then lets it end. Returns what it says."""
    kills, ended, went_on = 0, 0, 0
    while kills < KILLS:
        done = run(*arguments, kill_after=chance.uniform(0, 3 * seconds / KILLS))
        kills += done is None
        ended += done is not None
        assert ended < 20 * KILLS
    done = run(*arguments)
    went_on = done["keys_before"]
    print(f"{' '.join(arguments[:1])}: {kills} kills, {ended + 1} ends, {done['keys']} keys, {went_on} of them before the last kill", flush=True)
    return done


def main():
    source, source_url, source_dir = begin_redis("source")
    target, target_url, _ = begin_redis("target")
    fill(source)
    assert source.save()
    digest, groups = source.execute_command("DEBUG", "DIGEST"), streams(source)
    sizes = {name: facts["keys"] for name, facts in source.info("keyspace").items()}
    rdb = os.path.join(source_dir, "dump.rdb")
    print(f"{sum(sizes.values())} keys, {os.path.getsize(rdb)} bytes of RDB, digest {digest.decode()}", flush=True)
    for name, origin in (("url", source_url), ("file", rdb)):
        began = time.monotonic()
        whole = run("import", "--db", os.path.join(scratch, f"{name}-whole"), origin)
        seconds = time.monotonic() - began
        assert whole["keys"] >= sum(sizes.values()) and whole["libraries"] == 1, whole
        print(f"import of a {name}: {seconds:.1f} s", flush=True)
        database = os.path.join(scratch, name)
        under_kills(seconds, "import", "--db", database, origin)
        under_kills(seconds, "export", "--db", database, target_url)
        found = target.execute_command("DEBUG", "DIGEST")
        assert found == digest, (name, found, digest)
        assert streams(target) == groups
        assert target.execute_command("FCALL", "f", 0) == 5
        assert {name: facts["keys"] for name, facts in target.info("keyspace").items()} == sizes
        target.flushall()
        target.execute_command("FUNCTION", "FLUSH")
    print("both copies came back with the digest of the source")


main()
