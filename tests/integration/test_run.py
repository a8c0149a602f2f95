"""Whole runs: the real command, the real Harbor, the real client, a loopback Hub."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tbh_action.harbor import command
from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_TASKS
from tbh_action.rundir import read_lines
from tests.integration.runs import DEMO, files_with, outcomes, results, start, tasks, tbh

pytestmark = pytest.mark.slow


def wait_for(run_dir: Path, event: str, count: int = 1) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if (
            sum(line.get("event") == event for line in read_lines(run_dir / "events.jsonl"))
            >= count
        ):
            return
        time.sleep(0.05)
    pytest.fail(f"the run never came to {event}")


def test_demo__whole_job(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tbh_action", "demo", "--run-dir", "demo"],
        cwd=tmp_path,
        # A demo is the same for everybody, whatever is set for runs of one's own.
        env=os.environ | {"TBH_PATH": "/mine", "TBH_N_TASKS": "1", "TBH_SHARD": "1/2"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run_dir = tmp_path / "demo"
    assert outcomes(run_dir) == {
        "broken-mirror": "infrastructure",
        "count-errors": "passed",
        "csv-totals": "failed",
        "deep-thought": "failed",
        "fix-git": "passed",
        "hello-file": "passed",
        "lfs-checksum": "passed",
        "private-image": "setup",
        "regex-dates": "failed",
        "sort-numbers": "passed",
        "word-count": "passed",
    }
    document = results(run_dir)
    assert document["counts"] == {"planned": 11, "passed": 6, "failed": 3, "errored": 2}
    assert document["first_pass"]["passed"] == 4
    assert document["run"]["complete"] is True
    assert len(document["passes"]) >= 2
    assert sum(record["repaired"] for record in document["passes"]) == 2
    assert "The Hub lists 0 running jobs" in done.stdout
    for name in ("summary.md", "comment.md", "index.html", "junit.xml", "results.csv"):
        assert (run_dir / "report" / name).stat().st_size > 0
    # The private image is a set-up fault: seen once, never repeated.
    ledger = list(read_lines(run_dir / "attempts.jsonl"))
    assert sum(line["task"] == "demo/private-image" for line in ledger) == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_run__no_secret_anywhere(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        code, said = tbh(hub, "run", *DEMO, *tasks("hello-file"), "--run-dir", "r", cwd=tmp_path)
        token = hub.token
    assert code == 0, said
    assert token not in said
    assert files_with(token, tmp_path) == []


def test_run__server_killed_in_the_middle_costs_no_trial(tmp_path: Path) -> None:
    with LoopbackHub(settings={"model_thinking": 0.6}) as hub:
        names = ("hello-file", "fix-git", "count-errors")
        process = start(hub, "run", *DEMO, *tasks(*names), "--run-dir", "r", cwd=tmp_path)
        wait_for(tmp_path / "r", "agent-start", 2)
        server = next(job for job in hub.jobs() if job["kind"] == "server")
        hub.kill_job(server["id"])
        said, _ = process.communicate(timeout=150)
        alive = hub.alive()
    assert process.returncode == 0, said
    assert outcomes(tmp_path / "r") == dict.fromkeys(names, "passed")
    ledger = list(read_lines(tmp_path / "r" / "attempts.jsonl"))
    assert [line.get("exceptions") for line in ledger] == [None] * 3
    assert len(results(tmp_path / "r")["passes"]) == 1
    assert alive == []


@pytest.mark.parametrize("event", ["pass_started", "agent-start", "verification-start"])
def test_run__sigterm_cancels_within_two_seconds_and_goes_on_later(
    tmp_path: Path, event: str
) -> None:
    with LoopbackHub(settings={"model_thinking": 0.3}) as hub:
        arguments = ("run", *DEMO, *tasks("hello-file", "fix-git"), "--run-dir", "r")
        process = start(hub, *arguments, cwd=tmp_path)
        wait_for(tmp_path / "r", event)
        if event == "pass_started":
            time.sleep(1)  # The creation call is on its way or has just been answered.
        sent = time.time()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 143, said
        servers = [job["id"] for job in hub.jobs() if job["kind"] == "server"]
        cancels = [call for call in hub.calls("jobs.cancel") if call["job"] in servers]
        assert {call["job"] for call in cancels} == set(servers)
        assert all(call["at"] - sent < 2 for call in cancels[: len(servers)])
        assert hub.wait_until_idle(5)
        code, said = tbh(hub, *arguments, cwd=tmp_path)
        assert code == 0, said
        assert hub.alive() == []
    assert outcomes(tmp_path / "r") == {"hello-file": "passed", "fix-git": "passed"}


def test_run__a_signal_in_the_last_seconds_waits_for_the_answer(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        process = start(hub, "run", *DEMO, *tasks("hello-file"), "--run-dir", "r", cwd=tmp_path)
        wait_for(tmp_path / "r", "pass_ended")
        hub.set_faults([{"call": "jobs.list", "action": {"delay": 5}}])  # the last look at the Hub
        time.sleep(3)
        assert not (tmp_path / "r" / "results.json").exists()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert hub.alive() == []
    assert process.returncode == 0, said
    assert "SIGTERM: writing the report first" in said
    assert outcomes(tmp_path / "r") == {"hello-file": "passed"}


def test_run__killed_is_repaired_by_the_same_command(tmp_path: Path) -> None:
    with LoopbackHub(settings={"model_thinking": 0.3}) as hub:
        arguments = ("run", *DEMO, *tasks("hello-file", "fix-git"), "--run-dir", "r")
        process = start(hub, *arguments, cwd=tmp_path)
        wait_for(tmp_path / "r", "agent-start")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        code, said = tbh(hub, *arguments, cwd=tmp_path)
        servers = [job for job in hub.jobs() if job["kind"] == "server"]
        assert hub.wait_until_idle(5)
    assert code == 0, said
    assert outcomes(tmp_path / "r") == {"hello-file": "passed", "fix-git": "passed"}
    assert len(servers) == 1, "the server that still lived was adopted"


def test_run__second_process_is_refused(tmp_path: Path) -> None:
    with LoopbackHub(settings={"model_thinking": 0.3}) as hub:
        arguments = ("run", *DEMO, *tasks("hello-file"), "--run-dir", "r")
        process = start(hub, *arguments, cwd=tmp_path)
        wait_for(tmp_path / "r", "pass_started")
        code, said = tbh(hub, *arguments, cwd=tmp_path)
        process.communicate(timeout=100)
    assert code == 3
    assert f"in use by process {process.pid} on " in said
    assert process.returncode == 0


def test_run__time_budget_ends_the_leg_and_the_state_file_goes_on(tmp_path: Path) -> None:
    names = ("hello-file", "fix-git", "deep-thought")
    with LoopbackHub() as hub:
        base = ("run", *DEMO, *tasks(*names), "--state", "state.tar", "--n-concurrent", "1")
        code, said = tbh(hub, *base, "--run-dir", "a", "--time-budget", "9s", cwd=tmp_path)
        assert code == 4, said
        assert results(tmp_path / "a")["run"]["complete"] is False
        assert "none of the 3 tasks that are left fits into this leg" in said
        assert hub.jobs() == [], "nothing fits: nothing is paid"
        code, said = tbh(hub, *base, "--run-dir", "elsewhere/b", cwd=tmp_path)
        assert code == 0, said
    assert outcomes(tmp_path / "elsewhere/b") == {
        "hello-file": "passed",
        "fix-git": "passed",
        "deep-thought": "failed",
    }


def test_run__kept_server_is_used_by_the_next_leg(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        # What an earlier run took says that hello-file fits into the leg; fix-git's own timeout
        # says that it may not.
        alone = ("run", *DEMO, *tasks("hello-file"), "--run-dir", "earlier")
        assert tbh(hub, *alone, cwd=tmp_path)[0] == 0
        hub.reset()
        base = ("run", *DEMO, *tasks("hello-file", "fix-git"), "--run-dir", "r")
        base += ("--baseline", "earlier/results.json", "--fail-on", "below:0.5")
        code, said = tbh(hub, *base, "--time-budget", "60s", "--keep-server", cwd=tmp_path)
        assert code == 4, said
        assert set(outcomes(tmp_path / "r").values()) == {"passed", "missing"}
        (kept,) = hub.alive()
        assert kept["kind"] == "server"
        code, said = tbh(hub, *base, "--keep-server", cwd=tmp_path)
        assert code == 0, said
        assert [job["id"] for job in hub.jobs() if job["kind"] == "server"] == [kept["id"]]
        assert hub.alive() == [], "a complete run keeps no server"


def test_run__shards_merge_into_the_whole(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        names = ("hello-file", "fix-git", "count-errors", "csv-totals")
        for shard in ("1/2", "2/2"):
            arguments = (*DEMO, *tasks(*names), "--shard", shard, "--run-dir", shard[0])
            code, said = tbh(hub, "run", *arguments, cwd=tmp_path)
            assert code == 0, said
        code, said = tbh(hub, "merge", "1", "--out", "part", cwd=tmp_path)
        assert code == 2
        assert "a shard is missing" in said
        code, said = tbh(hub, "merge", "2", "1", "--out", "all", cwd=tmp_path)
    assert code == 0, said
    assert outcomes(tmp_path / "all") == {
        "hello-file": "passed",
        "fix-git": "passed",
        "count-errors": "passed",
        "csv-totals": "failed",
    }
    one, two = outcomes(tmp_path / "1"), outcomes(tmp_path / "2")
    assert one.keys().isdisjoint(two)


def test_run__cost_ceiling_stops_in_order(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        code, said = tbh(
            hub, "run", *DEMO, *tasks("hello-file", "fix-git"), "--run-dir", "r",
            "--max-cost", "0.0001", cwd=tmp_path,
        )  # fmt: skip
        alive = hub.alive()
    assert code == 4, said
    assert "--max-cost" in said
    assert alive == []
    assert results(tmp_path / "r")["run"]["complete"] is False


def test_resume__job_that_stock_harbor_made(tmp_path: Path) -> None:
    """By hand: no plugin, the server's address in the config, one sandbox lost."""
    lost = {
        "call": "sandbox.exec",
        "match": {"task": "fix-git", "attempt": 1},
        "times": 1,
        "action": {"status": 500},
    }
    with LoopbackHub(faults=[lost]) as hub:
        served = tbh_server(hub, tmp_path)
        config = {
            "job_name": "by-hand",
            "jobs_dir": str(tmp_path / "jobs"),
            "n_concurrent_trials": 2,
            "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-basic"}},
            "agents": [
                {
                    "name": "terminus-2",
                    "model_name": "openai/demo/Scripted-1B",
                    "kwargs": {"api_base": served, "record_terminal_session": False},
                }
            ],
            "datasets": [
                {"path": str(DEMO_TASKS), "task_names": ["hello-file", "fix-git", "csv-totals"]}
            ],
        }
        (tmp_path / "job.json").write_text(json.dumps(config), encoding="utf-8")
        done = subprocess.run(
            [command.harbor_executable(), "run", "-c", str(tmp_path / "job.json"), "-y"],
            env={**os.environ, **hub.environment(), "OPENAI_API_KEY": hub.token},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        before = sorted(path.name for path in (tmp_path / "jobs/by-hand").iterdir())
        code, said = tbh(
            hub, "resume", "jobs/by-hand", "--endpoint", served, "--n-concurrent", "1",
            cwd=tmp_path,
        )  # fmt: skip
        after = sorted(path.name for path in (tmp_path / "jobs/by-hand").iterdir())
    assert code == 0, said
    assert outcomes(tmp_path / "runs/by-hand") == {
        "hello-file": "passed",
        "fix-git": "passed",
        "csv-totals": "failed",
    }
    assert before == after, "the original stays as it is"
    assert "copied jobs/by-hand" in said


def tbh_server(hub: LoopbackHub, cwd: Path) -> str:
    """A model server on the Hub that no run of ours owns; its address."""
    code = (
        "from huggingface_hub import HfApi; from tbh_action.recipes import load;"
        "import sys; s = load('models', sys.argv[1])['server'];"
        "j = HfApi().run_job(image=s['image'], command=s['command'], flavor=s['flavor'],"
        " expose=[s['port']], timeout=600); print(j.status.expose_urls[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, DEMO[1]],
        env={**os.environ, **hub.environment()},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    time.sleep(4)  # It loads.
    return f"{done.stdout.strip()}/v1"
