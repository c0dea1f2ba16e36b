"""Opens connections, sends bursts on all of them, and reads the memory of the server."""

import pathlib
import re
import socket
import sys
import time

port, process, count, budget_mib = map(int, sys.argv[1:])
# The goal is 64 for a lighter load; without giving memory back, 290 were taken.
MORE_MIB = 96
# The server gives memory back every few seconds.
SECONDS_MAX = 20
VALUE_BYTES = 1000
KEYS = 300_000
# The commands that each connection sends at once.
BURST = 64


def resident_mib():
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024


def connect():
    return socket.create_connection(("127.0.0.1", port))


def encode(*words):
    parts = [b"$%d\r\n%s\r\n" % (len(it), it) for it in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def receive(connection, ends):
    """Reads until so many replies of one line, or values with a line each, are there."""
    found = b""
    while found.count(b"\r\n") < ends:
        more = connection.recv(1 << 20)
        assert more, "expected replies, found the end"
        found += more
    return found


# More data than memory.
first = connect()
value = b"v" * VALUE_BYTES
for begin in range(0, KEYS, 1000):
    first.sendall(b"".join(encode(b"SET", b"k%d" % i, value) for i in range(begin, begin + 1000)))
    receive(first, 1000)
print(f"{resident_mib():7.1f} MiB with 1 connection, after {KEYS * VALUE_BYTES >> 20} MiB of data")

opened = [connect() for _ in range(count)]
for connection in opened:
    connection.sendall(encode(b"PING"))
    receive(connection, 1)
before = resident_mib()
print(f"{before:7.1f} MiB with {count} connections")

state = 1
for rounds in range(2):
    # A part of them at once, and each with a request that is larger than a buffer.
    for begin in range(0, count, 500):
        part = opened[begin : begin + 500]
        for place, connection in enumerate(part):
            keys = []
            for _ in range(BURST):
                state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
                keys.append((state >> 33) % KEYS)
            calls = [encode(b"GET", b"k%d" % key) for key in keys[:-1]]
            connection.sendall(b"".join(calls) + encode(b"SET", b"k%d" % keys[-1], value * (40 if place % 10 == 0 else 1)))
        for connection in part:
            receive(connection, 2 * (BURST - 1) + 1)
    print(f"{resident_mib():7.1f} MiB after round {rounds + 1} of {BURST} commands on each")

first.sendall(encode(b"INFO", b"memory"))
info = receive(first, 12).decode()
engine = int(re.search(r"used_memory:(\d+)", info)[1]) / (1 << 20)
buffers = int(re.search(r"used_memory_clients:(\d+)", info)[1]) / (1 << 20)
print(f"{engine:7.1f} MiB of these are the engine's, {buffers:.1f} MiB buffers of clients")
allowed = budget_mib + MORE_MIB
ends = time.monotonic() + SECONDS_MAX
while (after := resident_mib()) > allowed and time.monotonic() < ends:
    time.sleep(1)
assert after <= allowed, f"expected at most {allowed} MiB, found {after:.1f} MiB"
print(f"{count} connections: {after:.1f} MiB of {allowed} MiB")
