"""What Harbor's own models write is what we read."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tbh_action.harbor.job_dir import read_job
from tbh_action.harbor.trial import Tokens, read_trial
from tbh_action.scoring.directory import score_job
from tbh_action.scoring.failures import error_policy_overrides

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def _config(task: str) -> Any:
    from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig

    return TrialConfig(
        task=TaskConfig(path=Path("/tasks") / task, source="demo"),
        trial_name=f"{task}__abcdefg",
        trials_dir=Path("/jobs/j"),
        agent=AgentConfig(name="terminus-2", model_name="openai/org/m"),
        environment=EnvironmentConfig(type="hf-sandbox"),
        override_error_policy=error_policy_overrides(),
    )


def _result(task: str, **more: Any) -> Any:
    from harbor.models.agent.context import AgentContext
    from harbor.models.task.id import LocalTaskId
    from harbor.models.trial.result import AgentInfo, ModelInfo, TimingInfo, TrialResult
    from harbor.models.verifier.result import VerifierResult

    values = {
        "task_name": f"demo/{task}",
        "trial_name": f"{task}__abcdefg",
        "trial_uri": "file:///jobs/j/x",
        "task_id": LocalTaskId(path=Path("/tasks") / task),
        "source": "demo",
        "task_checksum": "0" * 64,
        "config": _config(task),
        "agent_info": AgentInfo(
            name="terminus-2", version="2", model_info=ModelInfo(name="org/m", provider="openai")
        ),
        "agent_result": AgentContext(n_input_tokens=9, n_cache_tokens=4, n_output_tokens=2),
        "verifier_result": VerifierResult(rewards={"reward": 1.0}),
        "started_at": NOON,
        "finished_at": NOON + timedelta(minutes=9),
        "agent_execution": TimingInfo(
            started_at=NOON + timedelta(minutes=1), finished_at=NOON + timedelta(minutes=8)
        ),
    }
    return TrialResult(**(values | more))


def _put(job: Path, result: Any) -> Path:
    directory = job / result.trial_name
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(result.config.model_dump_json(indent=4))
    (directory / "result.json").write_text(result.model_dump_json(indent=4))
    return directory


def test_read_trial__a_result_that_harbor_wrote(tmp_path: Path) -> None:
    trial = read_trial(_put(tmp_path, _result("fix-git")))
    assert (trial.task, trial.lock_name, trial.reward) == ("demo/fix-git", "fix-git", 1.0)
    assert trial.tokens == Tokens(input=9, cached=4, output=2, cost_usd=None)
    assert (trial.seconds, trial.agent_seconds) == (540.0, 420.0)
    assert (trial.agent, trial.model, trial.errors) == ("terminus-2", "org/m", ())


def test_read_trial__exceptions_that_harbor_recorded(tmp_path: Path) -> None:
    from harbor.models.trial.result import ExceptionInfo, StepResult
    from huggingface_hub.errors import SandboxError

    def recorded(error: Exception) -> Any:
        return ExceptionInfo.from_exception(
            error, override_error_policy=_config("t").override_error_policy
        )

    result = _result(
        "fix-git",
        exception_info=recorded(SandboxError("connection lost")),
        step_results=[StepResult(step_name="s1", exception_info=recorded(ConnectionError("x")))],
    )
    trial = read_trial(_put(tmp_path, result))
    assert [(e.type, e.where) for e in trial.errors] == [
        ("SandboxError", "trial"),
        ("ConnectionError", "step s1"),
    ]
    assert not any(info.policy.has_valid_reward for info in result.recorded_exceptions())
    assert score_job(tmp_path)["errors_by_class"] == {"infrastructure": 1}


def test_read_trial__a_directory_that_harbor_only_began(tmp_path: Path) -> None:
    directory = _put(tmp_path, _result("a-task-with-a-name-that-is-much-too-long-for-a-directory"))
    (directory / "result.json").unlink()
    trial = read_trial(directory)
    assert trial.task == "a-task-with-a-name-that-is-much-too-long-for-a-directory"
    assert (trial.unfinished, trial.task_from) == (True, "config.json")


def test_read_job__a_lock_that_harbor_wrote(tmp_path: Path) -> None:
    from harbor.models.job.config import JobConfig
    from harbor.models.job.lock import build_job_lock

    names = ["fix-git", "fix-git", "never-ran"]
    configs = [_config(name) for name in names]
    lock = build_job_lock(
        config=JobConfig(job_name="j", n_attempts=1),
        trial_configs=configs,
        task_download_results={
            config.task.get_task_id(): SimpleNamespace(
                path=tmp_path, content_hash="0" * 64, resolved_git_commit_id=None
            )
            for config in configs
        },
    )
    job = tmp_path / "job"
    _put(job, _result("fix-git"))
    (job / "lock.json").write_text(lock.model_dump_json(indent=4))
    facts = read_job(job)
    assert facts.planned == tuple((name, "demo") for name in names)
    assert facts.harbor["version"] == "0.26.0"
    rows = [(row["task"], row["class"]) for row in score_job(job)["tasks"]]
    assert rows == [
        ("demo/fix-git", "none"),
        ("demo/fix-git", "missing"),
        ("demo/never-ran", "missing"),
    ]


def test_override_error_policy__harbor_run_takes_it(tmp_path: Path) -> None:
    """The real command line accepts the policy and would run with it."""
    config = {
        "job_name": "j",
        "jobs_dir": str(tmp_path),
        "override_error_policy": error_policy_overrides(),
        "agents": [{"name": "oracle"}],
        "datasets": [{"path": str(tmp_path)}],
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    harbor = str(Path(sys.executable).parent / "harbor")
    done = subprocess.run(
        [harbor, "run", "-c", str(path), "--print-config"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    assert shown["override_error_policy"]["SandboxError"]["has_valid_reward"] is False
