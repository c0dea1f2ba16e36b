"""Runs all test suites, says how many tests of each ran, and fails if that is another number.

    python suites/run.py                    all suites
    python suites/run.py plyvel mapping     these suites

Nobody here wrote plyvel's tests and those of CPython. plyvel's are fetched from PyPI, CPython's are
those of the interpreter that runs this.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).resolve().parent
#: plyvel's own tests, and the two that cannot pass.
PLYVEL = "plyvel==1.5.1"
PLYVEL_FAILS = {
    "test_comparator": "keys are in the order of their bytes; there is no order of a user",
    "test_approximate_sizes": "it writes keys of up to 99,900 bytes; keys have at most 65,536",
}
#: CPython's tests of `dbm.dumb` that are about its files.
DUMB_SKIPPED = {
    "test_dumbdbm_creation_mode": "the mode of its files",
    "test_eval": "the text of its index",
    "test_line_endings": "the text of its index",
    "test_missing_index": "the text of its index",
    "test_nonascii_filename": "the names of its files",
    "test_readonly_files": "the modes of its files",
}
if sys.version_info >= (3, 13):
    DUMB_SKIPPED |= {
        "test_missing_data": "which of its files there are",
        "test_sync_empty_unmodified": "when it writes its index",
        "test_sync_nonempty_unmodified": "when it writes its index",
    }


@dataclass
class Result:
    """The results of a suite."""

    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


class Counter:
    """Counts the tests of a run of pytest."""

    def __init__(self) -> None:
        self.result = Result()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.skipped:
            self.result.skipped[name] = str(report.longrepr)
        elif report.failed:
            self.result.failed[name] = report.longreprtext
        elif report.when == "call":
            self.result.passed += 1


def run_pytest(path: Path) -> Result:
    counter = Counter()
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", str(path)], plugins=[counter])
    return counter.result


def run_unittest(suite: unittest.TestSuite, skipped: dict[str, str]) -> Result:
    kept = unittest.TestSuite()
    result = Result(skipped=dict(skipped))
    found = list(flattened(suite))
    unknown = skipped.keys() - {name_of(test) for test in found}
    assert not unknown, f"these tests are gone: {unknown}"
    for test in found:
        if name_of(test) not in skipped:
            kept.addTest(test)
    outcome = unittest.TextTestRunner(verbosity=1).run(kept)
    for test, why in outcome.failures + outcome.errors:
        result.failed[name_of(test)] = why
    for test, why in outcome.skipped:
        result.skipped[name_of(test)] = why
    result.passed = outcome.testsRun - len(result.failed) - len(outcome.skipped)
    return result


def name_of(test: Any) -> str:
    return str(test.id()).rpartition(".")[2]


def flattened(suite: Any) -> list[Any]:
    if not isinstance(suite, unittest.TestSuite):
        return [suite]
    return [test for part in suite for test in flattened(part)]


def own() -> Result:
    """Our own tests."""
    return run_pytest(HERE.parent / "tests")


def address() -> Result:
    """Our own tests with AddressSanitizer's memory: wrong frees and copies out of bounds."""
    libraries = ["libasan.so", "libstdc++.so"]
    found = [subprocess.check_output(["gcc", f"-print-file-name={name}"]) for name in libraries]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(path.decode().strip() for path in found),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    with tempfile.TemporaryDirectory() as dir:
        report = Path(dir) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        # It keeps freed memory for a while, so the test of the budget means nothing.
        command += ["-k", "not memory_stays", f"--junit-xml={report}", str(HERE.parent / "tests")]
        subprocess.run(command, env=environment, check=False)
        result = Result()
        for test in ElementTree.parse(report).iter("testcase"):
            wrong = test.find("failure") if test.find("error") is None else test.find("error")
            if test.find("skipped") is not None:
                continue
            if wrong is None:
                result.passed += 1
            else:
                result.failed[test.attrib["name"]] = wrong.attrib.get("message", "")
        return result


def plyvel() -> Result:
    """plyvel's tests over `hedgerow.plyvel`."""
    import hedgerow.plyvel

    with tempfile.TemporaryDirectory() as dir:
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        fetch += ["--no-binary", ":all:", "--dest", dir, PLYVEL]
        subprocess.run(fetch, check=True)
        archive = next(Path(dir).glob("*.tar.gz"))
        with tarfile.open(archive) as files:
            member = files.extractfile(f"{archive.name.removesuffix('.tar.gz')}/test/test_plyvel.py")
            assert member is not None
            tests = Path(dir) / "test_plyvel.py"
            tests.write_bytes(member.read())
        sys.modules["plyvel"] = hedgerow.plyvel
        return run_pytest(tests)


def mapping() -> Result:
    """CPython's tests of the mapping protocol."""
    module = load(HERE / "cpython_mapping.py")
    return run_unittest(unittest.defaultTestLoader.loadTestsFromModule(module), {})


def dbm() -> Result:
    """CPython's tests of `dbm.open` and of `dbm.dumb` over `hedgerow.dbm`."""
    module = load(HERE / "cpython_dbm.py")
    with tempfile.TemporaryDirectory() as dir:
        before = os.getcwd()
        os.chdir(dir)
        try:
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
            return run_unittest(suite, DUMB_SKIPPED)
        finally:
            os.chdir(before)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Each suite with the number of its tests that pass, and those that fail.
SUITES: dict[str, tuple[Callable[[], Result], int, dict[str, str]]] = {
    "own": (own, 104, {}),
    "address": (address, 103, {}),
    "plyvel": (plyvel, 52, PLYVEL_FAILS),
    "mapping": (mapping, 14, {}),
    "dbm": (dbm, 31, {}),
}


def main(names: list[str]) -> int:
    wrong = False
    lines = []
    for name in names or list(SUITES):
        run, expected, fails = SUITES[name]
        result = run()
        ran = result.passed + len(result.failed)
        as_expected = result.passed == expected and result.failed.keys() == fails.keys()
        wrong |= not as_expected
        lines.append(
            f"{name}: {ran} tests ran, {result.passed} passed"
            + ("" if as_expected else f"; EXPECTED {expected} to pass")
        )
        for test in result.failed:
            lines.append(f"  {test} failed: {fails.get(test, 'NOT EXPECTED')}")
        for test, why in result.skipped.items():
            lines.append(f"  {test} skipped: {why}")
    print("\n".join(["", *lines]))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
