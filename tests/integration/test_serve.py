"""One server for several runs: `tbh serve`, `tbh run --server-job`, and a loopback Hub."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from hub_stand import MODEL, hub_stand, spec, wait_for
from runs import DEMO, outcomes, start, tasks, tbh

from tbh_action.errors import NotStartedError
from tbh_action.loopback.client import LoopbackHub
from tbh_action.server import hf_job
from tbh_action.server.borrow import borrow

pytestmark = pytest.mark.slow

ONE = (*DEMO, *tasks("demo/hello-file"))


def served(said: str) -> str:
    found = re.search(r"tbh run --server-job (\w+)", said)
    assert found is not None, said
    return found[1]


def test_serve__a_run_uses_the_server_leaves_it_and_learns_what_it_cost(tmp_path: Path) -> None:
    with LoopbackHub(speed=4) as hub:
        code, said = tbh(hub, "serve", *DEMO, "--name", "gpu", cwd=tmp_path)
        assert code == 0, said
        server = served(said)
        run = ("run", *ONE, "--name", "mine", "--comment", "never", "--server-job", server)
        code, said = tbh(hub, *run, cwd=tmp_path)
        assert code == 0, said
        assert outcomes(tmp_path / "runs/mine") == {"hello-file": "passed"}
        assert [job["id"] for job in hub.alive()] == [server], "it is not the run's to stop"
        hub.kill_job(server)
        code, said = tbh(hub, *run, cwd=tmp_path)
        assert (code, "it has ended as ERROR" in said) == (3, True), said
        state = json.loads((tmp_path / "runs/mine/state.json").read_text(encoding="utf-8"))
        (known,) = state["servers"]
        (job,) = [job for job in hub.jobs() if job["id"] == server]
        assert (known["borrowed"], known["stage"]) == (True, "ERROR")
        assert known["seconds"] == pytest.approx(job["seconds"], abs=1.5)


def test_borrow__only_a_living_server_that_serves_what_is_asked() -> None:
    with hub_stand() as hub:
        api, asked = hub.api(), spec()
        job = hf_job.create_server(api, asked, hf_job.new_server(asked), "other-run")
        borrowed = borrow(api, asked, job.job_id)
        assert (borrowed.job_id, borrowed.borrowed, borrowed.ended) == (job.job_id, True, False)
        with pytest.raises(NotStartedError, match=r"different: flavor\)"):
            borrow(api, spec(flavor="a10g-small"), job.job_id)
        with pytest.raises(NotStartedError, match=r"different: image, command\)"):
            borrow(api, spec(image="x:1", command=["serve", MODEL]), job.job_id)
        assert hf_job.cancel(api, job)
        wait_for(lambda: not hub.alive())
        with pytest.raises(NotStartedError, match="it has ended as CANCELED"):
            borrow(api, asked, job.job_id)
        with pytest.raises(NotStartedError, match="the Hub cannot be asked about it"):
            borrow(api, asked, "0" * 24)


def test_serve__a_signal_while_the_model_loads_leaves_nothing(tmp_path: Path) -> None:
    with LoopbackHub(settings={"model_loading": 60.0}) as hub:
        process = start(hub, "serve", *DEMO, "--name", "gpu", cwd=tmp_path)
        assert process.stdout is not None
        for line in process.stdout:
            if "waiting for the model to load" in line:
                os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 143
        assert hub.wait_until_idle()
        assert len(hub.jobs()) == 1
