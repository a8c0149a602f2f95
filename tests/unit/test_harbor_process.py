"""A child that stands for Harbor: signals reach it, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tbh_action.harbor.process import HarborProcess, end_leftover

SHELL = ["/bin/bash", "-c"]
# What it ends leaves in the middle of nothing: no process may be older than the test.
GRANDCHILD = "sleep 97 & echo $! > pid; "


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split(") ")[1][0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


async def begun(script: str, folder: Path, log: Path | None = None) -> HarborProcess:
    """The process, once its script said that it is ready."""
    output = log or folder / "log"
    harbor = await HarborProcess.start(
        [*SHELL, f"cd {folder}; {script}"], {"PATH": os.environ["PATH"]}, output
    )
    while not (folder / "ready").exists():  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(0.01)
    return harbor


def test_start__adds_to_the_log_and_gives_the_environment(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n", encoding="utf-8")

    async def scene() -> int:
        harbor = await HarborProcess.start(
            [*SHELL, "echo $MINE; echo $HOME >&2; exit 7"], {"MINE": "x"}, tmp_path / "log"
        )
        return await harbor.wait()

    assert asyncio.run(scene()) == 7
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == ["before", "x"]


def test_wait__ends_what_was_left_in_its_session(tmp_path: Path) -> None:
    async def scene() -> None:
        harbor = await begun(f"{GRANDCHILD} touch ready", tmp_path)
        await harbor.wait()

    asyncio.run(scene())
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_stop__is_a_sigint_even_where_that_was_ignored(tmp_path: Path) -> None:
    """A shell ignores SIGINT in what it starts in the background; `Signals.install` undoes it."""
    script = (
        "import asyncio, signal, sys\n"
        "from pathlib import Path\n"
        "from tbh_action.controller.signals import Signals\n"
        "from tbh_action.harbor.process import HarborProcess\n"
        "async def main():\n"
        "    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN\n"
        "    Signals().install()\n"
        "    h = await HarborProcess.start(['/bin/bash', '-c', sys.argv[1]], {}, Path('log'))\n"
        "    while not Path('ready').exists(): await asyncio.sleep(0.01)\n"
        "    print(await h.stop(20))\n"
        "asyncio.run(main())\n"
    )
    trap = "trap 'exit 130' INT; touch ready; while :; do /bin/sleep 0.05; done"
    done = subprocess.run(
        [sys.executable, "-c", script, trap],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.stdout == "130\n", done.stderr


def test_stop__past_its_patience_everything_is_killed(tmp_path: Path) -> None:
    async def scene() -> int:
        script = f"trap '' INT; {GRANDCHILD} touch ready; wait; sleep 98"
        harbor = await begun(script, tmp_path)
        return await harbor.stop(patience=0.2)

    assert asyncio.run(scene()) == -signal.SIGKILL
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_stop__of_what_has_ended(tmp_path: Path) -> None:
    async def scene() -> int:
        harbor = await begun("touch ready; exit 3", tmp_path)
        await harbor.wait()
        return await harbor.stop()

    assert asyncio.run(scene()) == 3


@pytest.fixture
def left(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process whose command line names the run, in a session of its own."""
    return subprocess.Popen(
        [*SHELL, "trap 'exit 130' INT; while :; do sleep 0.05; done", str(tmp_path / "runs/a")],
        start_new_session=True,
    )


def test_end_leftover__a_harbor_of_this_run(left: subprocess.Popen[bytes], tmp_path: Path) -> None:
    import threading

    reaper = threading.Thread(target=left.wait)  # as init would
    reaper.start()
    time.sleep(0.2)
    assert end_leftover(left.pid, str(tmp_path / "runs/a"), patience=5) is True
    reaper.join(5)
    assert left.returncode == 130


def test_end_leftover__somebody_elses_process_lives(
    left: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    try:
        assert end_leftover(left.pid, str(tmp_path / "runs/b"), patience=0.1) is False
        assert left.poll() is None
    finally:
        left.kill()
        left.wait()


@pytest.mark.parametrize("pid", [None, 2**22 - 1])
def test_end_leftover__nobody(pid: int | None) -> None:
    assert end_leftover(pid, "/", patience=0.1) is False
