"""CPython's tests of `dbm.open` and of `dbm.dumb`, over `hedgerow.dbm`."""

import dbm
import shutil
import unittest
from types import SimpleNamespace

from test import test_dbm, test_dbm_dumb

import hedgerow.dbm

test_dbm.dbm = SimpleNamespace(  # type: ignore[attr-defined]
    open=hedgerow.dbm.open, error=hedgerow.dbm.error, _defaultmod=dbm
)
# The flag of `dbm.dumb.open` is another one if there is none.
test_dbm_dumb.dumbdbm = SimpleNamespace(  # type: ignore[attr-defined]
    open=lambda file, flag="c", mode=0o666: hedgerow.dbm.open(file, flag, mode),
    error=hedgerow.dbm.error,
)


def delete_files() -> None:
    shutil.rmtree(test_dbm_dumb._fname, ignore_errors=True)


test_dbm_dumb._delete_files = delete_files


class AnyDBMTests(test_dbm.AnyDBMTestCase, unittest.TestCase):
    """The tests of every `dbm` module."""

    module = hedgerow.dbm


class DumbDBMTests(test_dbm_dumb.DumbDBMTestCase):
    """The tests of `dbm.dumb`, which is the whole interface in Python."""

    def setUp(self) -> None:
        # Some tests change what all of them share.
        self._dict = dict(type(self)._dict)
        super().setUp()
