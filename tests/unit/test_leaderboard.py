"""The public leaderboard's rules, and what is prepared for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tbh_action.errors import SpecError
from tbh_action.publishing.leaderboard import doubts, harbor_config, prepare_submission, version_of
from tbh_action.redact import Redactor
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring import results as results_
from tests.factories import results, rows
from tests.published import finished_run

KEPT = {
    "agent_timeout_multiplier": 1.0,
    "benchmark.repo": "https://huggingface.co/datasets/harborframework/terminal-bench-2.1",
    "benchmark.n_planned": 2,
    "benchmark.include_task": [],
    "benchmark.n_tasks": None,
    "agent.max_time": None,
}


def kept(outcomes: str | list[dict[str, Any]] = "ppfpp pfppp", **fields: Any) -> dict[str, Any]:
    return results(outcomes, fields=KEPT | fields)


def test_doubts__none_when_all_rules_were_kept() -> None:
    assert doubts(kept()) == []
    config = {
        "timeout_multiplier": 1.0,
        "agents": [{"override_timeout_sec": None, "max_timeout_sec": None, "kwargs": {}}],
        "environment": {"type": "hf-sandbox", "override_cpus": None},
        "override_error_policy": {"SandboxError": {"should_grade": False}},
    }
    assert doubts(kept(), config) == []


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (kept(agent_timeout_multiplier=4.0), "agent_timeout_multiplier is 4, not 1"),
        (kept("p f"), "1 attempt a task, not 5 or more"),
        (kept("pppp pppp"), "4 attempts a task, not 5 or more"),
        (kept("ppepp ppppp"), "1 of 10 trials have no valid reward"),
        (kept(rows("ppppp ppppp")[:5]), "1 of the 2 tasks are not in the result"),
        (kept(**{"benchmark.include_task": ["a"]}), "only some tasks were asked for"),
        (kept(**{"benchmark.exclude_task": ["a"]}), "some tasks were excluded"),
        (kept(**{"benchmark.n_tasks": 2}), "only a number of the tasks was asked for"),
        (kept(**{"agent.max_time": 60.0}), "max_time is set (60.0)"),
        (kept(**{"environment.kwargs.override_cpus": 4}), "override_cpus is set (4)"),
        (
            kept(**{"benchmark.repo": "https://huggingface.co/datasets/o/terminal-bench-3.0"}),
            "the leaderboard's rules are known for Terminal-Bench 2.0 and 2.1 only",
        ),
    ],
)
def test_doubts__each_rule(document: dict[str, Any], reason: str) -> None:
    assert reason in doubts(document)


def test_doubts__missing_trials_are_counted_by_themselves() -> None:
    document = kept("ppppp ppppe")
    document["tasks"][-1]["class"] = "missing"
    assert doubts(document) == ["1 of 10 planned trials are missing"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"timeout_multiplier": 2}, "timeout_multiplier is 2, not 1"),
        ({"agents": [{"override_timeout_sec": 9}]}, "agent: override_timeout_sec is set (9)"),
        ({"agents": [{"max_timeout_sec": 9}]}, "agent: max_timeout_sec is set (9)"),
        ({"verifier": {"max_timeout_sec": 9}}, "verifier: max_timeout_sec is set (9)"),
        ({"environment": {"override_cpus": 8}}, "environment: override_cpus is set (8)"),
    ],
)
def test_doubts__overrides_that_only_the_job_knows(config: dict[str, Any], reason: str) -> None:
    assert doubts(kept(), config) == [reason]


@pytest.mark.parametrize(
    ("repo", "version"),
    [
        ("https://huggingface.co/datasets/harborframework/terminal-bench-2.0", "2.0"),
        ("https://huggingface.co/datasets/harborframework/terminal-bench-2.1.git", "2.1"),
        ("https://huggingface.co/datasets/demo/terminal-bench-2.1/", "2.1"),
        ("https://huggingface.co/datasets/harborframework/terminal-bench-3.0", None),
        ("https://huggingface.co/datasets/harborframework/my-terminal-bench-12.1", None),
    ],
)
def test_version_of__by_the_source(repo: str, version: str | None) -> None:
    assert version_of(results("p", fields={"benchmark.repo": repo}, benchmark={})) == version


def job(tmp_path: Path, version: str, **agent: Any) -> RunDir:
    repo = f"https://huggingface.co/datasets/harborframework/terminal-bench-{version}"
    run_dir = finished_run(
        tmp_path / "run-a",
        tasks=2,
        spec={"benchmark": {"name": f"terminal-bench-{version}", "repo": repo}},
    )
    config = {"agents": [{"name": "terminus-2", "model_name": "openai/demo/Scripted-1B", **agent}]}
    write_json(run_dir.harbor_job / "config.json", config)
    return run_dir


@pytest.mark.parametrize(
    ("version", "folder"),
    [("2.0", "submissions/terminal-bench/2.0/terminus-2__Scripted-1B"), ("2.1", ".")],
)
def test_prepare_submission__the_leaderboards_own_layout(
    tmp_path: Path, version: str, folder: str
) -> None:
    run_dir = job(tmp_path, version)
    document = results_.read(run_dir.results)
    submission = prepare_submission(run_dir, document, Redactor())
    root = submission.path / folder
    assert submission.path == run_dir.root / "submission"
    metadata = yaml.safe_load((root / "metadata.yaml").read_text(encoding="utf-8"))
    assert metadata.keys() == {
        "agent_url",
        "agent_display_name",
        "agent_org_display_name",
        "models",
    }
    assert metadata["models"] == [
        {
            "model_name": "Scripted-1B",
            "model_provider": "openai",
            "model_display_name": "Scripted-1B",
            "model_org_display_name": "demo",
        }
    ]
    theirs = {path.name for path in (root / "run-a").iterdir()}
    assert theirs == {path.name for path in run_dir.harbor_job.iterdir()}
    assert any(str(root / "metadata.yaml") in step for step in submission.steps)


def test_prepare_submission__keeps_what_its_owner_filled_in(tmp_path: Path) -> None:
    run_dir = job(tmp_path, "2.1")
    document = results_.read(run_dir.results)
    path = prepare_submission(run_dir, document, Redactor()).path / "metadata.yaml"
    path.write_text("agent_url: https://example.org\n", encoding="utf-8")
    prepare_submission(run_dir, document, Redactor())
    assert path.read_text(encoding="utf-8") == "agent_url: https://example.org\n"


def test_prepare_submission__refuses_a_key_in_clear(tmp_path: Path) -> None:
    run_dir = job(tmp_path, "2.1", env={"OPENAI_API_KEY": "0123456789abcdef"})
    with pytest.raises(SpecError, match=r"key in clear at agents\.0\.env\.OPENAI_API_KEY"):
        prepare_submission(run_dir, results_.read(run_dir.results), Redactor())
    assert not (run_dir.root / "submission").exists()


def test_harbor_config__unreadable_is_empty(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    assert harbor_config(run_dir) == {}
    run_dir.harbor_job.mkdir(parents=True)
    (run_dir.harbor_job / "config.json").write_text(json.dumps([1]), encoding="utf-8")
    assert harbor_config(run_dir) == {}
