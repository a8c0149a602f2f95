"""Creating, finding and cancelling paid jobs, with the real client against the loopback Hub."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hub_stand import TOKEN, HubStand, hub_stand, spec, wait_for

from tbh_action.errors import NotStartedError
from tbh_action.labels import NONCE_LABEL, RUN_LABEL
from tbh_action.server import hf_job
from tbh_action.server.hf_job import PaidJob, RefusedError
from tbh_action.server.hub_client import limit_waiting


@pytest.fixture(autouse=True)
def impatient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client pauses up to 23 s in its own tries at a list; here only their number counts."""
    clock = SimpleNamespace(sleep=lambda _: None, time=time.time)
    monkeypatch.setattr("huggingface_hub.utils._http.time", clock)


@pytest.fixture
def hub() -> Iterator[HubStand]:
    with hub_stand() as stand:
        yield stand


def create(hub: HubStand, job: PaidJob | None = None) -> PaidJob:
    job = job or hf_job.new_server(spec())
    return hf_job.create_server(hub.api(), spec(), job, "run-1", sleep=lambda _: None)


def test_create_server__as_asked(hub: HubStand) -> None:
    asked = hf_job.new_server(spec(timeout="2h"))
    job = hf_job.create_server(hub.api(), spec(timeout="2h", env={"A": "b"}), asked, "run/1")
    (made,) = hub.jobs()
    assert job.job_id == made["id"]
    assert job.url == made["status"]["exposeUrls"][0]
    ours = {
        "project": "tbh-action",
        "tbh-run": "run-1",
        "model": "demo-model",
        "tbh-nonce": asked.nonce,
    }
    assert made["labels"].items() >= ours.items()  # The client adds a name of its own.
    assert made["timeoutSeconds"] == 7200
    assert made["environment"] == {"A": "b"}
    assert list(made["secrets"]) == ["HF_TOKEN"]
    assert made["expose"] == {"ports": [8000], "portsPublic": []}
    assert TOKEN not in str(job)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param({"status": 500, "after": True}, id="500-but-created"),
        pytest.param({"drop": "after"}, id="created-but-the-answer-is-lost"),
        pytest.param({"drop": "middle"}, id="created-but-the-answer-is-cut"),
    ],
)
def test_create_server__a_lost_answer_is_looked_up(
    hub: HubStand, action: dict[str, object]
) -> None:
    hub.rules({"call": "jobs.create", "action": action})
    job = create(hub)
    assert [made["id"] for made in hub.jobs()] == [job.job_id]
    assert len(hub.calls("jobs.create")) == 1


@pytest.mark.parametrize(
    "action",
    [
        pytest.param({"status": 500}, id="500"),
        pytest.param({"drop": "before"}, id="dropped"),
        pytest.param({"status": 429, "retry_after": 1}, id="429"),
    ],
)
def test_create_server__not_created_is_tried_again(
    hub: HubStand, action: dict[str, object]
) -> None:
    hub.rules({"call": "jobs.create", "times": 2, "action": action})
    job = create(hub)
    assert [made["id"] for made in hub.jobs()] == [job.job_id]


def test_create_server__retry_after_is_obeyed(hub: HubStand) -> None:
    hub.rules(
        {"call": "jobs.create", "times": 1, "action": {"status": 429, "retry_after": 7}},
    )
    pauses: list[float] = []
    hf_job.create_server(hub.api(), spec(), hf_job.new_server(spec()), "r", sleep=pauses.append)
    assert pauses == [7.0]


def test_create_server__never_twice_when_the_hub_does_not_say(hub: HubStand) -> None:
    """Created, answered 500, and the list fails too: another creation could be paid twice."""
    hub.rules(
        {"call": "jobs.create", "action": {"status": 500, "after": True}},
        {"call": "jobs.list", "action": {"status": 500}},
    )
    with pytest.raises(NotStartedError, match="may be running"):
        create(hub)
    assert len(hub.jobs()) == 1
    assert len(hub.calls("jobs.create")) == 1


def test_create_server__the_list_comes_back(hub: HubStand) -> None:
    hub.rules(
        {"call": "jobs.create", "action": {"drop": "after"}},
        {"call": "jobs.list", "times": 3, "action": {"drop": "before"}},
    )
    assert create(hub).job_id == hub.jobs()[0]["id"]


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_create_server__a_refusal_is_final(hub: HubStand, status: int) -> None:
    hub.rules({"call": "jobs.create", "action": {"status": status}})
    with pytest.raises(RefusedError, match=str(status)):
        create(hub)
    assert len(hub.calls("jobs.create")) == 1


