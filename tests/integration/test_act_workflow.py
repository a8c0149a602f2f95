"""The reusable workflow and the release check, driven by act: legs, shards, going on, schedule."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.act_world import World, loopback_world

pytestmark = pytest.mark.slow

REPO = "https://huggingface.co/datasets/demo/terminal-tasks"
# A trial of a demo task is expected to take 120 s for its agent and 180 s beside it. Nine tenths of
# this budget leave about 20 s in which a trial may start; each takes longer than that.
ONE_TRIAL_A_LEG = "355s"
NOTHING_FITS = "60s"


def settings(world: World, **changes: str) -> dict[str, str]:
    return {
        "recipe": world.variables["DEMO_RECIPE"],
        "repo": REPO,
        "include-task": "demo/hello-file\ndemo/fix-git\ndemo/count-errors",
        "n-concurrent": "1",
        "fail-on": "never",
        **{key.replace("_", "-"): value for key, value in changes.items()},
    }


def artifacts(world: World, run_id: int = 1) -> list[str]:
    return sorted(path.name for path in (world.artifacts / str(run_id)).iterdir())


def results(world: World, run_id: int = 1) -> dict[str, Any]:
    (file,) = (world.artifacts / str(run_id)).glob("*-report/results.json")
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def paid_servers(answer: dict[str, Any]) -> list[str]:
    """The ids of the server jobs that an answer counts; their costs make up the sum."""
    items = [item for item in answer["cost"]["items"] if item["kind"] == "server"]
    assert answer["cost"]["server_usd"] == pytest.approx(sum(item["usd"] for item in items))
    return [item["job_id"] for item in items]


def test_workflow__three_legs_one_after_the_other(tmp_path: Path) -> None:
    with loopback_world(tmp_path, settings={"model_thinking": 28.0}) as (world, hub, _):
        ended = world.run(
            "workflow_dispatch",
            "terminal-bench.yml",
            inputs=settings(world, legs="4", time_budget=ONE_TRIAL_A_LEG),
        )
        assert ended.code == 0, ended.log[-5000:]
        legs = [name.split("-leg")[1] for name in artifacts(world) if "-leg" in name]
        assert legs == ["1-more", "2-more", "3-done"], "the fourth leg had nothing to do"
        assert results(world)["counts"] == {"planned": 3, "passed": 3, "failed": 0, "errored": 0}
        servers = [job for job in hub.jobs() if job["kind"] == "server"]
        assert len(servers) == 1, "the legs share one server"
        assert hub.alive() == []


def test_workflow__three_shards_side_by_side_are_merged(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        ended = world.run(
            "workflow_dispatch", "terminal-bench.yml", inputs=settings(world, shards="3")
        )
        assert ended.code == 0, ended.log[-5000:]
        assert len([name for name in artifacts(world) if name.endswith("-leg1-done")]) == 3
        assert results(world)["counts"] == {"planned": 3, "passed": 3, "failed": 0, "errored": 0}
        assert hub.alive() == []


def test_workflow__shards_share_one_server_and_its_cost(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        ended = world.run(
            "workflow_dispatch",
            "terminal-bench.yml",
            inputs=settings(world, shards="2", server="shared", legs="1"),
        )
        assert ended.code == 0, ended.log[-5000:]
        (server,) = [job for job in hub.jobs() if job["kind"] == "server"]
        assert hub.alive() == []
        answer = results(world)
        assert answer["counts"] == {"planned": 3, "passed": 3, "failed": 0, "errored": 0}
        assert len({row["task"] for row in answer["tasks"]}) == 3
        assert paid_servers(answer) == [server["id"]], "once, though two shards used it"
        stopped = ended.log.index(f"cancelled server {server['id']}")
        assert ended.log.count("complete: ", 0, stopped) == 2, "after the last shard"


def test_workflow__a_shared_server_is_stopped_when_the_shards_fail(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        ended = world.run(
            "workflow_dispatch",
            "terminal-bench.yml",
            inputs=settings(world, shards="2", server="shared", baseline="missing.json"),
        )
        assert ended.code == 1
        assert "Leg 1, server" in " ".join(ended.jobs("succeeded")), ended.log[-3000:]
        assert len(ended.jobs("failed")) == 2
        (server,) = hub.jobs()
        assert f"cancelled server {server['id']}" in ended.log
        assert hub.alive() == []


def test_workflow__one_leg_too_short_says_so_and_a_second_dispatch_goes_on(
    tmp_path: Path,
) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        one = {"legs": "1", "include_task": "demo/fix-git"}
        first = world.run(
            "workflow_dispatch",
            "terminal-bench.yml",
            inputs=settings(world, time_budget=NOTHING_FITS, **one),
        )
        assert "continue-from: 1" in first.log, first.log[-5000:]
        assert results(world)["counts"]["errored"] == 1
        assert hub.alive() == []
        second = world.run(
            "workflow_dispatch",
            "terminal-bench.yml",
            inputs=settings(world, continue_from="1", **one),
            run_id=2,
        )
        assert second.code == 0, second.log[-5000:]
        assert results(world, 2)["counts"]["passed"] == 1
        assert hub.alive() == []


def test_workflow__a_wrong_number_of_shards_stops_before_anything_is_paid(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, _):
        ended = world.run(
            "workflow_dispatch", "terminal-bench.yml", inputs=settings(world, shards="99")
        )
        assert ended.code == 1
        assert "input `shards`: '99' is not a whole number from 1 to 20" in ended.log
        assert hub.jobs() == []


def test_model_release__a_new_revision_is_measured_once_and_recorded(tmp_path: Path) -> None:
    with loopback_world(tmp_path) as (world, hub, github):
        bare = world.branches()
        variables = {
            "TBH_RECIPE": world.variables["DEMO_RECIPE"],
            "TBH_MODEL": "demo/Scripted-1B",
        }
        extra = [word for pair in variables.items() for word in ("--var", "=".join(pair))]
        first = world.run("schedule", "model-release-demo.yml", extra=extra)
        assert first.code == 0, first.log[-5000:]
        listed = subprocess.run(
            ["git", "-C", str(bare), "ls-tree", "-r", "--name-only", "tbh-results"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert len(listed) == 1
        assert listed[0].endswith("/results.json")
        paid = len(hub.jobs())
        again = world.run("schedule", "model-release-demo.yml", extra=extra, run_id=2)
        assert again.code == 0, again.log[-5000:]
        assert "Nothing new." in again.log
        assert len(hub.jobs()) == paid
        assert github.issues == []
