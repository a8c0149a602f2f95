"""What GitHub is told about a run, against a loopback API."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tbh_action.errors import NotStartedError
from tbh_action.github.runner import Runner
from tbh_action.github.surface import Page, begin, changed, open_page, outputs_of
from tbh_action.loopback.github import Fault, LoopbackGitHub, User

TOKEN = "ghs_surface_token"


@pytest.fixture
def hub() -> Iterator[LoopbackGitHub]:
    tokens = {
        TOKEN: User(login="github-actions[bot]"),
        "reader": User(login="github-actions[bot]", write=False),
    }
    with LoopbackGitHub(tokens) as server:
        yield server


@pytest.fixture
def env(hub: LoopbackGitHub, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "event.json").write_text(json.dumps(event("octo/repo")), encoding="utf-8")
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": hub.url,
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_JOB": "bench",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": "octo/repo",
        "GITHUB_RUN_ID": "77",
        "GITHUB_RUN_NUMBER": "7",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_WORKFLOW": "CI",
        "HF_TOKEN": "hf_secret",
    }


def event(head: str) -> dict[str, Any]:
    return {
        "pull_request": {
            "number": 5,
            "head": {"sha": "a" * 40, "repo": {"full_name": head}},
            "base": {"repo": {"full_name": "octo/repo"}},
        }
    }


def results(**changes: Any) -> dict[str, Any]:
    return {
        "run": {"complete": True},
        "counts": {"planned": 2, "passed": 1, "failed": 1, "errored": 0},
        "rates": {"all": 0.5},
        "tasks": [],
        "cost": {"total_usd": 1.25, "items": [{"kind": "server", "job_id": "j1"}]},
        "warnings": [],
    } | changes


def report(tmp_path: Path, text: str = "## The result\n") -> Path:
    folder = tmp_path / "run" / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comment.md").write_text(text, encoding="utf-8")
    (folder / "summary.md").write_text("## The summary\n", encoding="utf-8")
    return folder


def start(env: dict[str, str], mode: str = "auto", **changes: str) -> Page:
    runner = Runner(env | changes, io.StringIO())
    return begin(title="M on B", comment=mode, env=env | changes, runner=runner)


def said(page: Page) -> str:
    assert isinstance(page.runner.out, io.StringIO)
    return page.runner.out.getvalue()


def test_page__in_progress_then_the_result_in_one_comment(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    with start(env) as page:
        (running,) = hub.bodies(5)
        assert "state=in-progress" in running
        assert "**M on B** is running" in running
        assert "actions/runs/77" in running
        page.finish(results(), report(tmp_path))
    (done,) = hub.bodies(5)
    assert "state=done" in done
    assert "running" not in done
    assert "## The result" in done
    assert "::add-mask::hf_secret" in said(page)
    assert (tmp_path / "summary").read_text(encoding="utf-8") == "## The summary\n"
    assert "pass-rate<<" in (tmp_path / "output").read_text(encoding="utf-8")


def test_page__an_earlier_result_stays_below_the_notice(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    with start(env) as page:
        page.finish(results(), report(tmp_path))
    page = start(env, GITHUB_RUN_NUMBER="8")
    assert "## The result" in hub.bodies(5)[0]
    assert "is running" in hub.bodies(5)[0]
    with pytest.raises(RuntimeError), page:
        raise RuntimeError
    (body,) = hub.bodies(5)
    assert "state=done" in body
    assert "did not start" in body
    assert "## The result" in body


def test_page__an_interrupted_run_does_not_stay_in_progress(
    hub: LoopbackGitHub, env: dict[str, str]
) -> None:
    with pytest.raises(KeyboardInterrupt), start(env):
        raise KeyboardInterrupt
    assert "was interrupted" in hub.bodies(5)[0]
    assert "state=done" in hub.bodies(5)[0]


def test_close__leaves_the_in_progress_of_a_newer_run_alone(
    hub: LoopbackGitHub, env: dict[str, str]
) -> None:
    start(env, GITHUB_RUN_NUMBER="9")
    runner = Runner(env, io.StringIO())
    open_page(mode="auto", env=env, runner=runner).close("was interrupted")
    assert "state=in-progress" in hub.bodies(5)[0]


def test_begin__auto_warns_before_spending_when_the_token_may_not_write(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    page = start(env, GITHUB_TOKEN="reader")
    assert "pull-requests%3A write" in said(page) or "pull-requests: write" in said(page)
    page.finish(results(), report(tmp_path))
    assert hub.bodies(5) == []


def test_begin__always_refuses_to_start_when_it_cannot_be_kept(
    hub: LoopbackGitHub, env: dict[str, str]
) -> None:
    with pytest.raises(NotStartedError, match="pull-requests: write"):
        start(env, "always", GITHUB_TOKEN="reader")
    with pytest.raises(NotStartedError, match="github-token"):
        start(env, "always", GITHUB_TOKEN="")


def test_begin__a_fork_without_secrets_is_seen_before_spending(
    env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(event("someone/fork")), encoding="utf-8")
    with pytest.raises(NotStartedError, match="comes from a fork"):
        start(env, HF_TOKEN="")


def test_finish__a_comment_that_fails_warns_and_nothing_else(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    page = start(env)
    hub.faults.append(Fault(method="PATCH", status=422, message="Validation Failed"))
    page.finish(results(), report(tmp_path))
    assert "::warning title=No comment::" in said(page)


def test_finish__a_comment_beyond_the_limit_is_cut_not_refused(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    page = start(env)
    page.finish(results(), report(tmp_path, "## Head\n" + "a line of text 🎉\n" * 6000))
    (body,) = hub.bodies(5)
    assert len(body) <= 65_536
    assert "## Head" in body
    assert "Left out here" in body


def test_on_change__no_comment_without_a_change_but_an_old_one_is_updated(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    same = results(comparison={"verdict": "pass", "counts": {"fixed": 0, "broken": 0}})
    page = start(env, "on-change")
    assert hub.bodies(5) == []
    page.finish(same, report(tmp_path))
    assert hub.bodies(5) == []
    worse = results(comparison={"verdict": "regression", "counts": {"broken": 1}})
    page.finish(worse, report(tmp_path, "worse"))
    assert "worse" in hub.bodies(5)[0]
    page.finish(same, report(tmp_path, "well again"))
    assert "well again" in hub.bodies(5)[0]


def test_begin__never_and_outside_github_touch_nothing(
    hub: LoopbackGitHub, env: dict[str, str], tmp_path: Path
) -> None:
    start(env, "never").finish(results(), report(tmp_path))
    runner = Runner({}, io.StringIO())
    with begin(title="x", env={}, runner=runner) as page:
        page.finish(results(), report(tmp_path))
    assert runner.out.getvalue() == ""  # type: ignore[attr-defined]
    assert hub.calls == []


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (None, True),
        ({"verdict": "pass", "counts": {"fixed": 0}}, False),
        ({"verdict": "pass", "counts": {"newly_unscored": 1}}, True),
        ({"verdict": "not_comparable", "counts": {}}, True),
    ],
)
def test_changed__flips_or_a_verdict_that_is_no_pass(comparison: Any, expected: bool) -> None:
    assert changed(results(comparison=comparison)) is expected


def test_outputs_of__what_is_not_known_is_empty() -> None:
    outputs = outputs_of(results(rates={"all": None}, cost={}), Path("/r/report"))
    assert (outputs["pass-rate"], outputs["cost"], outputs["server-job-id"]) == ("", "", "")
    known = outputs_of(results(), Path("/r/report"))
    assert known["pass-rate"] == "0.5"
    assert known["cost"] == "1.25"
    assert known["server-job-id"] == "j1"
    assert known["results-json"] == "/r/results.json"