def test_create_server__not_when_the_run_is_stopped(hub: HubStand) -> None:
    hub.rules({"call": "jobs.create", "action": {"status": 500}})
    wanted = iter([True, False])
    with pytest.raises(NotStartedError, match="stopped"):
        hf_job.create_server(
            hub.api(),
            spec(),
            hf_job.new_server(spec()),
            "r",
            sleep=lambda _: None,
            wanted=lambda: next(wanted),
        )
    assert len(hub.calls("jobs.create")) == 1


def test_create_server__hub_unreachable() -> None:
    with hub_stand() as gone:
        api = gone.api()
    with pytest.raises(NotStartedError, match="can't be asked"):
        hf_job.create_server(api, spec(), hf_job.new_server(spec()), "r", sleep=lambda _: None)


def test_find_by_nonce__a_living_one_before_an_ended_one(hub: HubStand) -> None:
    announced = hf_job.new_server(spec())
    first = create(hub, announced)
    assert hf_job.cancel(hub.api(), first)
    second = create(hub, announced)
    found = hf_job.find_by_nonce(hub.api(), announced)
    assert found is not None
    assert found.job_id == second.job_id
    assert hf_job.find_by_nonce(hub.api(), hf_job.new_server(spec())) is None


def test_cancel__a_running_job(hub: HubStand) -> None:
    job = create(hub)
    wait_for(lambda: hf_job.inspect(hub.api(), job).stage == "RUNNING")
    assert hf_job.cancel(hub.api(), job)
    assert hub.alive() == []
    assert hf_job.inspect(hub.api(), job).ended


def test_cancel__one_that_has_ended_or_is_unknown(hub: HubStand) -> None:
    job = create(hub)
    assert hf_job.cancel(hub.api(), job)
    assert hf_job.cancel(hub.api(), job)
    assert hf_job.cancel(hub.api(), replace(job, job_id="0" * 24))


def test_cancel__by_nonce_when_the_id_was_never_learned(hub: HubStand) -> None:
    announced = hf_job.new_server(spec())
    create(hub, announced)
    assert hf_job.cancel(hub.api(), announced)
    assert hub.alive() == []
    assert hf_job.cancel(hub.api(), hf_job.new_server(spec()))


@pytest.mark.parametrize("action", [{"status": 500}, {"drop": "before"}, {"status": 429}])
def test_cancel__not_known_is_not_done(hub: HubStand, action: dict[str, object]) -> None:
    job = create(hub)
    hub.rules({"call": "jobs.cancel", "action": action})
    assert hf_job.cancel(hub.api(), job) is False
    hub.rules({"call": "jobs.list", "action": action})
    assert hf_job.cancel(hub.api(), replace(job, job_id="")) is False


def test_cancel__refused_but_ended(hub: HubStand) -> None:
    job = create(hub)
    hf_job.cancel(hub.api(), job)
    hub.rules({"call": "jobs.cancel", "action": {"status": 409}})
    assert hf_job.cancel(hub.api(), job) is True


def test_cancel__hub_gone() -> None:
    with hub_stand() as gone:
        api = gone.api()
    job = PaidJob(kind="server", nonce="n", flavor="f", job_id="a", namespace="demo")
    assert hf_job.cancel(api, job) is False


def test_jobs_of_run__finds_what_carries_the_label(hub: HubStand) -> None:
    job = create(hub)
    hf_job.create_server(hub.api(), spec(), hf_job.new_server(spec()), "another")
    (found,) = hf_job.jobs_of_run(hub.api(), "run-1", "demo")
    assert (found.job_id, found.kind, found.nonce) == (job.job_id, "server", job.nonce)
    assert {made["labels"][RUN_LABEL] for made in hub.jobs()} == {"run-1", "another"}
    assert all(made["labels"][NONCE_LABEL] for made in hub.jobs())


def test_hub_api__a_silent_hub_is_not_waited_for_for_ever(hub: HubStand) -> None:
    job = create(hub)
    api = hub.api()
    limit_waiting(0.5)  # The client's own limit is none at all.
    hub.rules({"call": "jobs.*", "action": {"hang": True}})
    began = time.monotonic()
    assert hf_job.cancel(api, job) is False
    assert time.monotonic() - began < 5


def test_last_logs__best_effort(hub: HubStand) -> None:
    job = create(hub)
    wait_for(lambda: hf_job.inspect(hub.api(), job).stage == "RUNNING")
    wait_for(lambda: len(hub.jobs()[0]["logs"]) > 1)  # The first is left out by the client.
    hf_job.cancel(hub.api(), job)
    assert hf_job.last_logs(hub.api(), job)
    hub.rules({"call": "jobs.logs", "action": {"status": 500}})
    assert hf_job.last_logs(hub.api(), job) == []
