"""One run of the real `tbh run` against a loopback Hub with faults, and what is left of it.

The scripted model's true outcome of each task is known, so that a wrong classification shows.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbh_action.harbor import archive
from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_REPO_URL
from tbh_action.rundir import RunDir, read_lines
from tbh_action.scoring import ledger

TRUTH = {
    "demo/hello-file": "passed",
    "demo/fix-git": "passed",
    "demo/count-errors": "passed",
    "demo/csv-totals": "failed",
}
TBH = [sys.executable, "-m", "tbh_action"]
PATIENCE = 240.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault and what must come of it.

    `act` is called in a thread of its own once `tbh run` has started. `codes` are the right exit
    codes of the last call. `unscored`: classes that tasks without a score may have; with none,
    every task must be scored. `says` must be found in the output when the code is not 0. `again`
    is how often the same command is given once more (after a kill). `disk_mb`: the run lives on a
    file system of that size (root only). `clock`: seconds that the wall clock is off
    (`clock.c`); `Scene.set_clock` changes them.
    """

    name: str
    rules: tuple[Mapping[str, Any], ...] = ()
    args: tuple[str, ...] = ()
    act: Callable[[Scene], None] | None = None
    codes: frozenset[int] = frozenset({0})
    unscored: frozenset[str] = frozenset()
    says: str = ""
    again: int = 0
    disk_mb: int = 0
    clock: int | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of a case."""

    name: str
    survived: bool
    code: int
    lost: int
    wrong: int
    left: int
    seconds: float
    trouble: str = ""


class Scene:
    """A Hub, a run directory, and the `tbh` process at work in it."""

    def __init__(self, hub: LoopbackHub, root: Path, case: Case) -> None:
        self.hub = hub
        self.run_dir = RunDir(root)
        self.case = case
        self.process: subprocess.Popen[str] | None = None
        self.output = ""

    def start(self) -> None:
        arguments = ["run", "--recipe", str(DEMO_MODEL_RECIPE), "--repo", DEMO_REPO_URL]
        for task in TRUTH:
            arguments += ["--include-task", task]
        arguments += ["--n-concurrent", "3", "--run-dir", str(self.run_dir.root)]
        env = {**os.environ, **self.hub.environment(), **self.case.env, **self._clock()}
        self.process = subprocess.Popen(
            [*TBH, *arguments, *self.case.args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _clock(self) -> dict[str, str]:
        if self.case.clock is None:
            return {}
        library = self.run_dir.root.with_name("clock.so")
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.set_clock(self.case.clock)
        return {"LD_PRELOAD": str(library), "BENCH_CLOCK": str(self._clock_file)}

    @property
    def _clock_file(self) -> Path:
        return self.run_dir.root.with_name("clock")

    def set_clock(self, seconds: int) -> None:
        """Puts the wall clock of `tbh` and Harbor off by so much from now on."""
        self._clock_file.write_text(str(seconds), encoding="utf-8")

    def fill_disk(self) -> Path:
        """Writes until nothing more fits; returns the file to remove."""
        filler = self.run_dir.root / ".filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 65536)
        return filler

    def wait(self) -> int:
        assert self.process is not None
        try:
            said, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=40)
            self.process.kill()
            said, _ = self.process.communicate()
            said += f"\n(the bench stopped it after {PATIENCE:.0f} s)"
        self.output += said
        return self.process.returncode

    def until(self, event: str, count: int = 1, patience: float = 90.0) -> bool:
        """Waits until the run's events hold `count` of a kind."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            seen = sum(line.get("event") == event for line in read_lines(self.run_dir.events))
            if seen >= count:
                return True
            time.sleep(0.05)
        return False

    def until_ended(self) -> None:
        """Waits for the `tbh` process."""
        assert self.process is not None
        while self.process.poll() is None:
            time.sleep(0.1)

    def cleanup(self) -> None:
        """`tbh cleanup` for this run."""
        subprocess.run(
            [*TBH, "cleanup", "--run", self.run_dir.name, "--runs-dir", self.run_dir.root.parent],
            env={**os.environ, **self.hub.environment()},
            check=False,
            capture_output=True,
        )

    def server(self) -> dict[str, Any]:
        """The newest server job."""
        return [job for job in self.hub.jobs() if job["kind"] == "server"][-1]

    def kill_server(self) -> None:
        self.hub.kill_job(self.server()["id"])

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)


def play(case: Case) -> tuple[Row, str]:
    """Plays a case; returns its row and everything that was printed."""
    with (
        tempfile.TemporaryDirectory(prefix="tbh-bench-") as folder,
        LoopbackHub(faults=case.rules, settings=dict(case.settings)) as hub,
        ExitStack() as stack,
    ):
        scene = Scene(hub, Path(folder) / "run", case)
        stack.enter_context(_small_disk(scene.run_dir.root, case.disk_mb))
        started = time.monotonic()
        code = 0
        for turn in range(case.again + 1):
            scene.start()
            actor = None
            if case.act is not None and turn == 0:
                actor = threading.Thread(target=case.act, args=(scene,), daemon=True)
                actor.start()
            code = scene.wait()
            if actor is not None:
                actor.join(30)
        seconds = time.monotonic() - started
        hub.wait_until_idle(3)
        return _row(scene, code, seconds), scene.output


@contextmanager
def _small_disk(root: Path, size_mb: int) -> Iterator[None]:
    if not size_mb:
        yield
        return
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", root], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", root], check=True)


def _row(scene: Scene, code: int, seconds: float) -> Row:
    case = scene.case
    lost, wrong, trouble = lost_attempts(scene.run_dir), 0, ""
    tasks = _tasks(scene.run_dir)
    for row in tasks:
        if row["status"] == "errored":
            bad = row["class"] not in case.unscored
        else:
            bad = row["status"] != TRUTH[row["task"]]
        wrong += bad
        if bad:
            trouble += f"{row['task']}: {row['status']} {row['class']} ({row['reason']}); "
    survived = code in case.codes and not wrong
    if code not in case.codes:
        trouble += f"exit code {code}; "
    if code != 0 and case.says and not re.search(case.says, scene.output):
        survived, trouble = False, f"{trouble}does not say {case.says!r}; "
    if "Traceback" in scene.output:
        survived, trouble = False, f"{trouble}a traceback; "
    left = len(scene.hub.alive()) + len(processes_of(scene.run_dir.root))
    return Row(
        name=case.name,
        survived=survived,
        code=code,
        lost=lost,
        wrong=wrong,
        left=left,
        seconds=seconds,
        trouble=trouble,
    )


def _tasks(run_dir: RunDir) -> list[dict[str, Any]]:
    if not run_dir.results.exists():
        return []
    tasks: list[dict[str, Any]] = json.loads(run_dir.results.read_text(encoding="utf-8"))["tasks"]
    return tasks


def lost_attempts(run_dir: RunDir) -> int:
    """Trials that ended and are not in the ledger, and those in the ledger whose directory is
    gone."""
    known = {attempt.trial for attempt in ledger.read_attempts(run_dir.attempts)}
    ended = {
        str(event["trial"]) for event in read_lines(run_dir.events) if event.get("event") == "end"
    }
    places = [run_dir.harbor_job, *run_dir.archives()]
    on_disk = {path.parent.name for place in places for path in place.glob("*__*/result.json")}
    gone = {trial for trial in known & ended if archive.find_trial(run_dir, trial) is None}
    return len((ended | on_disk) - known) + len(gone)


def processes_of(root: Path) -> list[int]:
    """Processes of this machine whose command line names the run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(root).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found
