"""SIGINT and SIGTERM: they end a leg, and in its last seconds they wait for the answer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_BOTH: Final = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """The first SIGINT or SIGTERM of this leg; later ones change nothing."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._came = asyncio.Event()

    def install(self) -> None:
        """Takes over both signals for the running loop. It also restores SIGINT for Harbor, which
        a shell ignores in what it starts in the background."""
        loop = asyncio.get_running_loop()
        for number in _BOTH:
            loop.add_signal_handler(number, self._take, number)

    def _take(self, number: int) -> None:
        self.number = self.number or number
        self._came.set()

    async def wait(self) -> None:
        await self._came.wait()


@contextlib.contextmanager
def answering(say: Callable[[str], None]) -> Iterator[None]:
    """All is measured, and what remains takes seconds: the first signal waits for it. The second
    one ends the process as it ever does."""

    def wait(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (signal's signature)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        say(f"{signal.Signals(number).name}: writing the report first; once more ends it at once")

    before = [(number, signal.signal(number, wait)) for number in _BOTH]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
