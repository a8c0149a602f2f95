from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tbh_action.controller.state import RunState
from tbh_action.harbor.lock import JobLock
from tbh_action.harbor.tasks import TaskInfo, TaskList
from tbh_action.publishing.provenance import (
    ci_run,
    collect,
    installed_versions,
    of_run,
    shipped_recipe,
)
from tbh_action.resolve import resolve
from tbh_action.rundir import RunDir
from tbh_action.server.hf_job import new_server

TASKS = TaskList(
    tasks=(
        TaskInfo(name="org/a", directory="/x/a", docker_image="img/a:1", agent_timeout=900.0),
        TaskInfo(name="b", directory="/x/b", digest="sha256:" + "b" * 64, git_commit="c" * 40),
    ),
    left_out=("broken",),
)
LOCK = JobLock(
    harbor={"version": "0.26.0", "git_commit_hash": "f" * 40},
    tasks=({"name": "a", "digest": "sha256:" + "a" * 64, "git_commit_id": "c" * 40},),
)


def state_of() -> RunState:
    spec = resolve({"recipe": "qwen3-8b"})
    job = replace(new_server(spec), job_id="j1", stage="COMPLETED", seconds=12.0)
    return RunState(
        run_id="r-1",
        started_at="2026-01-01T00:00:00.000Z",
        servers=[job],
        prices={"l40sx1": 0.03, "h200": 0.08},
        benchmark_commit="c" * 40,
        context_length=40960,
    )


def test_collect__holds_what_repeats_the_run() -> None:
    spec = resolve({"recipe": "qwen3-8b", "model_revision": "abc", "exclude_task": ("hard-*",)})
    found = collect(
        spec=spec,
        tasks=TASKS,
        state=state_of(),
        lock=LOCK,
        versions={"harbor": "0.26.0"},
        recipe="qwen3-8b",
    )
    assert found["spec"] == spec.model_dump(mode="json")
    assert found["server_command"][-2:] == ["--revision", "abc"]
    assert found["tasks"]["org/a"]["digest"] == "sha256:" + "a" * 64
    assert found["tasks"]["b"]["digest"] == "sha256:" + "b" * 64
    assert found["tasks_left_out"] == {
        "broken": "Harbor finds the task invalid",
        "hard-*": "left out by --exclude-task or the recipe",
    }
    assert found["server_jobs"][0]["job_id"] == "j1"
    assert "nonce" not in found["server_jobs"][0]
    assert found["usd_per_minute"] == {"l40sx1": 0.03}
    assert found["harbor_commit"] == "f" * 40
    assert found["benchmark_commit"] == "c" * 40
    json.dumps(found, allow_nan=False)


def test_collect__pinned_digest_is_known() -> None:
    spec = resolve({"recipe": "qwen3-8b"})
    assert spec.server is not None
    pinned = spec.model_copy(
        update={"server": spec.server.model_copy(update={"image": "a/b:1@sha256:" + "d" * 64})}
    )
    assert collect(spec=spec, tasks=TASKS, state=state_of())["server_image_digest"] is None
    found = collect(spec=pinned, tasks=TASKS, state=state_of())
    assert found["server_image_digest"] == "sha256:" + "d" * 64


def test_ci_run__on_github_and_off() -> None:
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "acme/models",
        "GITHUB_RUN_ID": "7",
        "GITHUB_SHA": "e" * 40,
        "GITHUB_EVENT_NAME": "release",
        "GITHUB_TOKEN": "not to be kept",
    }
    found = ci_run(environ)
    assert found["ci_run"] == "https://github.com/acme/models/actions/runs/7"
    assert found["commit"] == "e" * 40
    assert found["ci"] == {"event": "release"}
    assert ci_run({}) == {}


def test_installed_versions__names_what_did_the_work() -> None:
    assert {"python", "system", "harbor", "huggingface_hub"} <= installed_versions().keys()


def test_of_run__reads_harbors_lock(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.harbor_job.mkdir(parents=True)
    lock = {"harbor": LOCK.harbor, "trials": [{"task": task} for task in LOCK.tasks]}
    (run_dir.harbor_job / "lock.json").write_text(json.dumps(lock), encoding="utf-8")
    found = of_run(run_dir, resolve({"recipe": "qwen3-8b"}), state_of(), TASKS, "1/2")
    assert found["harbor_commit"] == "f" * 40
    assert found["tasks"]["org/a"]["git_commit"] == "c" * 40
    assert (found["recipe"], found["shard"]) == ("qwen3-8b", "1/2")


def test_of_run__before_harbor_wrote_anything(tmp_path: Path) -> None:
    found = of_run(RunDir(tmp_path), resolve({"recipe": "qwen3-8b"}), state_of(), TASKS)
    assert found["harbor_commit"] is None
    assert found["harbor"] == "0.26.0"


def test_shipped_recipe__only_when_it_serves_alike() -> None:
    spec = resolve({"recipe": "qwen3-8b", "flavor": "h200"})
    assert spec.server is not None
    assert shipped_recipe(spec) == "qwen3-8b"
    other = spec.server.model_copy(update={"image": "own/server:1"})
    assert shipped_recipe(spec.model_copy(update={"server": other})) is None
    assert shipped_recipe(resolve({"model": "m", "endpoint": "http://127.0.0.1:9/v1"})) is None
