"""A job that was made by hand: read, copied, and its address forgotten in the copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trials import document, put

from tbh_action.errors import NotStartedError, SpecError
from tbh_action.harbor.adopt import copy_job, is_harbor_job, read_foreign, set_concurrency
from tbh_action.rundir import RunDir
from tbh_action.spec import validate_spec

ADDRESS = "https://dead--30000.hf.jobs/v1"


def config(**changes: Any) -> dict[str, Any]:
    """The seed's job, as Harbor writes its config."""
    return {
        "job_name": "seed",
        "n_attempts": 1,
        "timeout_multiplier": 1.0,
        "agent_timeout_multiplier": 4.0,
        "n_concurrent_trials": 3,
        "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-upgrade"}},
        "agents": [
            {
                "name": "terminus-2",
                "model_name": "openai/Qwen/Qwen3.8-27B-FP8",
                "kwargs": {"api_base": ADDRESS, "reasoning_effort": "low"},
            }
        ],
        "datasets": [{"repo": "https://huggingface.co/datasets/o/bench@c0ffee"}],
    } | changes


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with one trial; the address stands in the job's, the lock's and the trial's config."""
    job = tmp_path / "jobs" / "seed"
    trial = put(job, "t__aaaaaaa", document())
    agent = config()["agents"][0]
    written = {
        job / "config.json": config(),
        job / "lock.json": {"n_concurrent_trials": 3, "trials": [{"agent": agent}] * 2},
        trial / "config.json": {"trial_name": "t__aaaaaaa", "agent": agent},
    }
    for path, value in written.items():
        path.write_text(json.dumps(value), encoding="utf-8")
    (trial / "trial.log").write_text(f"calling {ADDRESS}", encoding="utf-8")
    (trial / "link").symlink_to("trial.log")
    return job


