"""The short story of a detached run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tbh_action.detached.progress import Progress, headline, story
from tbh_action.server.hf_job import PaidJob

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def job(stage: str, message: str | None = None) -> PaidJob:
    return PaidJob(
        kind="controller",
        nonce="n",
        flavor="cpu-basic",
        job_id="j1",
        stage=stage,
        message=message,
        created_at="2026-09-01T11:00:00.000Z",
    )


def known(code: int | None, status: str = "running", *tail: str) -> Progress:
    return Progress(at="2026-09-01T11:58:00Z", exit_code=code, status=status, tail=tail)


@pytest.mark.parametrize(
    ("stage", "progress", "words"),
    [
        ("SCHEDULING", None, "waiting for hardware"),
        ("RUNNING", None, "running"),
        ("RUNNING", known(None), "running"),
        # The last store may come a moment before the job's end.
        ("RUNNING", known(0, "complete"), "complete. The answer: tbh collect night"),
        ("ERROR", known(4, "complete"), "complete. The answer: tbh collect night"),
        ("ERROR", known(4, "incomplete"), "ended with exit code 4: it said nothing"),
        ("ERROR", known(3, "new", "x", "Error: no credit"), "ended with exit code 3: no credit"),
        (
            "ERROR",
            known(3, "new", "Error: 2 problems:", "  - no credit", "  - no task", "bye"),
            "ended with exit code 3: 2 problems: - no credit - no task",
        ),
        ("ERROR", known(None), "its controller is gone; the same `tbh submit` goes on"),
        # A stopped run is no answer, whatever the state file said last.
        ("CANCELED", known(143, "complete"), "its controller is gone"),
        ("ERROR", known(137), "its controller is gone"),
    ],
)
def test_headline__each_end(stage: str, progress: Progress | None, words: str) -> None:
    assert headline("night", job(stage), progress).startswith(words)


def test_headline__no_job_at_all() -> None:
    assert headline("night", None, known(None)).startswith("its controller is gone")


def test_story__whole() -> None:
    progress = Progress(
        at="2026-09-01T11:58:00Z",
        status="running",
        passes=2,
        planned=89,
        scored=31,
        passed=12,
        spend_usd=14.2,
        last="2026-09-01T11:57:00Z \x1b[2J::error::boo",
    )
    assert story("night", job("RUNNING"), progress, NOW) == [
        "night: running",
        "  controller j1 on cpu-basic: RUNNING, created 1h ago",
        "  pass 2, 31 of 89 trials scored, 12 passed, spent $14.20 (stored 2m ago)",
        "  last: 2026-09-01T11:57:00Z ::error::boo",
    ]


def test_story__foreign_text_is_inert() -> None:
    (_, line) = story("night", job("ERROR", "a\n::set-output::b\x1b]0;x\x07"), None, NOW)
    assert "\n" not in line
    assert "\x1b" not in line


def test_progress__round_trip_and_keys_of_a_later_version() -> None:
    progress = known(3, "new", "a", "b")
    assert Progress.from_json(progress.to_json() | {"later": 1}) == progress
