"""Calls that do not block the event loop."""

import asyncio
import struct
from pathlib import Path

import pytest

import hedgerow
from hedgerow import Database


def test_every_kind_of_call(db: Database) -> None:
    sums = db.keyspace("sums", merge_operator="add_i64")

    async def calls() -> None:
        await db.aput(b"a", b"1", sync=True)
        await db.aput(b"b", b"2", expire=3600)
        assert await db.aget(b"a") == b"1"
        assert await db.aget(b"x") is None
        assert await db.aget(b"x", 7) == 7
        assert await db.aget_many([b"a", b"x", b"b"], b"?") == [b"1", b"?", b"2"]
        assert await db.aget_many([]) == []
        await db.adelete(b"a")
        assert b"a" not in db
        await sums.amerge(b"n", struct.pack("<q", 3))
        await sums.amerge(b"n", struct.pack("<q", 4))
        assert sums[b"n"] == struct.pack("<q", 7)
        async with db.batch() as batch:
            batch.put_many([b"%04d" % i for i in range(1000)], [b""] * 1000)
        assert [key async for key, _ in db.aitems(stop=b"0999")] == [b"%04d" % i for i in range(999)]
        longest = [b"%05d" % i + b"k" * (65_536 - 5) for i in range(20)]
        sums.put_many(longest, [b""] * 20)
        assert [key async for key, _ in sums.aitems(start=b"00000")] == [*longest, b"n"]
        await db.adelete_range(b"0", b"1")
        assert list(db) == [b"b"]
        assert await db.atransact(lambda transaction: transaction[b"b"]) == b"2"
        await db.adurable()

    asyncio.run(calls())


def test_many_calls_at_once_from_files(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path / "db") as db:
        db.update({b"%05d" % i: b"v%d" % i * 50 for i in range(20_000)})
        db.flush()

    async def calls() -> None:
        async with hedgerow.open(tmp_path / "db", memory=4 << 20, workers=2) as db:
            async with asyncio.timeout(300):
                found = await asyncio.gather(*(db.aget(b"%05d" % i) for i in range(0, 20_000, 7)))
            assert found == [b"v%d" % i * 50 for i in range(0, 20_000, 7)]
            puts = (db.aput(b"new%d" % i, b"") for i in range(3000))
            async with asyncio.timeout(300):
                await asyncio.gather(*puts)
            assert await db.aget(b"new2999") == b""
            await db.acheckpoint(tmp_path / "copy")
        assert db.closed
        await db.aclose()

    asyncio.run(calls())
    # Another loop, after the first one is closed.
    asyncio.run(calls_again(tmp_path / "copy"))


async def calls_again(path: Path) -> None:
    async with hedgerow.open(path) as db:
        assert await db.aget(b"new1") == b""


def test_errors_are_those_of_the_calls(db: Database) -> None:
    async def calls() -> None:
        with pytest.raises(hedgerow.InvalidArgumentError):
            await db.aput(b"k" * 70_000, b"")
        with pytest.raises(TypeError):
            await db.aget("text")  # type: ignore[arg-type]
        await db.aclose()
        with pytest.raises(hedgerow.ClosedError):
            await db.aget(b"k")

    asyncio.run(calls())


def test_a_cancelled_call_leaves_others_alone(db: Database) -> None:
    async def calls() -> None:
        first = asyncio.ensure_future(db.aput(b"a", b"", sync=True))
        second = asyncio.ensure_future(db.aput(b"b", b"", sync=True))
        await asyncio.sleep(0)
        first.cancel()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert b"b" in db

    asyncio.run(calls())