def texts(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def rewrite(job: Path, value: Any) -> Path:
    text = value if isinstance(value, str) else json.dumps(value)
    (job / "config.json").write_text(text, encoding="utf-8")
    return job


def test_copy_job__forgets_the_address_and_touches_nothing_else(job: Path, tmp_path: Path) -> None:
    before = texts(job)
    run_dir = RunDir(tmp_path / "run")
    run_dir.harbor_job.parent.mkdir(parents=True)
    copy_job(job, run_dir)
    assert texts(job) == before, "the original stays as it is"
    after = texts(run_dir.harbor_job)
    assert after.keys() == before.keys()
    for name, text in after.items():
        if name.endswith(".json"):
            assert ADDRESS not in text
            assert json.loads(text) == without_address(json.loads(before[name]))
        else:
            assert text == before[name]
    assert (run_dir.harbor_job / "t__aaaaaaa" / "link").is_symlink()


def without_address(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_address(item) for key, item in value.items() if key != "api_base"}
    return [without_address(item) for item in value] if isinstance(value, list) else value


def test_copy_job__over_the_rest_of_one_that_was_killed(job: Path, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "run")
    (run_dir.harbor_job.with_name("job.new") / "junk").mkdir(parents=True)
    copy_job(job, run_dir)
    assert not (run_dir.harbor_job / "junk").exists()
    assert [path.name for path in run_dir.harbor_job.parent.iterdir()] == ["job"]


def test_copy_job__not_possible_is_one_line_and_leaves_nothing(job: Path, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "run")
    (run_dir.harbor_job / "mine").mkdir(parents=True)
    with pytest.raises(SpecError, match="Cannot copy the job"):
        copy_job(job, run_dir)
    assert [path.name for path in run_dir.harbor_job.parent.iterdir()] == ["job"]


def test_read_foreign__the_seeds_job_in_our_words(job: Path) -> None:
    foreign = read_foreign(job)
    assert foreign.api_base == ADDRESS
    spec = validate_spec(foreign.document | {"endpoint": ADDRESS})
    assert spec.model.name == "Qwen/Qwen3.8-27B-FP8"
    assert spec.agent.kwargs == {"reasoning_effort": "low"}
    assert (spec.benchmark.repo, spec.benchmark.revision) == (
        "https://huggingface.co/datasets/o/bench",
        "c0ffee",
    )
    assert spec.benchmark.name == "bench"
    assert spec.environment.flavor == "cpu-upgrade"
    assert (spec.agent_timeout_multiplier, spec.n_concurrent) == (4, 3)


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"datasets": [{"path": "/tasks", "n_tasks": 3}]}, "benchmark.path", "/tasks"),
        ({"datasets": [{"path": "/tasks", "n_tasks": 3}]}, "benchmark.n_tasks", 3),
        ({"datasets": [{"name": "o/set", "ref": "v1"}]}, "benchmark.dataset", "o/set"),
        ({"datasets": [{"name": "o/set", "ref": "v1"}]}, "benchmark.revision", "v1"),
        ({"datasets": [{"name": "set", "version": "2"}]}, "benchmark.revision", "2"),
        ({"datasets": [{"path": "/t", "task_names": ["a"]}]}, "benchmark.include_task", ("a",)),
        (
            {"datasets": [{"path": "/t", "exclude_task_names": ["a"]}]},
            "benchmark.exclude_task",
            ("a",),
        ),
        ({"n_attempts": 5}, "n_attempts", 5),
        (
            {"agent_timeout_multiplier": None, "timeout_multiplier": 2.0},
            "agent_timeout_multiplier",
            2,
        ),
        ({"environment": {}}, "environment.type", "docker"),
        (
            {"agents": [{"name": "terminus-2", "model_name": "hosted_vllm/m"}]},
            "model.name",
            "m",
        ),
        (
            {"agents": [{"model_name": "m", "max_timeout_sec": 60}]},
            "agent.max_time",
            60,
        ),
    ],
)
def test_read_foreign__other_jobs(
    job: Path, changes: dict[str, Any], place: str, value: object
) -> None:
    document = read_foreign(rewrite(job, config(**changes))).document
    found: Any = validate_spec(document | {"endpoint": ADDRESS})
    for part in place.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[]",
        {},
        config(agents=[]),
        config(agents=[{}, {}]),
        config(agents=["terminus-2"]),
        config(agents={"name": "x"}),
        config(datasets=[]),
        config(datasets=["x"]),
        config(datasets=None),
    ],
)
def test_read_foreign__what_tbh_cannot_continue(job: Path, value: Any) -> None:
    with pytest.raises(SpecError) as caught:
        read_foreign(rewrite(job, value))
    assert "\n" not in caught.value.message


def test_is_harbor_job__and_no_run_of_ours(job: Path, tmp_path: Path) -> None:
    assert is_harbor_job(job)
    assert not is_harbor_job(tmp_path)
    (job / "spec.json").touch()
    assert not is_harbor_job(job)


def test_set_concurrency__in_both_files_or_neither(job: Path) -> None:
    before = texts(job)
    assert set_concurrency(job, 3) is False
    assert texts(job) == before
    assert set_concurrency(job, 8) is True
    for name in ("config.json", "lock.json"):
        changed = json.loads(texts(job)[name])
        assert changed == json.loads(before[name]) | {"n_concurrent_trials": 8}


def test_set_concurrency__finishes_what_a_kill_left_half(job: Path) -> None:
    lock = json.loads((job / "lock.json").read_text(encoding="utf-8"))
    (job / "lock.json").write_text(json.dumps(lock | {"n_concurrent_trials": 8}), encoding="utf-8")
    assert set_concurrency(job, 8) is True
    assert json.loads(texts(job)["config.json"])["n_concurrent_trials"] == 8


def test_set_concurrency__damaged_is_one_line(job: Path) -> None:
    with pytest.raises(NotStartedError, match="is damaged") as caught:
        set_concurrency(rewrite(job, "{"), 8)
    assert "\n" not in caught.value.message
