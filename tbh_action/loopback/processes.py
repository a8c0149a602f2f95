"""The process behind a job: a model server or a sandbox, each on a Unix socket of its own, or the
controller of a detached run.

All end when their standard input does, and only the Hub holds its other end: a Hub that dies, in
whatever way, takes all of them along.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tbh_action.detached.job import MARK
from tbh_action.loopback import isolation, tasks

_END_PATIENCE: Final = 5.0
_LINE_LIMIT: Final = 1 << 20
# What a machine of its own would not have.
_NOT_INHERITED: Final = ("HF_", "TBH_", "GITHUB_", "OPENAI_", "PYTHONPATH")


class JobProcess:
    """A running process, the socket it serves on, and its output line by line to `log`."""

    def __init__(self, process: asyncio.subprocess.Process, socket: Path) -> None:
        self._process = process
        self.socket = socket
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        socket: Path,
        *,
        log: Callable[[str], None],
        first_line: str | None = None,
    ) -> JobProcess:
        env = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            start_new_session=True,
            limit=_LINE_LIMIT,
        )
        self = cls(process, socket)
        self._reader = asyncio.create_task(self._read(log))
        if first_line is not None:
            assert process.stdin is not None
            process.stdin.write(first_line.encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await process.stdin.drain()
        return self

    async def ended(self) -> int:
        """Waits for the end; the exit code, negative for a signal."""
        code = await self._process.wait()
        if self._reader is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(self._reader), 0.5)
        return code

    async def stop(self) -> None:
        """Ends the process and all that it started, and takes its socket away."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_PATIENCE)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        if self._reader is not None:
            self._reader.cancel()
        self.socket.unlink(missing_ok=True)
        self.socket.with_suffix(".new").unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL now, as when a machine dies: nothing of it must hear a moment before that its
        standard input ended. What sudo started can't be killed by us, and is told so."""
        try:
            self._process.kill()
        except ProcessLookupError:
            pass
        except PermissionError:
            if self._process.stdin is not None:
                self._process.stdin.close()

    async def _read(self, log: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # a line beyond the limit ends the log
            async for line in self._process.stdout:
                log(line.decode("utf-8", "replace").rstrip("\n"))


def model_command(
    command: Sequence[str], socket: Path, *, loading: float, thinking: float
) -> list[str] | None:
    """The command that stands for a server job's own, None if it starts no model server.

    Known are `demo-model-server`, `sglang serve`, `vllm serve` and `llama-server`, and their
    options for the model's name and window.
    """
    words = list(command)
    program = Path(words[0]).name if words else ""
    if program not in ("demo-model-server", "sglang", "vllm", "llama-server") and not any(
        word.startswith(("sglang.", "vllm.")) for word in words
    ):
        return None
    model = _option(words, "--served-model-name", "--alias", "--model-path", "--model", "-hf")
    if model is None and program == "vllm" and len(words) > 2:
        model = words[2]
    context = _option(words, "--context-length", "--max-model-len", "--ctx-size") or "32768"
    loading = float(_option(words, "--load-seconds") or loading)
    thinking = float(_option(words, "--think-seconds") or thinking)
    return [
        *(sys.executable, "-m", "tbh_action.loopback.model_server"),
        *("--socket", str(socket), "--model", model or "unknown/model"),
        *("--context", context, "--load", f"{loading:g}", "--think", f"{thinking:g}"),
    ]


def sandbox_config(
    *, image: str, environment: dict[str, Any], token: str, socket: Path, root: Path
) -> str:
    """What a sandbox's server is told on its standard input."""
    env = {key: str(value) for key, value in environment.items() if not key.startswith("SBX_")}
    config = {
        "socket": str(socket),
        "root": str(root),
        "token": token,
        "env": env,
        "build": tasks.image_build(image),
    }
    return json.dumps(config)


def sandbox_command() -> list[str]:
    """The command that runs a sandbox's server in namespaces of its own."""
    return isolation.server_command(isolation.launcher())


def controller_arguments(command: Sequence[str]) -> list[str] | None:
    """What the controller is called with, None if the job's command starts none. The package that
    the command would install comes first; here it is the one that runs."""
    words = list(command)
    return words[words.index(MARK) + 2 :] if MARK in words else None


def controller_config(
    request: Mapping[str, Any], environment: Mapping[str, str], folder: Path
) -> str:
    """What the machine of a controller is told on its standard input."""
    machine = folder / "machine"
    machine.mkdir(exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_INHERITED)}
    for given in (environment, request.get("environment"), request.get("secrets")):
        env |= {key: str(value) for key, value in (given or {}).items()}
    arguments = controller_arguments(request["command"]) or []
    argv = [sys.executable, "-m", "tbh_action.detached.controller", *arguments]
    return json.dumps({"argv": argv, "env": env, "folder": str(machine)})


def controller_command() -> list[str]:
    """The command that runs a controller in namespaces of its own."""
    box = Path(__file__).with_name("controller_box.py")
    return [*isolation.launcher(), sys.executable, "-I", "-S", "-B", str(box)]


def _option(words: Sequence[str], *names: str) -> str | None:
    for name in names:
        for at, word in enumerate(words):
            if word == name and at + 1 < len(words):
                return words[at + 1]
            if word.startswith(name + "="):
                return word.removeprefix(name + "=")
    return None
