"""How much of the server's paid time no trial was in its agent phase: start-up, tail, between.

    python -m bench.idle [RUN_DIR]

Without a directory: a real run on a loopback Hub with tasks that take some seconds each. From the
events alone: the server's life is from its job's start to its end (state.json), a trial's agent
phase from agent-start to agent-end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, write_tasks
from tbh_action.rundir import RunDir, read_lines

Span = tuple[datetime, datetime]
_TASKS = 24
# Tasks differ in length, as real ones do: equal ones would all end at the same moments.
_SECONDS = (9.0, 17.0, 23.0, 31.0, 13.0)


def main() -> int:
    """Prints the shares of one run."""
    if len(sys.argv) > 1:
        report(RunDir(Path(sys.argv[1]).resolve()))
        return 0
    with tempfile.TemporaryDirectory(prefix="tbh-idle-") as folder, LoopbackHub() as hub:
        tasks = Path(folder) / "tasks"
        write_tasks(tasks, _TASKS, seconds=_SECONDS)
        run_dir = RunDir(Path(folder) / "run")
        arguments = ["--recipe", str(DEMO_MODEL_RECIPE), "--path", str(tasks)]
        arguments += ["--n-concurrent", "3", "--run-dir", str(run_dir.root)]
        done = subprocess.run(
            [sys.executable, "-m", "tbh_action", "run", *arguments],
            env={**os.environ, **hub.environment()},
            check=False,
        )
        report(run_dir)
    return done.returncode


def report(run_dir: RunDir) -> None:
    """The shares of the run in `run_dir`."""
    state = json.loads(run_dir.state.read_text(encoding="utf-8"))
    lives = [_life(job) for job in state["servers"] if job["started_at"]]
    busy = _union(_agent_phases(run_dir))
    paid = sum((end - start).total_seconds() for start, end in lives)
    first, last = busy[0][0], busy[-1][1]
    start_up = sum(_seconds(start, min(first, end)) for start, end in lives)
    tail = sum(_seconds(max(last, start), end) for start, end in lives)
    working = sum(
        _seconds(max(start, begin), min(end, finish))
        for start, end in lives
        for begin, finish in busy
    )
    between = paid - start_up - tail - working
    print(f"server paid for {paid:.1f} s in {len(lives)} jobs")
    for name, value in (("start-up", start_up), ("tail", tail), ("idle between", between)):
        print(f"  {name:13} {value:7.1f} s  {value / paid:6.1%}")
    print(
        f"  share without a trial in its agent phase, start-up and tail apart: {between / paid:.2%}"
    )


def _life(job: dict[str, object]) -> Span:
    start = datetime.fromisoformat(str(job["started_at"]))
    return start, start + timedelta(seconds=float(str(job["seconds"])))


def _agent_phases(run_dir: RunDir) -> Iterable[Span]:
    begun: dict[str, datetime] = {}
    for event in read_lines(run_dir.events):
        trial, kind = str(event.get("trial")), event.get("event")
        if kind == "agent-start":
            begun[trial] = datetime.fromisoformat(str(event["at"]))
        elif kind == "agent-end" and trial in begun:
            yield begun.pop(trial), datetime.fromisoformat(str(event["at"]))


def _union(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


if __name__ == "__main__":
    sys.exit(main())
