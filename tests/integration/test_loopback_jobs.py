"""The Jobs API, spoken to by the real huggingface_hub client."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from click.testing import CliRunner
from huggingface_hub.errors import HfHubHTTPError
from loopback_real import MODEL, api, client_of, processes_with, real_hub, run_server, until

from tbh_action.loopback.__main__ import main
from tbh_action.loopback.client import LoopbackHub


@pytest.fixture(scope="module")
def running() -> Iterator[LoopbackHub]:
    yield from real_hub()


@pytest.fixture
def hub(running: LoopbackHub) -> Iterator[LoopbackHub]:
    yield running
    running.reset()


def stage(hub: LoopbackHub, job_id: str) -> str:
    return str(api(hub).inspect_job(job_id=job_id, namespace="demo").status.stage)


def refused(error: HfHubHTTPError) -> int:
    return int(error.response.status_code)


def test_whoami__right_token(hub: LoopbackHub) -> None:
    who = api(hub).whoami()
    assert (who["name"], [org["name"] for org in who["orgs"]]) == ("demo", ["demo-org"])


def test_any_call__wrong_token_is_401(hub: LoopbackHub) -> None:
    wrong = api(hub, "hf_wrong")
    for call in (
        wrong.whoami,
        wrong.list_jobs_hardware,
        lambda: wrong.inspect_job(job_id="x", namespace="demo"),
        lambda: wrong.run_job(image="x", command=["y"], namespace="demo"),
    ):
        with pytest.raises(HfHubHTTPError) as caught:
            call()
        assert refused(caught.value) == 401
    assert hub.jobs() == []


def test_revoke_token__later_calls_are_401(hub: LoopbackHub) -> None:
    hub.revoke_token()
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        api(hub).whoami()
    hub.revoke_token(revoked=False)
    assert api(hub).whoami()["name"] == "demo"


def test_admin__needs_its_key(hub: LoopbackHub) -> None:
    headers = {"Authorization": f"Bearer {hub.token}"}
    answer = httpx.get(f"{hub.url}/_admin/jobs", headers=headers, trust_env=False)
    assert answer.status_code == 401


def test_hardware__names_sizes_and_prices(hub: LoopbackHub) -> None:
    rows = {row.name: row for row in api(hub).list_jobs_hardware()}
    assert {"cpu-basic", "cpu-upgrade", "t4-small", "l4x1", "a10g-large", "a100-large"} <= set(rows)
    assert {"h200", "h200x2", "h200x4", "h200x8"} <= set(rows)
    h200 = rows["h200"]
    assert h200.accelerator is not None
    assert (h200.accelerator.model, h200.cpu, h200.unit_label) == ("H200", "23 vCPU", "minute")
    assert h200.unit_cost_usd == pytest.approx(5 / 60, abs=1e-6)
    assert rows["cpu-basic"].accelerator is None


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"flavor": "h900"}, 400),
        ({"namespace": "somebody-else"}, 403),
        ({"command": []}, 400),
    ],
)
def test_run_job__refused(hub: LoopbackHub, change: dict[str, object], status: int) -> None:
    with pytest.raises(HfHubHTTPError) as caught:
        run_server(hub, **change)
    assert refused(caught.value) == status
    assert hub.jobs() == []


def test_job__from_scheduling_to_running_to_canceled(hub: LoopbackHub) -> None:
    job = run_server(hub, labels={"tbh-run": "r1"})
    assert job.status.stage == "SCHEDULING"
    assert job.status.expose_urls is not None
    assert f"/proxy/{job.id}--30000." in job.status.expose_urls[0]
    until(lambda: stage(hub, job.id) == "RUNNING")
    processes = until(lambda: processes_with(job.id[-12:]))
    api(hub).cancel_job(job_id=job.id, namespace="demo")
    assert stage(hub, job.id) == "CANCELED"
    until(lambda: not processes_with(job.id[-12:]))
    assert processes
    ended = api(hub).inspect_job(job_id=job.id, namespace="demo")
    assert ended.finished_at is not None
    assert ended.started_at is not None
    assert ended.created_at is not None
    assert ended.finished_at >= ended.started_at >= ended.created_at
    time.sleep(0.2)
    again = api(hub).inspect_job(job_id=job.id, namespace="demo")
    assert again.finished_at == ended.finished_at


def test_cancel__is_in_the_log_with_its_moment(hub: LoopbackHub) -> None:
    job = run_server(hub)
    before = time.time()
    api(hub).cancel_job(job_id=job.id, namespace="demo")
    (call,) = hub.calls("jobs.cancel")
    assert (call["job"], call["status"], call["method"]) == (job.id, 200, "POST")
    assert before <= call["at"] <= time.time()


def test_job__unknown_is_404(hub: LoopbackHub) -> None:
    for call in (api(hub).inspect_job, api(hub).cancel_job):
        with pytest.raises(HfHubHTTPError) as caught:
            call(job_id="0" * 24, namespace="demo")
        assert refused(caught.value) == 404


def test_job__obeys_its_timeout(hub: LoopbackHub) -> None:
    job = run_server(hub, timeout=1)
    until(lambda: stage(hub, job.id) == "RUNNING")
    until(lambda: stage(hub, job.id) == "ERROR", 5)
    ended = api(hub).inspect_job(job_id=job.id, namespace="demo")
    assert ended.status.message == "Job timeout"
    assert ended.durations is not None
    assert ended.durations.running_secs == 1


def test_job__costs_by_the_second_and_flavor(hub: LoopbackHub) -> None:
    run_server(hub, flavor="h200", timeout=1)
    until(lambda: not hub.alive(), 5)
    (job,) = hub.jobs()
    assert job["usd"] == pytest.approx(job["seconds"] * 5 / 3600)
    assert job["seconds"] == pytest.approx(1.0, abs=0.3)
    assert hub.state()["usd"] == pytest.approx(job["usd"])


def test_list_jobs__by_label_and_stage(hub: LoopbackHub) -> None:
    one = run_server(hub, labels={"tbh-run": "one", "project": "p"})
    two = run_server(hub, labels={"tbh-run": "two", "project": "p"})
    run_server(hub)

    def found(**query: object) -> set[str]:
        return {job.id for job in api(hub).list_jobs(namespace="demo", **query)}

    assert found(labels={"project": "p"}) == {one.id, two.id}
    assert found(labels={"project": "p", "tbh-run": "two"}) == {two.id}
    assert found(labels={"project": "q"}) == set()
    api(hub).cancel_job(job_id=one.id, namespace="demo")
    assert found(labels={"project": "p"}, status="CANCELED") == {one.id}


def test_update_job_labels__replaces_them(hub: LoopbackHub) -> None:
    job = run_server(hub, labels={"a": "1", "b": "2"})
    changed = api(hub).update_job_labels(job_id=job.id, labels={"b": "3"}, namespace="demo")
    assert changed.labels == {"b": "3"}


def test_server__loads_then_answers(hub: LoopbackHub) -> None:
    job = run_server(hub)
    with client_of(hub, job) as client:
        seen = []
        until(lambda: seen.append(client.get("/health").status_code) or seen[-1] == 200)
        assert 503 in seen
        (model,) = client.get("/v1/models").json()["data"]
        assert (model["id"], model["max_model_len"]) == (MODEL, 32768)
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Say ready."}]}
        answer = client.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == "ready"
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        text = client.post("/v1/chat/completions", json={**body, "stream": True}).text
        assert text.rstrip().endswith("data: [DONE]")
        wrong = client.post("/v1/chat/completions", json={**body, "model": "x"})
        assert wrong.status_code == 404


def test_server__exposed_port_wants_the_token(hub: LoopbackHub) -> None:
    job = run_server(hub)
    assert job.status.expose_urls
    for headers in ({}, {"Authorization": "Bearer hf_wrong"}):
        url = f"{job.status.expose_urls[0]}/health"
        assert httpx.get(url, headers=headers, trust_env=False).status_code == 401


def test_server__log_says_that_it_loaded(hub: LoopbackHub) -> None:
    job = run_server(hub)
    until(lambda: "ready to roll" in str(hub.jobs()[0]["logs"]))
    hub.kill_job(job.id)
    lines = list(api(hub).fetch_job_logs(job_id=job.id, namespace="demo"))
    assert lines[0].startswith(f"Loading {MODEL}")
    assert lines[-1].endswith("ready to roll!")
    assert list(api(hub).fetch_job_logs(job_id=job.id, namespace="demo", tail=1)) == lines[-1:]


def test_server__killed_ends_as_error_and_its_port_is_503(hub: LoopbackHub) -> None:
    job = run_server(hub)
    until(lambda: stage(hub, job.id) == "RUNNING")
    until(lambda: processes_with(job.id[-12:]))
    hub.kill_job(job.id)
    assert stage(hub, job.id) == "ERROR"
    with client_of(hub, job) as client:
        assert client.get("/health").status_code == 503


def test_job__of_an_unknown_command_completes(hub: LoopbackHub) -> None:
    job = run_server(hub, command=["python", "-c", "print(1)"])
    until(lambda: stage(hub, job.id) == "COMPLETED")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.com"])
def test_main__refuses_to_leave_loopback(host: str) -> None:
    ended = CliRunner().invoke(main, ["--host", host])
    assert ended.exit_code == 2
    assert ended.output.strip() == (
        f"Error: The loopback Hub binds to 127.0.0.1 only, not to {host}."
    )


def test_main__faults_that_are_no_rules(tmp_path: object) -> None:
    ended = CliRunner().invoke(main, ["--faults", f"{tmp_path}/missing.json"])
    assert ended.exit_code == 2
    assert len(ended.output.strip().splitlines()) == 1
