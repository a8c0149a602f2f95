"""Detached runs end to end: the real client, the real Harbor, the controller as a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tbh_action.loopback.client import LoopbackHub
from tests.integration.loopback_real import processes_with, until
from tests.integration.runs import DEMO, files_with, outcomes, results, tasks, tbh

pytestmark = pytest.mark.slow
SETTINGS = {"server_scheduling": 0.2, "sandbox_scheduling": 0.1, "model_loading": 0.3}
# Ends, with the tests' trials, at different times.
NAMES = ("hello-file", "fix-git", "csv-totals")
TRUTH = {"hello-file": "passed", "fix-git": "passed", "csv-totals": "failed"}


def submit(hub: LoopbackHub, cwd: Path, *more: str) -> tuple[int, str]:
    return tbh(
        hub,
        *("submit", *DEMO, *tasks(*NAMES), "--n-concurrent", "1", "--name", "night"),
        *("--sync-every", "1s", *more),
        cwd=cwd,
    )


def kinds(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["kind"] for job in jobs]


def of_kind(hub: LoopbackHub, kind: str) -> list[dict[str, Any]]:
    return [job for job in hub.jobs() if job["kind"] == kind]


def until_status(hub: LoopbackHub, cwd: Path, words: str) -> str:
    def look() -> str:
        code, said = tbh(hub, "status", "night", cwd=cwd)
        assert code == 0, said
        return said if words in said else ""

    return until(look, 60)


def action_collects(hub: LoopbackHub, cwd: Path) -> tuple[int, str, dict[str, str]]:
    """`command: collect` of the action: exit code, log, outputs."""
    given = {"TBH_COMMAND": "collect", "TBH_NAME": "night", "TBH_OUT": "collected"}
    file = cwd / "outputs"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tbh_action.github.entry"],
        cwd=cwd,
        env={**os.environ, **hub.environment(), **given, "GITHUB_ACTIONS": "true",
             "GITHUB_OUTPUT": str(file)},
        capture_output=True,
        text=True,
    )  # fmt: skip
    # NAME<<DELIMITER, VALUE, DELIMITER; of a name that is written twice, the last one counts.
    lines = file.read_text(encoding="utf-8").splitlines()
    outputs = {lines[at].partition("<<")[0]: lines[at + 1] for at in range(0, len(lines), 3)}
    return done.returncode, done.stdout + done.stderr, outputs


def machine(hub: LoopbackHub) -> str:
    """What stands in the command line of each process of a controller."""
    return str(hub.folder / "machine")


def test_detached__killed_controller_goes_on_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    with LoopbackHub(settings=SETTINGS | {"model_thinking": 0.25}) as hub:
        code, said = submit(hub, here)
        assert code == 0, said
        (job,) = of_kind(hub, "controller")
        record = json.loads((here / "runs/night.controller.json").read_text(encoding="utf-8"))
        assert record["job"]["job_id"] == job["id"]
        assert job["labels"]["tbh-nonce"] == record["job"]["nonce"]
        assert (job["labels"]["project"], job["labels"]["tbh-run"]) == ("tbh-action", "night")
        assert (job["flavor"], job["timeoutSeconds"]) == ("cpu-basic", 3 * 24 * 3600)
        assert hub.token not in json.dumps(job)

        code, said = submit(hub, here)
        assert (code, "runs already" in said) == (0, True), said
        until_status(hub, elsewhere, "1 of 3 trials scored")
        hub.kill_job(job["id"])
        until(lambda: not processes_with(machine(hub)))
        said = until_status(hub, elsewhere, "its controller is gone")
        assert "Job failed with exit code" in said

        code, said = tbh(hub, "collect", "night", cwd=elsewhere)
        assert code == 4, said
        assert "not finished yet" in said
        so_far = outcomes(elsewhere / "runs/night")
        assert list(so_far.values()).count("missing") in (1, 2), so_far

        code, said, outputs = action_collects(hub, elsewhere)
        assert (code, outputs["complete"]) == (0, "false"), said
        assert "::notice title=Terminal-Bench::night is not finished yet" in said

        code, said = submit(hub, elsewhere)
        assert code == 0, said
        assert "goes on" in said
        until_status(hub, elsewhere, "complete")
        code, said = tbh(hub, "collect", "night", cwd=elsewhere)
        assert code == 0, said
        assert hub.wait_until_idle(10)
        code, log = tbh(hub, "logs", "night", "--follow", cwd=elsewhere)
        token = hub.token
        servers, sandboxes = of_kind(hub, "server"), of_kind(hub, "sandbox")
        code, said = submit(hub, elsewhere)
        assert (code, "complete already" in said) == (0, True), said
    run_dir = elsewhere / "runs/night"
    assert outcomes(run_dir) == TRUTH
    assert results(run_dir)["run"]["complete"] is True
    assert [row["superseded"] for row in results(run_dir)["tasks"]] == [0, 0, 0]
    assert len(servers) == 1, "the server that lived on was taken over"
    scored = [task for task, status in so_far.items() if status != "missing"]
    tried = [job["task"] for job in sandboxes]
    assert [tried.count(task) for task in scored] == [1] * len(scored)
    assert len(results(run_dir)["passes"]) == 2
    for trial in (run_dir / "harbor/job").glob("*__*"):
        assert (trial / "agent/trajectory.json").exists()
    assert "going on from hf://datasets/demo/tbh-runs/runs/night" in log
    assert files_with(token, tmp_path) == []
    assert "Traceback" not in log


def test_detached__cancel_stops_the_controller_and_all_that_is_paid(tmp_path: Path) -> None:
    with LoopbackHub(settings=SETTINGS | {"model_thinking": 2.0}) as hub:
        code, said = submit(hub, tmp_path)
        assert code == 0, said
        until(lambda: {"server", "sandbox"} <= set(kinds(hub.alive())), 40)
        # A controller that gets no time to clean up behind itself.
        (job,) = of_kind(hub, "controller")
        hub.kill_job(job["id"])
        assert {"server", "sandbox"} <= set(kinds(hub.alive())), hub.jobs()
        code, said = submit(hub, tmp_path)
        assert code == 0, said
        until(lambda: "controller" in kinds(hub.alive()), 10)
        code, said = tbh(hub, "cancel", "night", cwd=tmp_path)
        assert code == 0, said
        assert hub.alive() == []
        assert "cancelled controller " in said
        assert until(lambda: not processes_with(machine(hub)))
        time.sleep(1)
        assert hub.alive() == []
        code, said = tbh(hub, "cancel", "night", cwd=tmp_path)
        assert (code, said) == (0, "Nothing of night is running.\n")
        code, said = tbh(hub, "collect", "night", cwd=tmp_path)
        assert code == 4, said


def test_detached__a_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    with LoopbackHub(settings=SETTINGS) as hub:
        for command in ("status", "collect", "logs"):
            code, said = tbh(hub, command, "night", cwd=tmp_path)
            assert (code, "There is no" in said) == (2, True), said
        code, said = tbh(
            hub,
            *("submit", *DEMO, "--include-task", "no-such-task", "--name", "night"),
            cwd=tmp_path,
        )
        assert code == 0, said
        said = until_status(hub, tmp_path, "ended with exit code 3")
        code, said = tbh(hub, "collect", "night", cwd=tmp_path)
        assert code == 3, said
        assert said.startswith("Error: night could not start: Nothing was started")
        code, said = submit(hub, tmp_path)
        assert (code, "holds another run (different: benchmark.include_task)" in said) == (2, True)
        assert hub.wait_until_idle(5)
