"""Measures a real Redis and `hedgerow serve` with the same keys. Prints a line of JSON for each."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import redis

program, scratch = sys.argv[1:3]
KEYS, BUDGETS = int(sys.argv[3]), sys.argv[4].split()
REQUESTS = 200_000
CLIENTS = 20
# The elements of a collection, and the digits of each.
ELEMENTS, DIGITS = 10, 20


def digits(*parts):
    """Hexadecimal digits, which take half of their bytes when compressed."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def string(number):
    return digits(number) + digits(number, 1)[:36]


def elements(number):
    return [digits(number, place)[:DIGITS] for place in range(ELEMENTS)]


def fields(number):
    return {f"field{place}": value for place, value in enumerate(elements(number))}


def scores(number):
    """The scores are times, as those of a queue or of a list of the newest."""
    return {member: 1_700_000_000 + number * ELEMENTS + place for place, member in enumerate(elements(number))}


# Names as redis-benchmark makes them of `__rand_int__`.
def name(number):
    return f"key:{number:012d}"


# The commands that write and read a key, and the bytes of its fields, scores and values.
DATA = {
    "strings": (lambda pipe, number: pipe.set(name(number), string(number)), ["GET"], 100),
    "hashes": (
        lambda pipe, number: pipe.hset(name(number), mapping=fields(number)),
        ["HGETALL"],
        ELEMENTS * (len("field0") + DIGITS),
    ),
    "zsets": (
        lambda pipe, number: pipe.zadd(name(number), scores(number)),
        ["ZRANGE", "0", "-1", "WITHSCORES"],
        ELEMENTS * (8 + DIGITS),
    ),
    "lists": (lambda pipe, number: pipe.rpush(name(number), *elements(number)), ["LRANGE", "0", "-1"], ELEMENTS * DIGITS),
}
CHOSEN = sys.argv[5].split() or list(DATA)


def payload(data):
    """The bytes of keys, fields, scores and values."""
    return KEYS * (len(name(0)) + DATA[data][2])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connected(port):
    client = redis.Redis(port=port)
    for _ in range(600):
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            time.sleep(0.1)
    raise AssertionError("expected a server, found none")


def memory(process):
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) / 1024


def disk(path):
    files = (os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files)
    return sum(os.stat(file).st_blocks * 512 for file in files) / 2**20


def rate(port, command):
    """Requests per second of redis-benchmark for random keys."""
    base = ["redis-benchmark", "-p", str(port), "-n", str(REQUESTS), "-c", str(CLIENTS), "-r", str(KEYS), "--csv"]
    lines = subprocess.run([*base, *command], capture_output=True, text=True, check=True).stdout.splitlines()
    return round(float(lines[-1].split(",")[1].strip('"')))


def measure(store, data, budget, arguments, path):
    put, (read, *range_of), _ = DATA[data]
    port = free_port()
    process = subprocess.Popen([*arguments, "--port", str(port)], stdout=subprocess.DEVNULL)
    client = connected(port)
    began = time.monotonic()
    for begin in range(0, KEYS, 1000):
        with client.pipeline(transaction=False) as pipe:
            for number in range(begin, min(begin + 1000, KEYS)):
                put(pipe, number)
            pipe.execute()
    loaded = time.monotonic() - began
    assert client.dbsize() == KEYS
    if store == "hedgerow":
        # Closed and opened again, so that the memory is that of a server with old data.
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        process = subprocess.Popen([*arguments, "--port", str(port)], stdout=subprocess.DEVNULL)
        client = connected(port)
    read = [read, "key:__rand_int__", *range_of]
    warm = rate(port, read)
    reads = rate(port, read)
    row = {
        "bench": "redis-cost",
        "store": store,
        "data": data,
        "keys": KEYS,
        "budget": budget,
        "payload_mib": round(payload(data) / 2**20, 1),
        "memory_mib": round(memory(process), 1),
        "load_seconds": round(loaded, 1),
        "first_reads_per_second": warm,
        "reads_per_second": reads,
    }
    if store == "redis":
        began = time.monotonic()
        client.save()
        row["save_seconds"] = round(time.monotonic() - began, 1)
    process.send_signal(signal.SIGTERM)
    process.wait()
    row["disk_mib"] = round(disk(path), 1)
    print(json.dumps(row), flush=True)


def main():
    for data in CHOSEN:
        path = os.path.join(scratch, f"redis-{data}")
        os.mkdir(path)
        options = ["redis-server", "--dir", path, "--save", "", "--rdbcompression", "yes"]
        measure("redis", data, "", options, path)
        for budget in BUDGETS:
            path = os.path.join(scratch, f"hedgerow-{data}-{budget}")
            options = [program, "serve", "--db", path, "--memory-budget", budget]
            measure("hedgerow", data, budget, options, path)


main()
