"""The action as a workflow uses it: real act, real Harbor, loopback Hub and loopback GitHub.

What act can't show (grace on cancellation, permissions, job timeouts) is not claimed here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.act_world import loopback_world, pull_request

pytestmark = pytest.mark.slow


def test_action__dispatch_runs_reports_and_leaves_nothing(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, github):
        ended = world.run("workflow_dispatch", "one-run.yml")
        assert (ended.code, ended.jobs("succeeded")) == (0, ["bench"]), ended.log[-3000:]
        (summary,) = ended.summaries
        assert "1 of 1 passed" in summary
        for output in ("pass-rate: 1", "passed: 1", "failed: 0", "errored: 0", "complete: true"):
            assert output in ended.log
        assert "::add-mask::" not in summary
        assert all(secret not in ended.log for secret in world.secrets.values())
        assert hub.alive() == []
        assert github.comments == []


def test_action__a_failing_gate_on_a_pull_request_is_commented_and_cleaned_up(
    tmp_path: Path,
) -> None:
    with loopback_world(tmp_path) as (world, hub, github):
        ended = world.run(
            "pull_request",
            "one-run.yml",
            payload=pull_request(),
            variables={"TASK": "demo/csv-totals", "FAIL_ON": "below:1.0"},
            run_id=7,
        )
        assert (ended.code, ended.jobs("failed")) == (1, ["bench"]), ended.log[-3000:]
        assert "pass-rate: 0" in ended.log
        assert "title=Terminal-Bench%3A the gate failed" in ended.log
        assert "Nothing of ours is running." in ended.log
        (comment,) = github.bodies(5)
        assert "run=7 attempt=1" in comment
        assert "state=done" in comment
        assert "0 of 1 passed" in comment
        calls = [method for method, path in github.calls if path.endswith(("/comments", "/1001"))]
        assert calls.count("POST") == 1, "announced, then updated in place"
        assert hub.alive() == []


@pytest.mark.parametrize(
    ("variables", "code", "says"),
    [
        ({}, 1, "comes from a fork"),
        ({"FORKS": "skip"}, 0, "Terminal-Bench was skipped"),
        ({"FORKS": "maybe"}, 1, "input `forks`: 'maybe' is neither fail nor skip"),
        ({"N_CONCURRENT": " two "}, 1, "input `n-concurrent`: 'two' is no whole number"),
    ],
)
def test_action__nested_on_a_fork_says_it_before_anything_is_paid(
    tmp_path: Path, variables: dict[str, str], code: int, says: str
) -> None:
    with loopback_world(tmp_path) as (world, hub, github):
        ended = world.run(
            "pull_request",
            "nested.yml",
            payload=pull_request("someone/fork"),
            variables=variables,
            secrets={},
        )
        assert ended.code == code, ended.log[-3000:]
        assert says in ended.log
        assert "COMPLETE false" in ended.log
        assert hub.jobs() == []
        assert github.comments == []


def test_action__a_missing_secret_says_where_to_put_it(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        ended = world.run("workflow_dispatch", "one-run.yml", secrets={})
        assert ended.code == 1
        assert "pass `hf-token: ${{ secrets.HF_TOKEN }}`" in ended.log
        (summary,) = ended.summaries
        assert summary.startswith("### Terminal-Bench could not start")
        assert hub.jobs() == []


def test_action__a_step_killed_without_grace_is_cleaned_up_by_the_jobs_own_step(
    tmp_path: Path,
) -> None:
    with loopback_world(tmp_path, settings={"model_thinking": 60.0}) as (world, hub, github):
        ended = world.run(
            "pull_request",
            "one-run.yml",
            payload=pull_request(),
            kill_when="server answers at",
        )
        assert ended.code != 0
        assert "cancelled server" in ended.log, ended.log[-3000:]
        assert hub.wait_until_idle()
        assert hub.jobs()[0]["kind"] == "server"
        (comment,) = github.bodies(5)
        assert "state=done" in comment
        assert "was interrupted" in comment
