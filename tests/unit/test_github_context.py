from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tbh_action.github.context import Context, PullRequest, read_context

ENV = {
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_REPOSITORY": "octo/repo",
    "GITHUB_WORKFLOW": "CI",
    "GITHUB_JOB": "bench",
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_NUMBER": "7",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_SHA": "merge0",
}


def context(tmp_path: Path, payload: Any, **env: str) -> Context:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    return read_context(ENV | {"GITHUB_EVENT_PATH": str(path)} | env)


def pull_request(head: str | None, base: str = "octo/repo") -> dict[str, Any]:
    return {
        "pull_request": {
            "number": 5,
            "head": {"sha": "abc", "repo": {"full_name": head} if head else None},
            "base": {"repo": {"full_name": base}},
        }
    }


@pytest.mark.parametrize(
    ("head", "fork"), [("octo/repo", False), ("someone/repo", True), (None, True)]
)
def test_read_context__knows_a_fork_and_the_head_commit(
    tmp_path: Path, head: str | None, fork: bool
) -> None:
    found = context(tmp_path, pull_request(head))
    assert found.pull_request == PullRequest(number=5, head_sha="abc", from_fork=fork)
    assert found.sha == "abc"
    assert (found.run_number, found.run_attempt) == (7, 2)
    assert found.run_url == "https://github.com/octo/repo/actions/runs/99"


def test_read_context__a_comment_on_a_pull_request_counts_and_one_on_an_issue_does_not(
    tmp_path: Path,
) -> None:
    on_pull = context(tmp_path, {"issue": {"number": 3, "pull_request": {"url": "…"}}})
    on_issue = context(tmp_path, {"issue": {"number": 3}})
    assert on_pull.pull_request is not None
    assert on_pull.pull_request.number == 3
    assert on_issue.pull_request is None


@pytest.mark.parametrize("payload", [[], None, "x", {}, {"pull_request": None}])
def test_read_context__a_payload_without_a_pull_request_is_fine(
    tmp_path: Path, payload: Any
) -> None:
    found = context(tmp_path, payload)
    assert found.pull_request is None
    assert found.sha == "merge0"


def test_read_context__outside_github_everything_is_empty() -> None:
    assert read_context({}) == Context()
    assert read_context({}).run_url == ""


def test_key__differs_by_workflow_job_matrix_and_user_key() -> None:
    keys = {
        read_context(ENV).key(),
        read_context(ENV | {"GITHUB_WORKFLOW": "B"}).key(),
        read_context(ENV | {"GITHUB_JOB": "b"}).key(),
        read_context(ENV | {"TBH_MATRIX": '{"model": "a"}'}).key(),
        read_context(ENV | {"TBH_MATRIX": '{"model": "b"}'}).key(),
        read_context(ENV).key("mine"),
    }
    assert len(keys) == 6


def test_key__is_the_same_for_one_matrix_in_two_spellings_and_for_none() -> None:
    one = read_context(ENV | {"TBH_MATRIX": '{"a": 1, "b": 2}'})
    two = read_context(ENV | {"TBH_MATRIX": '{\n "b": 2, "a": 1}'})
    assert one.key() == two.key()
    assert {read_context(ENV | {"TBH_MATRIX": text}).matrix for text in ("", "null", "{}")} == {""}
