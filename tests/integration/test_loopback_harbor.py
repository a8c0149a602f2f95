"""The real Harbor, its real hf-sandbox environment and terminus-2, against the loopback Hub."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loopback_real import FAST, MODEL, api, client_of, processes_with, real_hub, run_server, until

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.demo import demo_faults
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_REPO_URL, DEMO_TASKS, make_repository
from tbh_action.loopback.tasks import write_tasks as write_more_tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
HARBOR = str(Path(sys.executable).with_name("harbor"))

# task → (reward, exception) after the first pass with the demo's faults
FIRST_PASS = {
    "demo/broken-mirror": (None, "SandboxError"),
    "demo/count-errors": (1.0, None),
    "demo/csv-totals": (0.0, None),
    "demo/deep-thought": (0.0, "AgentTimeoutError"),
    "demo/fix-git": (1.0, None),
    "demo/hello-file": (1.0, None),
    "demo/lfs-checksum": (1.0, None),
    "demo/private-image": (None, "HfHubHTTPError"),
    "demo/regex-dates": (0.0, None),
    "demo/sort-numbers": (None, "RemoteProtocolError"),
    "demo/word-count": (None, "SandboxError"),
}


@dataclass
class Harbor:
    """One Harbor job against the Hub, with a model server of its own."""

    hub: LoopbackHub
    folder: Path
    environment: dict[str, str]

    @property
    def job(self) -> Path:
        return self.folder / "jobs" / "j"

    def config(self, dataset: dict[str, Any], n_concurrent: int = 4) -> Path:
        agent = {
            "name": "terminus-2",
            "model_name": f"openai/{MODEL}",
            "kwargs": {
                "record_terminal_session": False,
                "session_id_headers": ["X-Tbh-Session"],
                "model_info": {"max_input_tokens": 32768, "max_output_tokens": 4096},
            },
        }
        invalid = {"should_retry": True, "should_grade": False, "has_valid_reward": False}
        document = {
            "job_name": "j",
            "jobs_dir": str(self.folder / "jobs"),
            "n_concurrent_trials": n_concurrent,
            "quiet": True,
            "override_error_policy": dict.fromkeys(
                ("SandboxError", "RemoteProtocolError"), invalid
            ),
            "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-basic"}},
            "agents": [agent],
            "datasets": [dataset],
        }
        file = self.folder / "config.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        return file

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [HARBOR, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *arguments: str) -> None:
        process = self.start(*arguments)
        said, _ = process.communicate()
        assert process.returncode == 0, said[-4000:]

    def results(self) -> dict[str, tuple[float | None, str | None]]:
        found = {}
        for file in self.job.glob("*/result.json"):
            trial = json.loads(file.read_text(encoding="utf-8"))
            rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
            exception = (trial.get("exception_info") or {}).get("exception_type")
            found[trial["task_name"]] = (rewards.get("reward"), exception)
        return found

    def forget(self, *exceptions: str) -> None:
        """Takes away the trials that ended so, for a resume to run them again."""
        for file in self.job.glob("*/result.json"):
            trial = json.loads(file.read_text(encoding="utf-8"))
            if (trial.get("exception_info") or {}).get("exception_type") in exceptions:
                shutil.rmtree(file.parent)


@pytest.fixture(scope="module")
def running() -> Iterator[LoopbackHub]:
    yield from real_hub()


@pytest.fixture
def harbor(running: LoopbackHub, tmp_path: Path) -> Iterator[Harbor]:
    job = run_server(running)
    with client_of(running, job) as client:
        until(lambda: client.get("/health").status_code == 200)
    assert job.status.expose_urls
    environment = {
        **os.environ,
        **running.environment(),
        "OPENAI_BASE_URL": f"{job.status.expose_urls[0]}/v1",
        "OPENAI_API_KEY": running.token,
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    yield Harbor(running, tmp_path, environment)
    running.reset()


def test_demo__three_passes_over_the_repository(harbor: Harbor) -> None:
    harbor.hub.set_faults(demo_faults())
    harbor("run", "-c", str(harbor.config({"repo": DEMO_REPO_URL})), "-y")
    assert harbor.results() == FIRST_PASS
    for _ in range(2):
        harbor.forget("SandboxError", "RemoteProtocolError")
        harbor("job", "resume", "-p", str(harbor.job))
    assert harbor.results() == FIRST_PASS | {
        "demo/sort-numbers": (1.0, None),
        "demo/word-count": (1.0, None),
    }
    alive = harbor.hub.alive()
    assert [job["kind"] for job in alive] == ["server"]
    attempts = {job["task"]: job["attempt"] for job in harbor.hub.jobs() if job["task"]}
    assert (attempts["broken-mirror"], attempts["word-count"], attempts["fix-git"]) == (3, 2, 1)


def test_harbor__counts_cached_tokens_and_asks_nobody_else(harbor: Harbor) -> None:
    dataset = {"path": str(DEMO_TASKS), "task_names": ["fix-git"]}
    harbor("run", "-c", str(harbor.config(dataset)), "-y")
    (file,) = harbor.job.glob("*/result.json")
    usage = json.loads(file.read_text(encoding="utf-8"))["agent_result"]
    assert 0 < usage["n_cache_tokens"] < usage["n_input_tokens"]
    chats = harbor.hub.calls("model.chat")
    assert len(chats) == 4
    assert {call["task"] for call in chats} == {"fix-git"}


def test_harbor__interrupted_leaves_no_sandbox(harbor: Harbor) -> None:
    write_more_tasks(harbor.folder / "tasks", 2, seconds=(31.25,))
    config = harbor.config({"path": str(harbor.folder / "tasks")})
    process = harbor.start("run", "-c", str(config), "-y")
    until(lambda: len(processes_with("sleep 31.25")) >= 2, 60)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    until(lambda: [job["kind"] for job in harbor.hub.alive()] == ["server"])
    cancels = harbor.hub.calls("jobs.cancel")
    assert len(cancels) == 2
    assert max(call["at"] for call in cancels) - sent < 20
    until(lambda: not processes_with("sleep 31.25"))


def test_write_tasks__the_model_solves_them(harbor: Harbor) -> None:
    write_more_tasks(harbor.folder / "tasks", 3, seconds=(0.2,))
    harbor("run", "-c", str(harbor.config({"path": str(harbor.folder / "tasks")})), "-y")
    assert harbor.results() == {f"demo/task-{n:03d}": (1.0, None) for n in range(3)}


def test_make_repository__the_same_commit_each_time_and_lfs_pointers(tmp_path: Path) -> None:
    heads = []
    for name in ("one", "two"):
        bare = make_repository(tmp_path / name)
        git = ["git", "-C", str(bare)]
        heads.append(subprocess.check_output([*git, "rev-parse", "main"], text=True))
        pointer = "main:tasks/lfs-checksum/tests/pattern.bin"
        text = subprocess.check_output([*git, "show", pointer], text=True)
        assert text.startswith("version https://git-lfs.github.com/spec/v1\noid sha256:")
    assert heads[0] == heads[1]


def test_environment__git_clones_the_demo_tasks_with_lfs(
    running: LoopbackHub, tmp_path: Path
) -> None:
    environment = {**os.environ, **running.environment()}
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", DEMO_REPO_URL, clone], env=environment, check=True)
    subprocess.run(["git", "lfs", "pull"], cwd=clone, env=environment, check=True)
    file = clone / "tasks" / "lfs-checksum" / "tests" / "pattern.bin"
    assert file.read_bytes() == bytes(range(256)) * 16


def test_demo_model_recipe__starts_a_server_on_the_hub(running: LoopbackHub) -> None:
    recipe = tomllib.loads(DEMO_MODEL_RECIPE.read_text(encoding="utf-8"))
    server = recipe["server"]
    job = run_server(
        running,
        image=server["image"],
        command=server["command"],
        flavor=server["flavor"],
        expose=[server["port"]],
    )
    with client_of(running, job) as client:
        until(lambda: client.get("/v1/models").status_code == 200)
        assert client.get("/v1/models").json()["data"][0]["id"] == recipe["model"]
    api(running).cancel_job(job_id=job.id, namespace="demo")


def test_speed__scales_the_waiting_times() -> None:
    slow = {"server_scheduling": FAST["server_scheduling"] * 20, "model_loading": 4.0}
    with LoopbackHub(speed=20, settings=slow) as hub:
        started = time.monotonic()
        with client_of(hub, api(hub).run_job(**_server_arguments())) as client:
            until(lambda: client.get("/health").status_code == 200)
        assert time.monotonic() - started < 4


def _server_arguments() -> dict[str, Any]:
    return {
        "image": "x",
        "command": ["demo-model-server", "--model", MODEL],
        "flavor": "t4-small",
        "expose": [30000],
        "namespace": "demo",
    }
