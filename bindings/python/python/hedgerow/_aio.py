"""Calls of the engine that the event loop of ``asyncio`` waits for."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from . import _native


class _Waiting:
    """The calls that one event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.completions = _native.Completions()
        self.numbers = count()
        self.calls: dict[int, tuple[_native.Call, asyncio.Future[Any]]] = {}
        loop.add_reader(self.completions.fileno(), self.deliver)

    def deliver(self) -> None:
        """Give the results of completed calls to those who wait for them."""
        for number in self.completions.take():
            call, future = self.calls.pop(number, (None, None))
            if call is None or future is None or future.done():
                continue
            try:
                result = call.poll(self.completions, number)
            except BaseException as error:
                future.set_exception(error)
                continue
            if result is None:
                self.calls[number] = (call, future)
            else:
                future.set_result(result[0])


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()


async def wait(call: _native.Call) -> Any:
    """Wait for a call. What memory answers is returned at once."""
    loop = asyncio.get_running_loop()
    waiting = _LOOPS.get(loop)
    if waiting is None:
        waiting = _LOOPS[loop] = _Waiting(loop)
    number = next(waiting.numbers)
    result = call.poll(waiting.completions, number)
    if result is not None:
        return result[0]
    future: asyncio.Future[Any] = loop.create_future()
    waiting.calls[number] = (call, future)
    try:
        return await future
    finally:
        waiting.calls.pop(number, None)
