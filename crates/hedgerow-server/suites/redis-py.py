"""The work of programs with redis-py: pipelines, transactions, messages, waiting, walks."""

import sys
import threading

import redis

port, protocol = int(sys.argv[1]), int(sys.argv[2])
r = redis.Redis(port=port, protocol=protocol, decode_responses=True)
binary = redis.Redis(port=port, protocol=protocol, db=1)
r.flushall()

# A feature store: fields of a binary key, in pipelines, with an expiry.
key = b"\x00entity\xff\r\n"
pipe = binary.pipeline(transaction=False)
for i in range(100):
    pipe.hset(key + str(i).encode(), mapping={b"a": str(i), b"b\x00": b"\xfe"})
    pipe.expire(key + str(i).encode(), 1000)
assert pipe.execute() == [2, True] * 100
pipe = binary.pipeline(transaction=False)
for i in range(100):
    pipe.hmget(key + str(i).encode(), [b"a", b"b\x00", b"none"])
assert pipe.execute() == [[str(i).encode(), b"\xfe", None] for i in range(100)]
assert len(list(binary.scan_iter(match=b"\x00entity*", count=7))) == 100
assert binary.dbsize() == 100 and r.dbsize() == 0

# A counter that is changed by transactions of several threads.
def add():
    own = redis.Redis(port=port, protocol=protocol)
    for _ in range(50):
        own.transaction(lambda pipe: (value := int(pipe.get("n") or 0), pipe.multi(), pipe.set("n", value + 1)), "n")

threads = [threading.Thread(target=add) for _ in range(4)]
[it.start() for it in threads]
[it.join() for it in threads]
assert r.get("n") == "200"

# A queue, whose reader waits.
found = []
reader = threading.Thread(target=lambda: found.append(redis.Redis(port=port, protocol=protocol).blpop(["jobs", "others"], 20)))
reader.start()
while r.info("clients")["blocked_clients"] == 0:
    pass
r.rpush("jobs", "one", "two")
reader.join()
assert [tuple(it) for it in found] == [(b"jobs", b"one")]
assert r.lmove("jobs", "done", "LEFT", "RIGHT") == "two"

# Messages.
listener = r.pubsub()
listener.subscribe("news")
listener.psubscribe("n*")
assert [listener.get_message(timeout=20)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
assert r.publish("news", "hello") == 2
assert [listener.get_message(timeout=20)["data"] for _ in range(2)] == ["hello", "hello"]

# Sorted sets, sets, lists, locks.
r.zadd("board", {"ada": 3.5, "alan": 1, "grace": 2})
assert r.zrange("board", 0, -1, withscores=True)[0][0] == "alan"
assert float(r.zscore("board", "ada")) == 3.5
assert r.zrevrangebyscore("board", "+inf", "(1") == ["ada", "grace"]
r.sadd("s", *range(1000))
assert len(set(r.sscan_iter("s", count=17))) == 1000
assert r.set("lock", "x", nx=True, ex=10) and r.set("lock", "x", nx=True) is None
assert 0 < r.ttl("lock") <= 10
assert r.rename("board", "board2") and r.type("board2") == "zset"
assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
assert r.client_setname("suite") and r.client_getname() == "suite"
print(f"redis-py {redis.__version__}, protocol {protocol}: ok")
