"""Runs redis-py's tests on a server, and compares the outcomes with what was expected."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Tests for other servers than a single one without TLS and modules.
MARKS = "not onlycluster and not redismod and not ssl and not cp_integration and not replica and not multidb_integration"
SECONDS_MAX = 60


def lines(name):
    for line in (HERE / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def without_parameters(test):
    return test.split("[")[0]


class Outcomes:
    """A plugin that leaves out what is named and remembers how the others ended."""

    def __init__(self, named):
        self.named, self.found = named, {}

    def pytest_collection_modifyitems(self, items):
        named = lambda it: it.nodeid in self.named or without_parameters(it.nodeid) in self.named
        items[:] = [it for it in items if not named(it)]

    def pytest_runtest_logreport(self, report):
        before = self.found.get(report.nodeid, ("passed", ""))
        if report.when == "call" and report.passed:
            self.found.setdefault(report.nodeid, before)
        elif report.failed or report.skipped and before[0] == "passed":
            text = str(report.longrepr)
            if report.failed:
                found = [it for it in text.splitlines() if it.startswith("E ")]
                text = (found or text.splitlines()[-1:] or [""])[0]
            self.found[report.nodeid] = (report.outcome, text)


def run(url, protocol, outcomes, *words):
    """The process that runs the tests: files, and behind `--` the named ones."""
    import pytest

    at = words.index("--")
    plugin = Outcomes(set(words[at + 1 :]))
    code = pytest.main(
        ["--redis-url", url, "--protocol", protocol, "-m", MARKS, "-o", "addopts=", "-o", "log_cli=false", "-o", "filterwarnings=default",
         "-p", "no:cacheprovider", "-q", "--no-header", "--tb=short", "--timeout", str(SECONDS_MAX),
         *words[:at]],
        plugins=[plugin],
    )
    pathlib.Path(outcomes).write_text(json.dumps(plugin.found))
    # 1: some failed, which the outcomes say.
    return 0 if code in (0, 1) else int(code)


class Server:
    """A server on an empty directory."""

    def __init__(self, command):
        self.directory = tempfile.mkdtemp(prefix="redis-py-own-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [it.format(dir=self.directory, port=self.port) for it in command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait()
        shutil.rmtree(self.directory)
        if code:
            raise SystemExit(f"the server ended with {code}")


def outcomes_on(command, tests, protocol, files, named):
    """The end of each test, and its reason."""
    with Server(command) as server, tempfile.NamedTemporaryFile() as found:
        words = [sys.executable, "-B", __file__, "run", f"redis://127.0.0.1:{server.port}/0", protocol, found.name,
                 *files, "--", *named]
        with tempfile.TemporaryFile("w+") as log:
            code = subprocess.run(words, cwd=tests, stdout=log, stderr=subprocess.STDOUT).returncode
            if code or os.environ.get("REDIS_PY_LOG"):
                log.seek(0)
                print(log.read())
            if code:
                raise SystemExit(f"pytest ended with {code}")
        return json.loads(pathlib.Path(found.name).read_text())


def main(hedgerow, tests, *chosen):
    units = {}
    for line in lines("redis-py-units.txt"):
        name, two, three, *quick = line.split()
        units[f"tests/{name}"] = ({"2": int(two), "3": int(three)}, bool(quick))
    named = dict(re.split(r"  +# ", line, maxsplit=1) for line in lines("redis-py-skipped.txt"))
    beside = chosen == ("beside",)
    if beside or chosen == ("all",):
        files = list(units)
    elif chosen == ("quick",):
        files = [it for it, (_, quick) in units.items() if quick]
    else:
        files = [f"tests/{it.removeprefix('tests/')}" for it in chosen]
    ours = [hedgerow, "serve", "--db", "{dir}/db", "--port", "{port}"]
    redis = ["redis-server", "--dir", "{dir}", "--port", "{port}", "--save", "", "--enable-debug-command", "yes"]
    is_wrong = False
    for protocol in ("2", "3"):
        began = time.monotonic()
        found = outcomes_on(ours, tests, protocol, files, named)
        total = 0
        for file in files:
            passed = sum(it.startswith(f"{file}::") and how == "passed" for it, (how, _) in found.items())
            expected = units.get(file, ({protocol: 1},))[0][protocol]
            is_wrong |= passed < expected
            total += passed
            print(f"RESP{protocol} {file:44} {passed:5} passed, {expected:5} expected")
        seconds = time.monotonic() - began
        print(f"RESP{protocol} {'total':44} {total:5} passed, {seconds:.0f} s", flush=True)
        for test, (how, why) in found.items():
            if how == "failed":
                is_wrong = True
                print(f"failed: {test}\n    {why}")
        if beside:
            theirs = outcomes_on(redis, tests, protocol, files, [])
            good = {it for it, (how, _) in theirs.items() if how == "passed"}
            bad = sum(how == "failed" for how, _ in theirs.values())
            print(f"RESP{protocol} {'on redis-server':44} {len(good):5} passed, {bad} failed")
            is_named = lambda it: it in named or without_parameters(it) in named
            missing = [it for it in good if found.get(it, [""])[0] != "passed" and not is_named(it)]
            is_wrong |= bool(missing)
            for test in sorted(missing):
                print(f"passes there and not here: {test}: {found.get(test)}")
            for test, (how, why) in theirs.items():
                if how == "failed":
                    print(f"fails there, here {found.get(test, ['is named'])[0]}: {test}\n    {why}")
    print(f"{len(named)} tests are named as skipped")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[2:]) if sys.argv[1] == "run" else main(*sys.argv[1:]))
