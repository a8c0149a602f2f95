"""A finished run directory for tests: the trials of a real full run, recorded by our own ledger."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tbh_action.comparison.judge import Judgement
from tbh_action.controller.spec_file import Asked, read_asked, write_asked
from tbh_action.controller.state import PassRecord, RunState
from tbh_action.harbor.tasks import TaskInfo, TaskList
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring import ledger
from tbh_action.scoring.answer import make_results, write_answer
from tbh_action.spec import RunSpec, validate_spec

CASE = Path(__file__).parent / "cases" / "jobs" / "seed-final"
MODEL = "demo/Scripted-1B"
SPEC: dict[str, Any] = {
    "model": {"name": MODEL, "revision": "1f3c9d2"},
    "endpoint": "https://endpoint.example/v1",
    "benchmark": {
        "name": "terminal-bench-2.1",
        "repo": "https://huggingface.co/datasets/demo/terminal-bench-2.1",
        "revision": "8f2b6a1d9c0e47f3a5b1c2d3e4f5061728394a5b",
    },
    "agent": {"name": "terminus-2", "kwargs": {"reasoning_effort": "low"}},
    "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-upgrade"}},
    "agent_timeout_multiplier": 4.0,
}
STARTED = "2026-08-01T09:00:00.000Z"


def finished_run(
    root: Path,
    *,
    tasks: int = 89,
    started_at: str = STARTED,
    spec: dict[str, Any] | None = None,
    n_attempts: int = 1,
) -> RunDir:
    """A run directory at `root` with the first `tasks` tasks, one of them repeated once more."""
    run_dir = RunDir(root)
    trials: dict[str, list[Path]] = {}
    for directory in sorted(path for path in CASE.iterdir() if path.is_dir()):
        trials.setdefault(_result(directory)["task_name"], []).append(directory)
    names = sorted(trials)[:tasks]
    for directory in (path for name in names for path in trials[name]):
        for number in range(1, n_attempts + 1):
            suffix = "" if number == 1 else f"-{number}"
            shutil.copytree(directory, run_dir.harbor_job / f"{directory.name}{suffix}")
    _repeated(run_dir, trials[names[1]][0])
    listed = TaskList(
        tasks=tuple(
            TaskInfo(name=name, directory=f"/home/someone/{name}", digest=f"sha256:{number:064}")
            for number, name in enumerate(names)
        )
    )
    write_json(run_dir.tasks, listed.to_json())
    asked = write_asked(
        run_dir, _spec({**SPEC, **(spec or {}), "n_attempts": n_attempts}), None, listed
    )
    ledger.reconcile(run_dir, pass_number=2)
    answer(run_dir, asked, names, started_at)
    return run_dir


def again(run_dir: RunDir) -> None:
    """Makes the results again, after the ledger was changed."""
    asked = read_asked(run_dir)
    assert asked is not None
    listed = json.loads(run_dir.tasks.read_text(encoding="utf-8"))["tasks"]
    answer(run_dir, asked, [task["name"] for task in listed], STARTED)


def answer(run_dir: RunDir, asked: Asked, names: list[str], started_at: str) -> dict[str, Any]:
    """Writes results.json and the report."""
    state = RunState(
        run_id="r1",
        started_at=started_at,
        status="complete",
        finished_at=started_at.replace("T09", "T21"),
        passes=[
            PassRecord(number=1, kind="run", started_at=started_at, trials=len(names)),
            PassRecord(number=2, kind="resume", started_at=started_at, trials=1, repaired=1),
        ],
    )
    document = make_results(run_dir, asked, state, names, provenance={"harbor": "0.26.0"})
    return write_answer(run_dir, document, Judgement())


def _spec(document: dict[str, Any]) -> RunSpec:
    return validate_spec(document)


def _result(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    return document


def _repeated(run_dir: RunDir, directory: Path) -> None:
    """An earlier trial of the same task, which infrastructure broke, in the archive."""
    name = f"{directory.name.rpartition('__')[0]}__0000001"
    document = _result(directory) | {
        "trial_name": name,
        "started_at": "2026-08-01T09:00:10Z",
        "finished_at": "2026-08-01T09:10:00Z",
        "verifier_result": None,
        "exception_info": {
            "exception_type": "SandboxError",
            "exception_message": "connection lost",
            "exception_traceback": "",
            "occurred_at": "2026-08-01T09:09:00Z",
        },
    }
    write_json(run_dir.archive(1) / name / "result.json", document)
