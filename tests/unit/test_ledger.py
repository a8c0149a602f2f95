"""The ledger: nothing that ended is lost, whatever is killed when."""

from __future__ import annotations

from pathlib import Path

import pytest
from trials import at, attempt, broken, document, failure, outage, put

from tbh_action.harbor.trial import Tokens
from tbh_action.rundir import RunDir
from tbh_action.scoring.ledger import (
    Attempt,
    append_attempts,
    read_attempts,
    reconcile,
    rejudge,
    retryable,
)


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path / "run")
    run_dir.harbor_job.mkdir(parents=True)
    return run_dir


def _names(attempts: list[Attempt]) -> list[str]:
    return [attempt.trial for attempt in attempts]


def test_attempt__comes_back_from_json_as_it_was() -> None:
    whole = broken(
        cause="c",
        pass_number=3,
        message="x\ny",
        agent_started_at=at(1),
        agent_finished_at=at(59),
        tokens=Tokens(input=5, cached=None, output=2, cost_usd=0.5),
        checksum="abc",
        source="s",
        lock_name="t",
        model="m",
        agent="a",
        directory="harbor/job/t__b",
        task_from="config.json",
    )
    assert Attempt.from_json(whole.to_json()) == whole
    assert Attempt.from_json(attempt().to_json()) == attempt()


@pytest.mark.parametrize(
    "document",
    [{}, {"task": "t", "trial": "x"}, {"task": 1, "trial": "x", "failure_class": "none"}],
)
def test_from_json__refuses_what_is_no_record(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no "):
        Attempt.from_json(document)


def test_read_attempts__the_latest_record_of_a_trial_counts(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    append_attempts(path, [attempt("a"), attempt("b")])
    append_attempts(path, [broken("a")])
    assert read_attempts(path) == [broken("a"), attempt("b")]


def test_read_attempts__is_empty_without_a_file(tmp_path: Path) -> None:
    assert read_attempts(tmp_path / "attempts.jsonl") == []


@pytest.mark.parametrize("cut", [1, 5, 40, 200])
def test_append_attempts__a_torn_line_spoils_only_itself(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "attempts.jsonl"
    append_attempts(path, [attempt("a"), attempt("b")])
    path.write_bytes(path.read_bytes()[:-cut])
    append_attempts(path, [attempt("c")])
    assert _names(read_attempts(path)) in (["a", "c"], ["a", "b", "c"])
    assert _names(read_attempts(path)) == (["a", "b", "c"] if cut == 1 else ["a", "c"])


def test_reconcile__records_each_trial_once(run_dir: RunDir) -> None:
    put(run_dir.harbor_job, "t__late", document(finished_at="2026-08-01T14:00:00Z"))
    put(run_dir.harbor_job, "t__early", document(exception_info=failure("SandboxError")))
    put(run_dir.archive(1), "t__first", document())
    put(run_dir.harbor_job, "t__none", None)
    new = reconcile(run_dir, 2)
    assert _names(new) == ["t__none", "t__early", "t__first", "t__late"]
    assert {a.trial: a.pass_number for a in new}["t__first"] == 1
    assert {a.trial: a.pass_number for a in new}["t__late"] == 2
    assert {a.trial: a.failure_class for a in new}["t__none"] == "interrupted"
    assert reconcile(run_dir, 3) == []
    assert read_attempts(run_dir.attempts) == new


def test_reconcile__leaves_trials_alone_that_are_still_running(run_dir: RunDir) -> None:
    put(run_dir.harbor_job, "t__runs", None)
    put(run_dir.harbor_job, "t__writes", '{"task_name": "demo/t"')
    assert reconcile(run_dir, 1, running=True) == []
    assert len(reconcile(run_dir, 1)) == 2


def test_reconcile__a_trial_that_was_cut_off_is_recorded_once(run_dir: RunDir) -> None:
    began = {"started_at": "2026-08-01T12:00:00Z", "finished_at": None}
    put(run_dir.harbor_job, "t__a", document(reward=None, environment_setup=began))
    assert [a.failure_class for a in reconcile(run_dir, 1)] == ["interrupted"]
    assert reconcile(run_dir, 1) == []


def test_reconcile__a_result_that_came_late_is_recorded(run_dir: RunDir) -> None:
    directory = put(run_dir.harbor_job, "t__a", None)
    reconcile(run_dir, 1)
    (directory / "result.json").write_text("{", encoding="utf-8")
    assert reconcile(run_dir, 1) == []
    (directory / "result.json").unlink()
    directory.rmdir()
    put(run_dir.harbor_job, "t__a", document())
    assert [a.scored for a in reconcile(run_dir, 1)] == [True]
    assert [a.scored for a in read_attempts(run_dir.attempts)] == [True]


@pytest.mark.parametrize("keep", range(0, 700, 37))
def test_reconcile__repairs_a_ledger_that_was_cut_anywhere(run_dir: RunDir, keep: int) -> None:
    for name in "abc":
        put(run_dir.harbor_job, f"t__{name}", document())
    whole = reconcile(run_dir, 1)
    run_dir.attempts.write_bytes(run_dir.attempts.read_bytes()[:keep])
    reconcile(run_dir, 1)
    assert sorted(_names(read_attempts(run_dir.attempts))) == sorted(_names(whole))


def test_rejudge__an_outage_that_became_known_is_recorded(run_dir: RunDir) -> None:
    put(
        run_dir.harbor_job,
        "t__a",
        document(
            reward=0.0,
            exception_info=failure("AgentTimeoutError"),
            agent_execution={
                "started_at": "2026-08-01T12:00:00Z",
                "finished_at": "2026-08-01T13:00:00Z",
            },
        ),
    )
    assert [a.scored for a in reconcile(run_dir, 1)] == [True]
    assert rejudge(run_dir, []) == []
    assert rejudge(run_dir, [outage(0, 2)]) == []
    changed = rejudge(run_dir, [outage(0, 20)])
    assert [(a.failure_class, a.scored, a.pass_number) for a in changed] == [
        ("infrastructure", False, 1)
    ]
    assert read_attempts(run_dir.attempts) == changed
    assert rejudge(run_dir, []) == [], "what was called infrastructure stays so"


def test_retryable__only_unscored_trials_of_open_slots() -> None:
    attempts = [
        attempt("won", task="demo/a"),
        broken("lost", task="demo/a"),
        broken("open", task="demo/b"),
        broken("gone", task="demo/c"),
        broken("setup", task="demo/d", failure_class="setup", retryable=False),
        broken("killed", task="demo/a", failure_class="interrupted"),
    ]
    here = {"won", "lost", "open", "setup", "killed"}
    assert _names(retryable(attempts, present=here)) == ["open", "killed"]
    assert _names(retryable(attempts, present=here, n_attempts=2)) == ["lost", "open", "killed"]
