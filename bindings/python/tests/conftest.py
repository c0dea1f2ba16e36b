"""Fixtures that the tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import hedgerow


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hedgerow.Database]:
    with hedgerow.open(tmp_path / "db", memory=32 << 20) as db:
        yield db
