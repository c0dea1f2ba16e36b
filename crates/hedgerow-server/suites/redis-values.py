"""Moves values from a real Redis to `hedgerow serve` by DUMP and RESTORE, and back."""

import sys

import redis


def values():
    """Commands that make a value, each with a name. Together they bring all encodings."""
    words = ["a", "", "12", "-1", "127", "-4096", "70000", "-9000000", "5000000000", "word" * 20]
    yield "empty string", ["SET", "k", ""]
    for number in (0, -1, 300, -40000, 2**31, 2**62):
        yield f"string {number}", ["SET", "k", number]
    yield "bytes", ["SET", "k", bytes(range(256))]
    yield "compressible string", ["SET", "k", "abc" * 5000]
    yield "long string", ["SET", "k", bytes(i * i % 251 for i in range(100_000))]
    for many in (1, 40, 3000):
        names = [f"name{i}" for i in range(many)]
        yield f"list of {many}", ["RPUSH", "k", *names, *words]
        yield f"list of {many} numbers", ["RPUSH", "k", *range(-many, many)]
        yield f"set of {many}", ["SADD", "k", *names, *words]
        yield f"set of {many} numbers", ["SADD", "k", *range(-many, many)]
        yield f"hash of {many}", ["HSET", "k", *(part for i in names for part in (i, i * 3))]
        scores = [part for i, name in enumerate(names) for part in (i / 3 - 5, name)]
        yield f"sorted set of {many}", ["ZADD", "k", *scores, "inf", "high", "-inf", "low"]
    yield "set of long numbers", ["SADD", "k", 2**40, -(2**40)]
    yield "list of large elements", ["RPUSH", "k", "x" * 9000, "y" * 20_000, "z"]
    yield "hash of large values", ["HSET", "k", "f", "v" * 5000, "g", "short"]
    yield "hash of words", ["HSET", "k", *(part for word in words for part in (word, word))]


def content(client):
    reads = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    kind = client.type("k")
    return kind, reads[kind]("k")


def main(ours, theirs):
    ours, theirs = (redis.Redis(port=int(port)) for port in (ours, theirs))
    moved = 0
    for name, command in values():
        for source, target in ((theirs, ours), (ours, theirs)):
            source.delete("k")
            target.delete("k")
            source.execute_command(*command)
            expected = content(source)
            payload = source.dump("k")
            target.restore("k", 100_000, payload)
            assert content(target) == expected, name
            assert 0 < target.pttl("k") <= 100_000, name
            for damaged in (payload[:-1], payload[:5] + bytes([payload[5] ^ 1]) + payload[6:]):
                try:
                    target.restore("k", 0, damaged, replace=True)
                except redis.ResponseError:
                    continue
                raise AssertionError(f"{name}: a damaged payload was taken")
            moved += 1
    print(f"{moved} values moved between Redis {theirs.info()['redis_version']} and this server")
    assert moved == 2 * sum(1 for _ in values())


main(*sys.argv[1:])
