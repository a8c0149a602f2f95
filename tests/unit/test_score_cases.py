"""Every directory in tests/cases/jobs gives the answer in its expected.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tbh_action
from tbh_action.scoring.directory import score_directory
from tbh_action.scoring.results import dumps

CASES = sorted((Path(__file__).parent.parent / "cases" / "jobs").iterdir())
SCHEMA_FILE = Path(tbh_action.__file__).parent / "scoring" / "results.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    expected = json.loads((request.param / "expected.json").read_text(encoding="utf-8"))
    return score_directory(request.param, with_logs=True), expected


def _outcome(row: dict[str, Any]) -> str:
    if row["status"] == "errored" or row["exception"]:
        return f"{row['status']}:{row['exception']}"
    return str(row["status"])


def test_score_directory__gives_what_the_case_expects(case: tuple[Any, Any]) -> None:
    results, expected = case
    counts, first = results["counts"], results["exceptions_first"]
    seen = {
        "status": results["tasks"][0]["status"],
        "superseded": results["tasks"][0]["superseded"],
        "reward": results["tasks"][0]["reward"],
        "attempts": len(results["tasks"]),
        "planned": counts["planned"],
        "passed": counts["passed"],
        "failed": counts["failed"],
        "errored": counts["errored"],
        "errors": results["errors"],
        "pass_rate_all": pytest.approx(results["rates"]["all"], abs=5e-5),
        "pass_rate_scored": pytest.approx(results["rates"]["scored"], abs=5e-5),
        "scored_after_timeout": results["scored_after_exception"].get("AgentTimeoutError", 0),
        "exceptions_first": {
            "passed": first["passed"],
            "failed": first["failed"],
            "errored": first["errored"],
            "pass_rate_scored": pytest.approx(first["rate_scored"], abs=5e-5),
        },
        "outcomes": {row["task"]: _outcome(row) for row in results["tasks"]},
        "names": [row["task"] for row in results["tasks"]],
        "why": expected.get("why"),
    }
    if "names" in expected:
        expected = expected | {"names": sorted(expected["names"])}
    assert expected.keys() <= seen.keys(), "a key that this test does not look at"
    assert {key: seen[key] for key in expected} == expected


def test_score_directory__fits_the_schema(case: tuple[Any, Any]) -> None:
    results, _ = case
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(dumps(results)))


def test_score_directory__classes(case: tuple[Any, Any]) -> None:
    """What `why` says in words, for the cases of one task."""
    results, expected = case
    if "status" not in expected or expected["status"] != "errored":
        return
    row = results["tasks"][0]
    why = expected["why"]
    words = {
        "infrastructure": "infrastructure",
        "set-up": "setup",
        "timeout": "timeout",
        "unclassified": "unclassified",
        "unreadable": "unreadable",
        "no score": "verifier",
        "reward-nan": "verifier",
        "not a pass or fail": "verifier",
        "truncated": "unreadable",
    }
    wanted = [failure_class for word, failure_class in words.items() if word in why]
    if wanted:
        assert row["class"] in wanted
    if row["class"] in ("unreadable", "verifier", "unclassified", "setup"):
        assert any(row["task"] in warning for warning in results["warnings"])


def test_cases__are_all_here() -> None:
    assert len(CASES) == 31
