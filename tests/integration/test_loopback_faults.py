"""Faults on demand, as the real client and a plain HTTP client meet them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import pytest
from huggingface_hub import JobInfo, Sandbox
from huggingface_hub.errors import HfHubHTTPError, SandboxError
from loopback_real import MODEL, api, client_of, real_hub, run_server, until

from tbh_action.loopback.client import LoopbackHub

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Say ready."}]}


@pytest.fixture(scope="module")
def running() -> Iterator[LoopbackHub]:
    yield from real_hub()


@pytest.fixture
def hub(running: LoopbackHub) -> Iterator[LoopbackHub]:
    yield running
    running.reset()


@pytest.fixture
def server(hub: LoopbackHub) -> JobInfo:
    job = run_server(hub)
    with client_of(hub, job) as client:
        until(lambda: client.get("/health").status_code == 200)
    return job


def create(hub: LoopbackHub, task: str = "hello-file", **more: Any) -> Sandbox:
    image = f"ghcr.io/tbh-demo/{task}:1"
    return Sandbox.create(image=image, token=hub.token, namespace="demo", **more)


def stages(hub: LoopbackHub) -> list[str]:
    return [job["status"]["stage"] for job in hub.jobs()]


def test_status__with_retry_after_words_and_a_place_in_the_log(hub: LoopbackHub) -> None:
    hub.set_faults(
        [
            {
                "name": "slow down",
                "call": "jobs.create",
                "times": 1,
                "action": {"status": 429, "retry_after": 7, "body": {"error": "too many"}},
            }
        ]
    )
    with pytest.raises(HfHubHTTPError) as caught:
        run_server(hub)
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"
    assert caught.value.response.json() == {"error": "too many"}
    assert hub.jobs() == []
    (call,) = hub.calls("jobs.create")
    assert (call["status"], call["fault"]) == (429, "slow down: 429")
    run_server(hub)
    assert len(hub.jobs()) == 1


def test_status__after_the_fact_the_job_exists(hub: LoopbackHub) -> None:
    hub.set_faults([{"call": "jobs.create", "action": {"status": 500, "after": True}}])
    with pytest.raises(HfHubHTTPError, match="500"):
        run_server(hub, labels={"tbh-nonce": "n1"})
    (job,) = api(hub).list_jobs(labels={"tbh-nonce": "n1"}, namespace="demo")
    until(lambda: stages(hub) == ["RUNNING"])
    (call,) = hub.calls("jobs.create")
    assert (call["job"], call["status"]) == (job.id, 500)


@pytest.mark.parametrize(("how", "made"), [("before", 0), ("after", 1)])
def test_drop__creation(hub: LoopbackHub, how: str, made: int) -> None:
    hub.set_faults([{"call": "jobs.create", "action": {"drop": how}}])
    with pytest.raises(httpx2.TransportError):
        run_server(hub)
    assert len(hub.jobs()) == made
    assert hub.calls("jobs.create")[0]["status"] == 0


def test_drop__middle_of_an_answer(hub: LoopbackHub, server: JobInfo) -> None:
    hub.set_faults([{"call": "model.chat", "action": {"drop": "middle"}}])
    with client_of(hub, server) as client, pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/chat/completions", json=CHAT)


def test_drop__middle_of_an_exec_is_a_lost_connection(hub: LoopbackHub) -> None:
    with create(hub) as sandbox:
        hub.set_faults([{"call": "sandbox.exec", "times": 1, "action": {"drop": "middle"}}])
        with pytest.raises((httpx2.TransportError, ValueError)):
            sandbox.run("echo something; sleep 0.2; echo more")
        assert sandbox.run("echo fine").stdout == "fine\n"


def test_delay__then_the_usual_answer(hub: LoopbackHub) -> None:
    hub.set_faults([{"call": "whoami", "action": {"delay": 0.7}}])
    started = time.monotonic()
    assert api(hub).whoami()["name"] == "demo"
    assert time.monotonic() - started >= 0.7


def test_hang__never_answers(hub: LoopbackHub, server: JobInfo) -> None:
    hub.set_faults([{"call": "model.chat", "action": {"hang": True}}])
    with client_of(hub, server) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/chat/completions", json=CHAT, timeout=0.5)
        hub.set_faults([])
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200


def test_job_die__at_the_third_call_with_last_words(hub: LoopbackHub, server: JobInfo) -> None:
    words = ["torch.OutOfMemoryError: CUDA out of memory"]
    hub.set_faults(
        [{"call": "model.chat", "from": 3, "times": 1, "action": {"job": "die", "logs": words}}]
    )
    with client_of(hub, server) as client:
        answers = [client.post("/v1/chat/completions", json=CHAT).status_code for _ in range(4)]
    assert answers == [200, 200, 503, 503]
    job = api(hub).inspect_job(job_id=server.id, namespace="demo")
    assert (job.status.stage, job.status.message) == ("ERROR", "Job failed with exit code 1")
    assert list(api(hub).fetch_job_logs(job_id=server.id, namespace="demo"))[-1] == words[0]


def test_job_die__while_loading(hub: LoopbackHub) -> None:
    action = {"job": "die", "delay": 0.2, "exit_code": 137, "message": "OOMKilled"}
    hub.set_faults([{"call": "server.start", "action": action}])
    job = run_server(hub)
    until(lambda: stages(hub) == ["ERROR"])
    ended = api(hub).inspect_job(job_id=job.id, namespace="demo")
    assert ended.started_at is not None
    assert ended.status.message == "OOMKilled"


def test_job_timeout__now(hub: LoopbackHub, server: JobInfo) -> None:
    hub.set_faults([{"call": "model.chat", "action": {"job": "timeout"}}])
    with client_of(hub, server) as client:
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 503
    job = api(hub).inspect_job(job_id=server.id, namespace="demo")
    assert (job.status.stage, job.status.message) == ("ERROR", "Job timeout")


def test_job_stuck__stays_scheduling_until_cancelled(hub: LoopbackHub) -> None:
    hub.set_faults([{"call": "server.start", "action": {"job": "stuck"}}])
    job = run_server(hub)
    time.sleep(0.5)
    assert stages(hub) == ["SCHEDULING"]
    api(hub).cancel_job(job_id=job.id, namespace="demo")
    assert stages(hub) == ["CANCELED"]
    assert hub.jobs()[0]["usd"] == 0


def test_job_deaf__runs_and_never_answers(hub: LoopbackHub) -> None:
    hub.set_faults([{"call": "sandbox.start", "action": {"job": "deaf"}}])
    with pytest.raises(SandboxError, match="did not become ready"):
        create(hub, start_timeout=1)
    assert stages(hub) == ["CANCELED"]


def test_token_revoke__from_a_call_on(hub: LoopbackHub) -> None:
    hub.set_faults([{"call": "whoami", "from": 2, "action": {"token": "revoke"}}])
    assert api(hub).whoami()["name"] == "demo"
    for call in (api(hub).whoami, api(hub).list_jobs_hardware):
        with pytest.raises(HfHubHTTPError):
            call()
    assert hub.state()["revoked"] is True


def test_match__task_and_attempt_of_a_sandbox(hub: LoopbackHub) -> None:
    match = {"task": "word-count", "attempt": 1}
    hub.set_faults([{"call": "sandbox.exec", "match": match, "action": {"status": 500}}])
    with create(hub, "hello-file") as other:
        assert other.run("echo fine").ok
    with create(hub, "word-count") as first, pytest.raises(SandboxError, match="500"):
        first.run("true")
    with create(hub, "word-count") as second:
        assert second.run("echo fine").ok


def test_match__task_of_a_model_call_by_session_header(hub: LoopbackHub, server: JobInfo) -> None:
    hub.set_faults([{"call": "model.chat", "match": {"task": "a-*"}, "action": {"status": 500}}])
    with client_of(hub, server) as client:

        def status(session: str) -> int:
            headers = {"X-Tbh-Session": f"{session}__agent"}
            return client.post("/v1/chat/completions", json=CHAT, headers=headers).status_code

        assert (status("a-task__Abc1234"), status("b-task__Abc1234")) == (500, 200)


def test_concurrency__fails_only_when_there_are_many(hub: LoopbackHub) -> None:
    when = {"concurrency_at_least": 3}
    hub.set_faults([{"call": "sandbox.exec", "when": when, "action": {"status": 500}}])
    with create(hub) as one, create(hub) as two:
        assert one.run("echo fine").ok
        with create(hub), pytest.raises(SandboxError, match="500"):
            two.run("true")
        assert two.run("echo fine").ok


def test_concurrency__eight_sandboxes_at_once(hub: LoopbackHub) -> None:
    table = {"3": 0.03, "8": 0.7}
    rule = {"call": "sandbox.exec", "per": "job", "from": 2, "when": {"by_concurrency": table}}
    hub.set_faults([{**rule, "action": {"status": 500}}])
    sandboxes = []
    with ThreadPoolExecutor(8) as pool:
        sandboxes = list(pool.map(lambda _: create(hub), range(8)))

        def lost(sandbox: Sandbox) -> bool:
            sandbox.run("true")
            try:
                sandbox.run("true")
            except SandboxError:
                return True
            return False

        results = list(pool.map(lost, sandboxes))
        again = list(pool.map(lambda each: each.files.exists("/app"), sandboxes))
        list(pool.map(lambda each: each.kill(), sandboxes))
    assert 3 <= sum(results) <= 8
    assert all(again)


def test_set_faults__a_rule_that_is_not_understood(hub: LoopbackHub) -> None:
    with pytest.raises(ValueError, match="action"):
        hub.set_faults([{"call": "whoami"}])
