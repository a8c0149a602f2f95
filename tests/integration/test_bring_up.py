"""From a created job to a server that answers, against the loopback Hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_stand import MODEL, TOKEN, HubStand, hub_stand, spec

from tbh_action.errors import NotStartedError
from tbh_action.server import hf_job
from tbh_action.server.bring_up import ReadyServer, ServerDiedError, base_url_of, until_ready
from tbh_action.server.hf_job import PaidJob


@pytest.fixture
def hub() -> Iterator[HubStand]:
    with hub_stand() as stand:
        yield stand


def bring_up(
    hub: HubStand, *rules: dict[str, Any], poll: float = 0.05, **server: Any
) -> tuple[ReadyServer, list[PaidJob], list[str]]:
    """Creates a job and waits for it; what was recorded and said."""
    hub.rules(*rules)
    asked = spec(**server)
    job = hf_job.create_server(hub.api(), asked, hf_job.new_server(asked), "r")
    records: list[PaidJob] = []
    said: list[str] = []
    ready = asyncio.run(
        asyncio.wait_for(
            until_ready(hub.api(), asked, job, record=records.append, say=said.append, poll=poll),
            30,
        )
    )
    return ready, records, said


def test_until_ready__scheduled_loaded_answering(hub: HubStand) -> None:
    ready, records, said = bring_up(hub)
    assert ready.base_url == hub.jobs()[0]["status"]["exposeUrls"][0] + "/v1"
    assert (ready.token, ready.context_length) == (TOKEN, 32768)
    assert ready.job is not None
    assert ready.job.stage == "RUNNING"
    assert records[-1].stage == "RUNNING"
    assert len(said) == 2
    # Health said 503 while the model loaded, and the conversation was a real one.
    assert len(hub.calls("model.health")) > 1
    assert len(hub.calls("model.chat")) == 1


@pytest.mark.parametrize(
    "rule",
    [
        {"call": "jobs.inspect", "times": 4, "action": {"status": 500}},
        {"call": "jobs.inspect", "times": 4, "action": {"drop": "before"}},
        {"call": "jobs.inspect", "times": 4, "action": {"drop": "middle"}},
        {"call": "jobs.inspect", "times": 4, "action": {"status": 429, "retry_after": 1}},
        {"call": "jobs.inspect", "times": 2, "action": {"status": 404}},
        {"call": "jobs.inspect", "times": 5, "action": {"status": 401}},
        {"call": "model.*", "times": 5, "action": {"status": 401}},
        {"call": "model.*", "times": 4, "action": {"drop": "before"}},
        {"call": "model.models", "times": 4, "action": {"status": 404}},
        {"call": "model.chat", "times": 4, "action": {"status": 500}},
    ],
)
def test_until_ready__hiccups_are_waited_out(hub: HubStand, rule: dict[str, Any]) -> None:
    ready, _, _ = bring_up(hub, rule)
    assert ready.job is not None


def test_until_ready__stuck_in_scheduling(hub: HubStand) -> None:
    with pytest.raises(NotStartedError, match=r"not scheduled within 1\.0s .*t4-small may be busy"):
        bring_up(hub, {"call": "server.start", "action": {"job": "stuck"}}, schedule_timeout=1)


def test_until_ready__running_but_deaf(hub: HubStand) -> None:
    with pytest.raises(NotStartedError, match=r"did not answer within 1\.0s: /health"):
        bring_up(hub, {"call": "server.start", "action": {"job": "deaf"}}, load_timeout=1)


def test_until_ready__dies_while_scheduling(hub: HubStand) -> None:
    action = {"job": "die", "message": "ImagePullBackOff"}
    with pytest.raises(ServerDiedError, match="image cannot be pulled"):
        bring_up(hub, {"call": "server.start", "action": action})


def test_until_ready__dies_while_loading(hub: HubStand) -> None:
    """The cause in words, and the last lines without anything that a terminal, a runner or a thief
    could use."""
    logs = [
        "loading weights",
        f"::set-output name=x::y {TOKEN}",
        "\x1b[2Jtorch.OutOfMemoryError: CUDA out of memory",
    ]
    action = {"job": "die", "logs": logs}
    with pytest.raises(ServerDiedError) as caught:
        bring_up(hub, {"call": "model.health", "from": 2, "action": action})
    message = caught.value.message
    assert "the GPU ran out of memory" in message.splitlines()[0]
    assert "loading weights" in message
    assert TOKEN not in message
    assert "\x1b" not in message
    assert not any(line.strip().startswith("::") for line in message.splitlines())


def test_until_ready__death_is_seen_while_a_conversation_hangs(hub: HubStand) -> None:
    """Stage and health are looked at in parallel."""

    rules: list[dict[str, Any]] = [
        {"call": "model.chat", "action": {"hang": True}},
        {"call": "jobs.inspect", "from": 25, "action": {"job": "die"}},
    ]
    began = time.monotonic()
    with pytest.raises(ServerDiedError):
        bring_up(hub, *rules)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"call": "model.*", "action": {"status": 401}}, "refuses the token"),
        (
            {"call": "model.chat", "action": {"status": 400, "body": "bad chat template"}},
            "bad chat template",
        ),
        (
            {
                "call": "model.models",
                "action": {"status": 200, "body": {"data": [{"id": "other/model"}]}},
            },
            "serves other/model, not demo/model",
        ),
        ({"call": "jobs.inspect", "action": {"status": 403}}, "Hub refuses to say"),
    ],
)
def test_until_ready__hopeless_is_not_waited_for(
    hub: HubStand, rule: dict[str, Any], words: str
) -> None:
    began = time.monotonic()
    with pytest.raises(NotStartedError, match=words):
        bring_up(hub, rule, load_timeout=60, schedule_timeout=60)
    assert time.monotonic() - began < 10


def test_until_ready__a_job_that_is_gone(hub: HubStand) -> None:
    rule = {"call": "jobs.inspect", "from": 3, "action": {"status": 404}}
    with pytest.raises(ServerDiedError, match="ended as DELETED"):
        bring_up(hub, rule, {"call": "model.*", "action": {"status": 503}})


def test_base_url_of__without_an_exposed_url() -> None:
    job = PaidJob(kind="server", nonce="n", flavor="f", job_id="abc")
    assert base_url_of(job, spec(port=30000)) == "https://abc--30000.hf.jobs/v1"
    assert MODEL
