"""Fills the disk under a server, makes room again, and kills it: what was acknowledged is there."""

import atexit
import os
import random
import signal
import subprocess
import sys

import redis

program, directory = sys.argv[1:]
ballast = os.path.join(directory, "ballast")
BALLAST = 32 << 20


def begin():
    command = [program, "serve", "--db", os.path.join(directory, "db"), "--port", "0"]
    server = subprocess.Popen([*command, "--memory-budget", "32MiB"], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    return server, redis.Redis(port=port)


def value(number):
    return random.Random(number).randbytes(4000)


def write(client, numbers):
    """Writes until all is written or refused. Returns the acknowledged and the refused."""
    acknowledged, refused = [], []
    for number in numbers:
        try:
            client.set(f"k{number}", value(number))
            client.hset("hash", f"f{number}", number)
            acknowledged.append(number)
        except redis.ResponseError as error:
            refused.append(str(error))
            if len(refused) == 50:
                break
    return acknowledged, refused


def check(client, acknowledged):
    for number in acknowledged:
        assert client.get(f"k{number}") == value(number), number
        assert client.hget("hash", f"f{number}") == b"%d" % number, number


with open(ballast, "wb") as file:
    file.write(bytes(BALLAST))
server, client = begin()
atexit.register(lambda: server.kill())
first, refused = write(client, range(1_000_000))
assert len(refused) == 50 and first, (len(first), refused)
print(f"{len(first)} writes, then: {refused[0]}")
check(client, first)
os.remove(ballast)
again, refused = write(client, range(1_000_000, 1_000_500))
assert len(again) == 500, refused[:1]
print(f"room again: {len(again)} writes")
check(client, first + again)
server.send_signal(signal.SIGKILL)
server.wait()
server, client = begin()
check(client, first + again)
last, refused = write(client, range(2_000_000, 2_000_500))
assert len(last) == 500, refused[:1]
check(client, first + again + last)
print(f"after a kill: {len(first + again)} acknowledged writes are there, 500 more were taken")
server.terminate()
assert server.wait() == 0
