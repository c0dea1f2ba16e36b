"""Sentinel and its client over servers of ours: a failover that it makes, and one that is asked for."""

import os
import signal
import socket
import subprocess
import sys
import time

import redis
from redis.sentinel import Sentinel

PROGRAM, SCRATCH = sys.argv[1:]
NAME = "data"


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def until(what, is_so, seconds=60):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            if is_so():
                return
        except redis.RedisError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"expected {what} within {seconds} s")


class Server:
    def __init__(self, at):
        self.port = free_port()
        self.dir = os.path.join(SCRATCH, str(at))
        self.client = redis.Redis(port=self.port)
        self.begin()

    def begin(self, *arguments):
        words = [PROGRAM, "serve", "--db", self.dir, "--port", str(self.port), *arguments]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until("a server", self.client.ping)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()


def begin_sentinel(primary):
    port = free_port()
    path = os.path.join(SCRATCH, "sentinel.conf")
    with open(path, "w") as file:
        file.write(
            f"port {port}\nbind 127.0.0.1\ndir {SCRATCH}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 1\n"
            # More than a disk that is busy with other things lets a server wait: a second failover
            # in the middle of a check would be right, and not what the check looks for.
            f"sentinel down-after-milliseconds {NAME} 5000\n"
            f"sentinel failover-timeout {NAME} 10000\n"
        )
    log = open(os.path.join(SCRATCH, "sentinel.log"), "w")
    words = ["redis-server", path, "--sentinel"]
    return port, subprocess.Popen(words, stdout=log, stderr=log)


def main():
    servers = [Server(at) for at in range(3)]
    primary, replicas = servers[0], servers[1:]
    for replica in replicas:
        replica.client.replicaof("127.0.0.1", primary.port)
    port, process = begin_sentinel(primary)
    try:
        check(servers, Sentinel([("127.0.0.1", port)], socket_timeout=5))
    finally:
        process.kill()
        for server in servers:
            if server.process.poll() is None:
                server.end()


def check(servers, sentinel):
    control = sentinel.sentinels[0]
    until("a watched primary", lambda: sentinel.discover_master(NAME)[1] == servers[0].port)
    until("two known replicas", lambda: len(sentinel.discover_slaves(NAME)) == 2)
    print("sentinel finds the primary and its replicas: ok")

    client = sentinel.master_for(NAME)
    for at in range(200):
        client.set(f"key{at}", at)
    assert client.wait(2, 10_000) == 2
    servers[0].end(signal.SIGKILL)
    until("another primary", lambda: sentinel.discover_master(NAME)[1] != servers[0].port)
    leader = next(it for it in servers if it.port == sentinel.discover_master(NAME)[1])
    until("its new role", lambda: leader.client.info("replication")["role"] == "master")
    found = leader.client.mget([f"key{at}" for at in range(200)])
    assert found == [str(at).encode() for at in range(200)], found
    until("a write by the client", lambda: client.set("after", 1))
    print("sentinel promotes a replica, which has everything: ok")

    # The old primary comes back, and sentinel makes it a replica.
    servers[0].begin()
    until("the old primary as a replica", lambda: servers[0].client.info("replication")["role"] == "slave")
    others = [it for it in servers if it is not leader]
    for other in others:
        until("an equal replica", lambda: other.client.get("after") == b"1")
    roles = [it.client.info("replication")["role"] for it in (leader, *others)]
    assert roles == ["master", "slave", "slave"], roles
    for other in others:
        until("a link", lambda: other.client.info("replication")["master_link_status"] == "up")
    assert leader.client.info("stats")["sync_full"] == 0, leader.client.info("stats")
    print("the old primary follows the new one without a copy: ok")

    until("two replicas again", lambda: len(sentinel.discover_slaves(NAME)) == 2)
    until("a failover that was asked for", lambda: control.execute_command("SENTINEL FAILOVER", NAME))
    until("another primary", lambda: sentinel.discover_master(NAME)[1] != leader.port)
    until("a write by the client", lambda: client.set("again", 2))
    until("a replica of the client", lambda: sentinel.slave_for(NAME).get("again") == b"2")
    print("a failover that is asked for: ok")


main()
