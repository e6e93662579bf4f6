"""An event loop whose clock stands still while there is something to do, and then jumps to the next timer.

What a test says of times is exact, takes none, and does not depend on how busy the machine is. It is for code that has
both ends of its sockets in the loop, and no thread that has to answer: the clock would not wait for it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


class JumpingLoop(asyncio.SelectorEventLoop):
    """`now` is its time, in seconds; a test may move it on, as if the loop had stood still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """The time by the clock that jumps."""
        return self.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now. If nothing is, the time until the next timer has passed."""
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None:
            self._loop.now += timeout
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, as asyncio.run does."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


def running_loop() -> JumpingLoop:
    """The loop of who asks."""
    return cast(JumpingLoop, asyncio.get_running_loop())
