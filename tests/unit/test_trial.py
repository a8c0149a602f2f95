"""One result.json, read leniently."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trials import document, failure, put

from tbh_action.harbor.documents import instant, iso, plain, text
from tbh_action.harbor.trial import Tokens, Trial, read_trial


def _read(tmp_path: Path, **more: Any) -> Trial:
    return read_trial(put(tmp_path, "t__a", document(**more)))


def test_read_trial__tokens_of_the_whole_or_of_the_steps(tmp_path: Path) -> None:
    usage = {"n_input_tokens": 10, "n_cache_tokens": 4, "n_output_tokens": 2, "cost_usd": 0.5}
    whole = _read(tmp_path / "1", agent_result=usage)
    assert whole.tokens == Tokens(input=10, cached=4, output=2, cost_usd=0.5)
    steps = _read(tmp_path / "2", step_results=[{"agent_result": usage}] * 2 + [{}])
    assert steps.tokens == Tokens(input=20, cached=8, output=4, cost_usd=1.0)


@pytest.mark.parametrize("value", [-1, 1.5, True, "7", None, [1], 10**400, float("nan")])
def test_read_trial__tokens_that_are_no_count_are_unknown(tmp_path: Path, value: Any) -> None:
    usage = {"n_input_tokens": value, "n_output_tokens": 3}
    tokens = _read(tmp_path, agent_result=usage).tokens
    assert tokens == Tokens(input=None, cached=None, output=3, cost_usd=None)


def test_read_trial__the_agents_time_spans_its_steps(tmp_path: Path) -> None:
    def step(start: str, end: str) -> dict[str, Any]:
        return {
            "agent_execution": {
                "started_at": f"2026-08-01T{start}Z",
                "finished_at": f"2026-08-01T{end}Z",
            }
        }

    steps = [step("12:00:00", "12:10:00"), step("12:20:00", "12:30:00")]
    assert _read(tmp_path, step_results=steps).agent_seconds == 1800


def test_read_trial__a_verifier_that_was_not_asked_for(tmp_path: Path) -> None:
    assert _read(tmp_path / "1", config={"verifier": {"disable": True}}).verifier_off
    assert not _read(tmp_path / "2", config={"verifier": {"disable": "yes"}}).verifier_off


def test_read_trial__errors_of_the_trial_come_before_those_of_steps(tmp_path: Path) -> None:
    steps = [{"step_name": "s1", "exception_info": failure("ReadError")}, {"exception_info": None}]
    read = _read(tmp_path, exception_info=failure("AgentTimeoutError"), step_results=steps)
    assert [(error.type, error.where) for error in read.errors] == [
        ("AgentTimeoutError", "trial"),
        ("ReadError", "step s1"),
    ]


def test_read_trial__long_messages_are_cut(tmp_path: Path) -> None:
    read = _read(tmp_path, exception_info=failure("ReadError", "x" * 9000))
    assert read.exception is not None
    assert read.exception.message.endswith("… (7,000 more characters)")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        ("[" * 100_000, "no JSON"),
        ("null", "no JSON object"),
        ('{"task_name": 7}', "no task_name"),
        (json.dumps(document("x" * 2000)), "2,000 characters"),
        (json.dumps(document(schema_version=2)), "Harbor 0.26"),
        (json.dumps(document(schema_version=True)), "schema_version"),
        ('{"exception_info": {}, "task_name": "t"}', "without a type"),
    ],
)
def test_read_trial__says_why_it_is_unreadable(tmp_path: Path, content: str, reason: str) -> None:
    unreadable = read_trial(put(tmp_path, "t__a", content)).unreadable
    assert unreadable is not None
    assert reason in unreadable


def test_read_trial__a_pipe_does_not_hang(tmp_path: Path) -> None:
    directory = put(tmp_path, "t__a", None)
    os.mkfifo(directory / "result.json")
    assert "no regular file" in (read_trial(directory).unreadable or "")


def test_read_trial__the_task_comes_from_what_else_is_there(tmp_path: Path) -> None:
    directory = put(tmp_path, "repair-the-distributed-database-__a", None)
    assert read_trial(directory).task == "repair-the-distributed-database-"
    config = {"task": {"path": "tasks/repair-the-distributed-database-index-a"}}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    read = read_trial(directory)
    assert (read.task, read.task_from) == ("repair-the-distributed-database-index-a", "config.json")
    assert read.unfinished


@pytest.mark.parametrize(
    ("text_", "expected"),
    [
        ("2026-08-01T12:00:00Z", datetime(2026, 8, 1, 12, tzinfo=UTC)),
        ("2026-08-01T12:00:00", datetime(2026, 8, 1, 12, tzinfo=UTC)),
        ("2026-08-01T14:00:00+02:00", datetime(2026, 8, 1, 12, tzinfo=UTC)),
        ("0001-01-01T00:00:00+23:00", None),
        ("soon", None),
        (7, None),
    ],
)
def test_instant__is_utc_or_nothing(text_: object, expected: datetime | None) -> None:
    assert instant(text_) == expected


def test_iso__is_what_instant_reads() -> None:
    noon = datetime(2026, 8, 1, 12, 0, 0, 5, tzinfo=UTC)
    assert iso(noon) == "2026-08-01T12:00:00.000005Z"
    assert instant(iso(noon)) == noon


def test_plain__takes_what_encoders_refuse() -> None:
    value = {"a\ud800": [float("nan"), float("inf"), 1.5, "\udfff"]}
    assert plain(value) == {"a\\ud800": [None, None, 1.5, "\\udfff"]}


def test_text__cuts_and_cleans() -> None:
    assert text("abc", 2) == "ab… (1 more characters)"
    assert text(5, 2) is None
