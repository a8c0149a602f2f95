"""From a run's files to its answer, as often as is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from specs import seed, tasks
from trials import document, failure, put

from tbh_action.comparison.judge import Judgement
from tbh_action.controller.spec_file import Asked, write_asked
from tbh_action.controller.state import PassRecord, RunState, new_state
from tbh_action.rundir import RunDir, append_line
from tbh_action.scoring import ledger
from tbh_action.scoring.answer import log_tails, make_results, write_answer
from tbh_action.scoring.results import dumps
from tbh_action.server.hf_job import PaidJob

NAMES = ("demo/a", "demo/b", "demo/c")


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunDir, Asked, RunState]:
    """A run of three tasks: passed, broken, never started."""
    run_dir = RunDir(tmp_path / "r")
    asked = write_asked(run_dir, seed(), None, tasks(*NAMES))
    put(run_dir.harbor_job, "a__aaaaaaa", document("demo/a"))
    broken = put(
        run_dir.harbor_job,
        "b__bbbbbbb",
        document(
            "demo/b", reward=None, exception_info=failure("SandboxError", "hf_secret1234567890")
        ),
    )
    (broken / "exception.txt").write_text("the end\x1b[31m", encoding="utf-8")
    ledger.reconcile(run_dir, pass_number=1)
    state = new_state("r")
    state.status, state.stop_reason = "incomplete", "time is up"
    state.passes.append(
        PassRecord(number=1, kind="run", started_at="2026-08-01T12:00:00.000Z", cut_short=True)
    )
    state.prices = {"h200": 0.1, "cpu-upgrade": 0.01}
    server = PaidJob(kind="server", nonce="n", flavor="h200", job_id="j", stage="COMPLETED")
    state.record(replace(server, seconds=600.0))
    state.benchmark_commit = "c0ffee"
    for event in ({"event": "concurrency", "at": "2026-08-01T12:00:00.000Z", "limit": 3,
                   "reason": "start"}, {"event": "said", "text": "x"}):  # fmt: skip
        append_line(run_dir.events, event)
    return run_dir, asked, state


def test_make_results__says_what_the_files_say(run: tuple[RunDir, Asked, RunState]) -> None:
    run_dir, asked, state = run
    made = make_results(run_dir, asked, state, NAMES, provenance={"x": 1}, warnings=["w"])
    assert made["counts"] == {"planned": 3, "passed": 1, "failed": 0, "errored": 2}
    assert [row["class"] for row in made["tasks"]] == ["none", "infrastructure", "missing"]
    assert made["run"]["complete"] is False
    assert made["run"]["stop_reason"] == "time is up"
    assert made["benchmark"]["revision"] == "c0ffee"
    assert made["fingerprint"] == asked.fingerprint
    assert made["cost"]["server_usd"] == pytest.approx(1.0)
    assert [limit["limit"] for limit in made["timeline"]["concurrency"]] == [3]
    assert made["passes"][0]["number"] == 1
    assert "w" in made["warnings"]


def test_make_results__equal_files_equal_bytes(run: tuple[RunDir, Asked, RunState]) -> None:
    one, two = (dumps(make_results(*run, NAMES, provenance={})) for _ in range(2))
    assert one == two


def test_make_results__without_prices_no_cost(run: tuple[RunDir, Asked, RunState]) -> None:
    run[2].prices = {}
    assert make_results(*run, NAMES, provenance={})["cost"]["total_usd"] is None


def test_log_tails__of_what_did_not_pass(run: tuple[RunDir, Asked, RunState]) -> None:
    attempts = ledger.read_attempts(run[0].attempts)
    tails = log_tails(run[0], attempts)
    assert list(tails) == ["b__bbbbbbb"]
    assert tails["b__bbbbbbb"].startswith("the end")


def test_write_answer__every_format_and_no_secret(
    run: tuple[RunDir, Asked, RunState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret1234567890")
    run_dir = run[0]
    final = write_answer(run_dir, make_results(*run, NAMES, provenance={}), Judgement())
    assert final["gate"]["exit_code"] == 4
    names = {path.name for path in run_dir.report.iterdir()}
    assert {"summary.md", "comment.md", "index.html", "junit.xml", "results.csv"} <= names
    for path in (run_dir.results, *run_dir.report.iterdir()):
        assert "hf_secret1234567890" not in path.read_text(encoding="utf-8"), path.name
