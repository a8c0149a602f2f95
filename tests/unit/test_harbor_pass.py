"""What a further pass would do, and one pass around a Harbor that can't be started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from specs import seed, task
from trials import attempt, broken, document, failure, put

from tbh_action.controller.harbor_pass import present_trials, remaining, run_pass
from tbh_action.controller.journal import Journal
from tbh_action.controller.leg import Leg, Limits
from tbh_action.controller.state import new_state
from tbh_action.errors import NotStartedError
from tbh_action.harbor import command
from tbh_action.policy.passes import Remaining
from tbh_action.rundir import RunDir
from tbh_action.scoring import ledger
from tbh_action.scoring.ledger import Attempt

SCORED = attempt("t__s")
INFRA = broken("t__i")
SETUP = broken("t__u", failure_class="setup", retryable=False)
TIMEOUT = broken("t__t", failure_class="timeout", retryable=False)
KILLED = broken("t__k", failure_class="interrupted")


@pytest.mark.parametrize(
    ("attempts", "present", "n_attempts", "unfinished", "retryable"),
    [
        ([], [], 1, 1, 0),
        ([], [], 3, 3, 0),
        ([SCORED], ["t__s"], 1, 0, 0),
        ([SCORED], [], 1, 0, 0),  # a score counts wherever its directory lies
        ([INFRA], ["t__i"], 1, 0, 1),
        ([INFRA], [], 1, 1, 0),  # it lies in the archive: its slot is free again
        ([SETUP], ["t__u"], 1, 0, 0),
        ([TIMEOUT], ["t__t"], 1, 0, 0),
        ([SETUP], [], 1, 1, 0),
        ([KILLED], ["t__k"], 1, 1, 0),  # Harbor takes it away itself
        ([INFRA, SCORED], ["t__i", "t__s"], 1, 0, 0),  # repeated and repaired
        ([SCORED, INFRA], ["t__s", "t__i"], 2, 0, 1),
        ([SCORED, SETUP], ["t__s", "t__u"], 2, 0, 0),
        ([SCORED, SETUP], ["t__s", "t__u"], 3, 1, 0),
        ([SCORED, INFRA], ["t__s"], 2, 1, 0),
        ([SCORED, attempt("t__s2")], ["t__s", "t__s2"], 1, 0, 0),
    ],
)
def test_remaining__table(
    attempts: list[Attempt], present: list[str], n_attempts: int, unfinished: int, retryable: int
) -> None:
    assert remaining(["demo/t"], n_attempts, attempts, present) == Remaining(
        unfinished=unfinished, retryable=retryable
    )


def test_remaining__by_task_and_only_planned_ones() -> None:
    attempts = [SCORED, broken("u__i", task="demo/u"), broken("v__i", task="demo/v")]
    here = ["t__s", "u__i", "v__i"]
    assert remaining(["demo/t", "demo/u", "demo/w"], 1, attempts, here) == Remaining(
        unfinished=1, retryable=1
    )
    assert remaining([], 1, attempts, here).total == 0


def test_remaining__is_what_the_ledger_would_archive() -> None:
    """The pass archives exactly what is announced as to be repeated."""
    attempts = [SCORED, INFRA, SETUP, broken("u__i", task="demo/u")]
    here = [a.trial for a in attempts]
    moved = ledger.retryable(attempts, present=here, n_attempts=1)
    assert remaining(["demo/t", "demo/u"], 1, attempts, here).retryable == len(moved) == 1


def leg_of(run_dir: RunDir, names: Sequence[str] = ("demo/t",)) -> Leg:
    return Leg(
        spec=seed(),
        run_dir=run_dir,
        state=new_state("r"),
        journal=Journal(run_dir.events, out=lambda _: None),
        tasks={name: task(name) for name in names},
        limits=Limits(),
        earlier={},
        key="k",
    )


def test_run_pass__that_cannot_start_moves_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = RunDir(tmp_path)
    put(run_dir.harbor_job, "t__aaaaaaa", document(exception_info=failure("SandboxError")))
    (run_dir.harbor_job / "config.json").write_text("{}", encoding="utf-8")
    ledger.reconcile(run_dir, pass_number=1)
    monkeypatch.setattr(command, "harbor_executable", lambda: str(tmp_path / "no-harbor"))
    leg = leg_of(run_dir)
    with pytest.raises(NotStartedError, match="Harbor cannot be started: No such file"):
        asyncio.run(run_pass(leg, "resume", {}))
    assert present_trials(run_dir) == ["t__aaaaaaa"]
    assert leg.state.passes == []


def fake_harbor(folder: Path, script: str) -> str:
    """An executable in Harbor's place: for what the real one does only rarely."""
    path = folder / "harbor"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_run_pass__that_harbor_refuses_moves_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = RunDir(tmp_path / "run")
    put(run_dir.harbor_job, "t__aaaaaaa", document(exception_info=failure("SandboxError")))
    (run_dir.harbor_job / "config.json").write_text("{}", encoding="utf-8")
    run_dir.harbor_log.write_text("of an earlier pass\n", encoding="utf-8")
    ledger.reconcile(run_dir, pass_number=1)
    harbor = fake_harbor(tmp_path, "echo '│ lock.json does not match │'; exit 1")
    monkeypatch.setattr(command, "harbor_executable", lambda: harbor)
    leg = leg_of(run_dir)
    end = asyncio.run(run_pass(leg, "resume", {"PATH": "/usr/bin:/bin"}))
    assert end.refused == "lock.json does not match"
    assert end.record.cut_short
    assert (end.record.exit_code, end.record.trials, end.record.repeated) == (1, 0, 1)
    assert present_trials(run_dir) == ["t__aaaaaaa"]
    assert leg.state.harbor_pid is None


def test_run_pass__records_what_nobody_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials whose end the plugin could not tell are in the ledger all the same."""
    run_dir = RunDir(tmp_path / "run")
    put(run_dir.harbor_job, "t__aaaaaaa", document(exception_info=failure("SandboxError")))
    (run_dir.harbor_job / "config.json").write_text("{}", encoding="utf-8")
    ledger.reconcile(run_dir, pass_number=1)
    put(tmp_path / "made", "t__bbbbbbb", document())
    harbor = fake_harbor(tmp_path, f"cp -r {tmp_path}/made/* {run_dir.harbor_job}/")
    monkeypatch.setattr(command, "harbor_executable", lambda: harbor)
    leg = leg_of(run_dir)
    end = asyncio.run(run_pass(leg, "resume", {"PATH": "/usr/bin:/bin"}))
    assert (end.refused, end.record.cut_short) == (None, False)
    assert (end.record.trials, end.record.repeated, end.record.repaired) == (1, 1, 1)
    assert present_trials(run_dir) == ["t__bbbbbbb"]
    assert (run_dir.archive(1) / "t__aaaaaaa" / "result.json").exists(), "evidence stays"
    assert [a.trial for a in ledger.read_attempts(run_dir.attempts)] == ["t__aaaaaaa", "t__bbbbbbb"]


def test_run_pass__stopped_by_the_leg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = RunDir(tmp_path / "run")
    run_dir.root.mkdir()
    harbor = fake_harbor(tmp_path, "trap 'exit 130' INT; sleep 60 & wait")
    monkeypatch.setattr(command, "harbor_executable", lambda: harbor)
    leg = leg_of(run_dir)
    leg.stop = "money is up"
    end = asyncio.run(run_pass(leg, "run", {"PATH": "/usr/bin:/bin"}))
    assert (end.record.exit_code, end.record.reason) == (130, "money is up")
    assert end.record.cut_short
    assert end.refused is None
