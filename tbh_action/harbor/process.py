"""Harbor as a child process: started so that signals reach it, stopped so that it cleans up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

# A clean stop cancels the sandboxes; it has been seen to take about 14 s.
STOP_PATIENCE: Final = 30.0


class HarborProcess:
    """One pass. Harbor leads a session of its own, so that a Ctrl-C in the terminal reaches only
    us, and so that its children can be stopped with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.stopped_by_us = False

    @classmethod
    async def start(cls, argv: list[str], env: dict[str, str], log: Path) -> HarborProcess:
        """Starts Harbor; everything that it prints is added to `log`."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """The exit code (negative: the signal that ended it)."""
        code = await self._process.wait()
        self._end_group()
        return code

    async def stop(self, patience: float = STOP_PATIENCE) -> int:
        """SIGINT, which is the one signal that makes `run` and `resume` cancel their sandboxes;
        then, past `patience` seconds, the whole group is killed."""
        self.stopped_by_us = True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(patience):
                return await self.wait()
        except TimeoutError:
            self._end_group()
            return await self._process.wait()

    def _end_group(self) -> None:
        """Ends what Harbor left behind in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def end_leftover(pid: int | None, marker: str, patience: float = STOP_PATIENCE) -> bool:
    """Ends the Harbor of a controller that was killed, and waits until it is gone: two of them
    over one job would spoil it. Only when `pid` still is a process whose command line holds
    `marker` (the run's own path). True when there was one."""
    if pid is None or not _is_ours(pid, marker):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + patience
    while _is_ours(pid, marker) and time.monotonic() < deadline:
        time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True


def _is_ours(pid: int, marker: str) -> bool:
    try:
        return marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
