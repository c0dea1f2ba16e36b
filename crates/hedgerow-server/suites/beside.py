"""Shared by the suites that measure `hedgerow serve` beside other servers."""

import csv
import os
import platform
import re
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def hedgerow():
    """The path of the program."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return os.environ.get("HEDGEROW", str(target / "release/hedgerow"))


def versions():
    """Those of the program and of redis-server."""
    own = subprocess.check_output([hedgerow(), "--version"], text=True).split()[-1]
    redis = subprocess.check_output(["redis-server", "--version"], text=True)
    return own, re.search(r"v=(\S+)", redis)[1]


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"cores": os.cpu_count(), "cpu": cpu[1].strip() if cpu else None,
            "kernel": platform.release()}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(port):
    for _ in range(200):
        try:
            with socket.create_connection(("127.0.0.1", port)) as it:
                it.sendall(b"*1\r\n$4\r\nPING\r\n")
                if it.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"the server on port {port} does not answer")


def processor_seconds(process):
    """The processor time of a process so far, its threads and its calls of the system included."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def benchmark(port, tests, requests, pipeline, keys=100_000):
    """Runs redis-benchmark with 50 clients and values of 100 bytes. Returns a row for each test."""
    command = ["redis-benchmark", "-p", str(port), "-t", tests, "-d", "100", "-r", str(keys),
               "-c", "50", "-n", str(requests), "-P", str(pipeline), "--csv"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith('"test"')]
    if done.returncode or not heads:
        raise SystemExit(f"redis-benchmark: {done.stderr or done.stdout}")
    rows = list(csv.DictReader(lines[heads[0]:]))
    expected = tests.count(",") + 1
    if len(rows) != expected:
        raise SystemExit(f"expected {expected} tests, found {len(rows)}: {done.stdout}")
    return rows


def latency(row):
    """Microseconds of a row of redis-benchmark."""
    return {name: float(row[f"{name}_latency_ms"]) * 1e3 for name in ("p50", "p95", "p99", "max")}
