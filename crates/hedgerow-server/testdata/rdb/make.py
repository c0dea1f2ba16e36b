"""Makes an RDB file with a server, and a text of what the server says is in it.

    python3 make.py REDIS-SERVER NAME [OPTION...]

writes NAME.rdb and NAME.txt here, and the payload of each value to the corpus of the fuzzer `value`. It needs redis-py.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import redis

program, name, options = sys.argv[1], sys.argv[2], sys.argv[3:]
here = os.path.dirname(os.path.abspath(__file__))
corpus = os.path.join(here, "../../../../fuzz/corpus")
NUMBERS = [0, 12, -1, 127, 128, -128, 4095, -4096, 4096, 32767, -32768, 70000, -8388608, 8388608, 2**31, 2**40, -(2**63)]
WORDS = ["", "a", "word" * 10, "x" * 70, "long " * 60, *map(str, NUMBERS)]
LATER = 4_102_444_800_000


def fill(client):
    for number in NUMBERS:
        client.set(f"number {number}", number)
    client.set("empty", "")
    client.set("bytes", bytes(range(256)), pxat=LATER)
    client.set("compressed", "abc" * 700 + "".join(map(chr, range(32, 127))))
    # Small ones are in packs, large ones are not.
    for size, many in (("small", 3), ("large", 300)):
        names = [f"name{place}" for place in range(many)]
        client.rpush(f"{size} list", *names, *WORDS, *NUMBERS)
        client.sadd(f"{size} set", *names)
        client.sadd(f"{size} set of words", *names, *WORDS)
        client.sadd(f"{size} set of 16 bits", *range(-many, many))
        client.hset(f"{size} hash", mapping={word: place * 1000 for place, word in enumerate(names)})
        client.zadd(f"{size} sorted set", {word: place / 4 - 1 for place, word in enumerate(names)})
    client.sadd("set of 32 bits", 1, 70000, -70000)
    client.sadd("set of 64 bits", 1, 2**40, -(2**63))
    client.hset("hash of words", mapping={word: word for word in WORDS})
    client.hset("hash of short words", mapping={word: word for word in WORDS if len(word) < 64})
    client.zadd("sorted set of scores", {"a": float("inf"), "b": float("-inf"), "c": 3, "d": -1.5, "e": 1e100, "f": 0.1})
    client.rpush("list of long elements", "y" * 9000, "short", "short")
    client.select(9)
    stream(client)
    client.select(0)
    if client.info("server")["redis_version"] >= "7":
        client.execute_command("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 5 end)")


def stream(client):
    for number in range(120):
        fields = {"name": f"value {number}", "n": number} if number % 9 else {"other": "x" * number, "": "", "big": 2**50}
        client.xadd("stream", fields, id=f"{number // 3 * 1000 + 5}-{number % 3}")
    client.xdel("stream", "5-1", "1005-2", "33005-0")
    client.xgroup_create("stream", "group", "0")
    client.xgroup_create("stream", "other group", "$")
    client.xreadgroup("group", "one", {"stream": ">"}, count=7)
    client.xreadgroup("group", "two", {"stream": ">"}, count=2)
    client.xack("stream", "group", "1005-0")
    client.xadd("empty stream", {"a": "b"}, id="7-7")
    client.xdel("empty stream", "7-7")


def shown(word):
    """A word with its special bytes as Rust shows them."""
    word = word if isinstance(word, bytes) else str(word).encode()
    special = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(special.get(byte, chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in word)


def content(client, key):
    kind = client.type(key).decode()
    if kind == "string":
        words = [client.get(key)]
    elif kind == "list":
        words = client.lrange(key, 0, -1)
    elif kind == "set":
        words = sorted(client.smembers(key))
    elif kind == "hash":
        words = [word for pair in sorted(client.hgetall(key).items()) for word in pair]
    elif kind == "zset":
        scores = client.zrange(key, 0, -1, withscores=True)
        words = [word for member, score in sorted(scores) for word in (member, struct.pack(">d", score).hex())]
    else:
        words = of_stream(client, key)
    return [kind, *words]


def of_stream(client, key):
    facts = client.xinfo_stream(key)
    last, length = facts["last-generated-id"], facts["length"]
    words = ["last", last, "entries", length, "deleted", facts.get("max-deleted-entry-id", b"0-0")]
    words += ["added", facts.get("entries-added", length)]
    for identity, fields in client.xrange(key):
        words += [identity, *(word for pair in fields.items() for word in pair)]
    for group in client.xinfo_groups(key):
        read = group.get("entries-read")
        words += ["group", group["name"], group["last-delivered-id"], "read", "unknown" if read is None else read]
        for consumer in client.xinfo_consumers(key, group["name"]):
            words += ["consumer", consumer["name"], consumer["pending"]]
        for pending in client.xpending_range(key, group["name"], "-", "+", 100):
            words += ["pending", pending["message_id"], pending["consumer"], pending["times_delivered"]]
    return words


def main():
    directory = tempfile.mkdtemp()
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", f"{directory}/socket", "--dir", directory, "--save", "", *options],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(unix_socket_path=f"{directory}/socket")
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    fill(client)
    client.save()
    lines, payloads = [], []
    for db in (0, 9):
        client.select(db)
        for key in client.keys():
            expires = LATER if client.pttl(key) > 0 else 0
            lines.append(" ".join(map(shown, [db, f"<{shown(key)}>", expires, *content(client, key)])))
            payloads.append((key.decode(), client.dump(key)))
    if client.info("server")["redis_version"] >= "7":
        lines.append("library lib")
    with open(os.path.join(here, f"{name}.txt"), "w") as file:
        file.write("\n".join(sorted(lines)) + "\n")
    shutil.copy(f"{directory}/dump.rdb", os.path.join(here, f"{name}.rdb"))
    for key, payload in payloads:
        # Small ones, and a server of this kind is enough.
        if not key.startswith("number") and len(payload) < 4000:
            os.makedirs(f"{corpus}/value", exist_ok=True)
            with open(f"{corpus}/value/{name}-{key.replace(' ', '-')}", "wb") as file:
                # A fuzzer has no version and no checksum behind a value.
                file.write(payload[:-10])
    process.kill()
    shutil.rmtree(directory)


main()
