"""The supervisor with the real client, the loopback Hub, real server processes and the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hub_stand import MODEL, TOKEN, HubStand, hub_stand, spec
from model_server import Request, completion, model_server

from tbh_action.errors import NotStartedError
from tbh_action.gateway import Gateway, serve
from tbh_action.server import health, hf_job
from tbh_action.server.borrow import borrow
from tbh_action.server.bring_up import ServerDiedError
from tbh_action.server.hf_job import PaidJob, RefusedError
from tbh_action.server.supervisor import Supervisor
from tbh_action.server.supervisor_rules import Limits
from tbh_action.spec import RunSpec, validate_spec

KEY = "key"
QUICK = Limits(
    doubt_after_probes=3,
    doubt_after_silence=1.0,
    ask_again_after=0.2,
    relaunches=2,
    margin=1.0,
    endpoint_patience=1.0,
)


@pytest.fixture
def hub() -> Iterator[HubStand]:
    with hub_stand() as stand:
        yield stand


@dataclass(kw_only=True)
class Run:
    supervisor: Supervisor
    gateway: Gateway
    client: httpx.AsyncClient
    records: list[PaidJob] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    async def chat(self, trial: str = "t__1") -> int:
        response = await self.client.post(
            "/chat/completions",
            json={"model": MODEL, "messages": [{"role": "user", "content": "hi"}]},
            headers={"X-Tbh-Session": f"{trial}__agent"},
        )
        return response.status_code


@contextlib.asynccontextmanager
async def run_of(
    hub: HubStand | None,
    asked: RunSpec,
    *,
    adopt: Sequence[PaidJob] = (),
    borrowed: PaidJob | None = None,
    limits: Limits = QUICK,
    start: bool = True,
) -> AsyncIterator[Run]:
    records: list[PaidJob] = []
    events: list[dict[str, Any]] = []
    said: list[str] = []
    gateway = Gateway(KEY, patience=20, token=TOKEN, journal=events.append)
    supervisor = Supervisor(
        asked,
        "run-1",
        api=hub.api() if hub else None,
        gateway=gateway,
        record=records.append,
        journal=events.append,
        say=said.append,
        borrowed=borrowed,
        limits=limits,
        poll=0.05,
    )
    async with (
        serve(gateway) as base_url,
        httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=30,
            trust_env=False,
        ) as client,
    ):
        run = Run(
            supervisor=supervisor,
            gateway=gateway,
            client=client,
            records=records,
            events=events,
            said=said,
        )
        if start:
            supervisor.start(adopt)
        try:
            yield run
        finally:
            await supervisor.stop()


@contextlib.asynccontextmanager
async def load(run: Run, callers: int = 6) -> AsyncIterator[list[int]]:
    """Callers that call without a pause; their statuses."""
    statuses: list[int] = []
    done = False

    async def caller(number: int) -> None:
        while not done:
            statuses.append(await run.chat(f"task-{number}__x"))

    callers_ = [asyncio.create_task(caller(number)) for number in range(callers)]
    try:
        yield statuses
    finally:
        done = True
        await asyncio.gather(*callers_)


async def until(what: Callable[[], Any], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 (what is waited for lies in several objects)
            await asyncio.sleep(0.02)


def in_loop(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_supervisor__starts_serves_and_stops(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            waiting = asyncio.create_task(run.chat())
            ready = await run.supervisor.ready()
            assert run.supervisor.up
            assert ready.context_length == 32768
            assert await waiting == 200
            assert run.records[0].job_id == ""  # On record before it existed.
            assert {job.nonce for job in run.records} == {run.records[0].nonce}
            assert hub.alive() == [ready.job.job_id] if ready.job else False
            assert await run.supervisor.stop() == []
            assert hub.alive() == []
            assert [job.ended for job in run.supervisor.jobs] == [True]
            assert run.records[-1].ended
            assert run.supervisor.intervals == []
            assert run.names()[:2] == ["server_created", "server_ready"]

    in_loop(check())


def test_supervisor__a_killed_server_is_replaced_and_no_call_fails(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run, load(run) as statuses:
            first = (await run.supervisor.ready()).job
            assert first is not None
            await until(lambda: len(statuses) > 20)
            await asyncio.to_thread(hub.kill, first.job_id)
            await until(lambda: "server_lost" in run.names())
            await until(lambda: run.supervisor.up)
            before = len(statuses)
            await until(lambda: len(statuses) > before + 20)
            assert set(statuses) == {200}
            (outage,) = run.supervisor.intervals
            assert "ended as ERROR" in outage.reason
            assert 0.1 < (outage.end - outage.start).total_seconds() < 10
            assert run.gateway.held is None
            second = run.supervisor.servers[0].job
            assert second is not None
            assert hub.alive() == [second.job_id]
            assert len(run.supervisor.jobs) == 2

    in_loop(check())


@pytest.mark.slow
def test_supervisor__a_planned_handover_costs_no_call_and_no_time(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec(timeout=5)) as run, load(run) as statuses:
            await run.supervisor.ready()
            await until(lambda: run.names().count("server_retired") >= 2, 30)
            before = len(statuses)
            await until(lambda: len(statuses) > before + 20)
            assert set(statuses) == {200}
            assert run.supervisor.intervals == []
            assert run.gateway.outages == []
            assert "server_relaunch" not in run.names()
            assert "server_lost" not in run.names()
            stages = [job["status"] for job in hub.jobs()]
            # The old ones were cancelled by us, none ran into its timeout.
            assert [status["stage"] for status in stages[:2]] == ["CANCELED", "CANCELED"]
        assert hub.alive() == []

    in_loop(check())


def test_supervisor__relaunches_are_bounded(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            await run.supervisor.ready()
            await asyncio.to_thread(
                hub.rules,
                {"call": "jobs.inspect", "action": {"job": "die", "message": "no more"}},
            )
            await until(lambda: run.supervisor.failed)
            assert "no more" in str(run.supervisor.failed)
            assert run.names().count("server_relaunch") == QUICK.relaunches
            assert len(hub.jobs()) == 1 + QUICK.relaunches
            assert not run.supervisor.up
            with pytest.raises(NotStartedError):
                await run.supervisor.ready()
            assert run.supervisor.intervals

    in_loop(check())


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (
            {"call": "server.start", "action": {"job": "die", "message": "CUDA out of memory"}},
            ServerDiedError,
            "out of memory",
        ),
        ({"call": "jobs.create", "action": {"status": 402}}, RefusedError, "402"),
        ({"call": "server.start", "action": {"job": "stuck"}}, NotStartedError, "not scheduled"),
        ({"call": "server.start", "action": {"job": "deaf"}}, NotStartedError, "did not answer"),
    ],
)
def test_supervisor__a_first_start_that_fails_is_the_users_to_know(
    hub: HubStand, rule: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Not repeated (the next one would fail alike, and be paid for), and nothing is left."""
    hub.rules(rule)

    async def check() -> None:
        async with run_of(hub, spec(schedule_timeout=1, load_timeout=1)) as run:
            with pytest.raises(error, match=words):
                await run.supervisor.ready()
            assert words in str(run.supervisor.failed)
            await until(lambda: hub.alive() == [])
            assert len(hub.calls("jobs.create")) == 1

    in_loop(check())


def test_supervisor__a_server_that_hangs_is_found_out(
    hub: HubStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job runs and its health route answers, but no call is ever answered."""
    monkeypatch.setattr(health, "COMPLETION_TIMEOUT", 0.5)

    async def check() -> None:
        async with run_of(hub, spec()) as run:
            first = (await run.supervisor.ready()).job
            assert first is not None
            rule = {"call": "model.chat", "match": {"job": first.job_id}, "action": {"hang": True}}
            await asyncio.to_thread(hub.rules, rule)
            call = asyncio.create_task(run.chat())
            assert await call == 200
            assert run.supervisor.intervals[0].reason.startswith("no call was answered for")
            lost = run.supervisor.intervals[0].end - run.supervisor.intervals[0].start
            assert lost.total_seconds() > 1  # The silence before the verdict was lost time, too.
            await until(lambda: first.job_id not in hub.alive())

    in_loop(check())


def test_supervisor__a_sick_server_is_replaced_after_a_failed_conversation(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            first = (await run.supervisor.ready()).job
            assert first is not None
            rule = {"call": "model.*", "match": {"job": first.job_id}, "action": {"status": 500}}
            await asyncio.to_thread(hub.rules, rule)
            await until(lambda: len(run.supervisor.jobs) == 2 and run.supervisor.up)
            actions = [e["action"] for e in run.events if e["event"] == "server_decision"]
            assert actions[:2] == ["probe_completion", "relaunch"]
            assert await run.chat() == 200
            await until(lambda: first.job_id not in hub.alive())

    in_loop(check())


def test_supervisor__failed_probes_alone_kill_nothing(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run, load(run, 2):
            await run.supervisor.ready()
            await asyncio.to_thread(hub.rules, {"call": "model.health", "action": {"status": 500}})
            calls = len(hub.calls("model.health"))
            await until(lambda: len(hub.calls("model.health")) > calls + 15)
            assert run.supervisor.up
            assert len(run.supervisor.jobs) == 1

    in_loop(check())


def test_supervisor__a_hub_that_is_away_kills_nothing(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run, load(run, 2) as statuses:
            await run.supervisor.ready()
            await asyncio.to_thread(hub.rules, {"call": "jobs.*", "action": {"drop": "before"}})
            before = len(statuses)
            await asyncio.sleep(1)
            assert run.supervisor.up
            assert len(statuses) > before
            assert set(statuses) == {200}
            await asyncio.to_thread(hub.rules)

    in_loop(check())


@pytest.mark.slow
def test_supervisor__a_refused_token_is_not_cured_by_a_new_server(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            await run.supervisor.ready()
            await asyncio.to_thread(
                hub.rules, {"call": "jobs.hardware", "action": {"token": "revoke"}}
            )
            with contextlib.suppress(Exception):
                await asyncio.to_thread(lambda: list(hub.api().list_jobs_hardware()))
            await until(lambda: run.supervisor.failed)
            assert "token" in str(run.supervisor.failed)
            assert len(hub.calls("jobs.create")) == 1
            left = await run.supervisor.stop()
            # The Hub refuses to cancel too: said, not swallowed.
            assert [job.job_id for job in left] == hub.alive()
            hub.admin.post("token", json={"revoked": False})
            assert await run.supervisor.stop() == []
            assert hub.alive() == []

    in_loop(check())


def test_supervisor__replicas_stand_in_for_each_other(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec(replicas=2)) as run, load(run) as statuses:
            await until(lambda: len(run.supervisor.servers) == 2)
            await asyncio.to_thread(hub.kill, hub.alive()[0])
            await until(lambda: "server_lost" in run.names())
            assert run.supervisor.up
            await until(lambda: len(run.supervisor.servers) == 2)
            assert set(statuses) == {200}
            assert run.supervisor.intervals == []
            assert "gateway_hold" not in run.names()
            assert len(hub.alive()) == 2
        assert hub.alive() == []

    in_loop(check())


def test_supervisor__one_replica_less_is_no_end(hub: HubStand) -> None:
    hub.rules({"call": "server.start", "times": 1, "action": {"job": "die", "message": "bad luck"}})

    async def check() -> None:
        async with run_of(hub, spec(replicas=2)) as run:
            await run.supervisor.ready()
            await until(lambda: "server_given_up" in run.names())
            assert run.supervisor.failed is None
            assert await run.chat() == 200
            assert any("going on with fewer servers (1)" in line for line in run.said)

    in_loop(check())


def test_supervisor__a_server_that_was_kept_is_adopted(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            first = (await run.supervisor.ready()).job
            assert first is not None
            assert await run.supervisor.stop(keep_servers=True) == []
            assert hub.alive() == [first.job_id]
            async with run_of(hub, spec(), adopt=run.supervisor.jobs) as again:
                ready = await again.supervisor.ready()
                assert ready.job is not None
                assert ready.job.job_id == first.job_id
                assert await again.chat() == 200
            assert hub.alive() == []
            assert len(hub.calls("jobs.create")) == 1

    in_loop(check())


def test_supervisor__what_a_crash_left_is_adopted_or_cancelled(hub: HubStand) -> None:
    """Two jobs: one whose id was never learned, and an older one from before a handover."""
    older = hf_job.create_server(hub.api(), spec(), hf_job.new_server(spec()), "run-1")
    announced = hf_job.new_server(spec())
    created = hf_job.create_server(hub.api(), spec(), announced, "run-1")

    async def check() -> None:
        async with run_of(hub, spec(), adopt=[announced]) as run:
            ready = await run.supervisor.ready()
            assert ready.job is not None
            assert ready.job.job_id == created.job_id
            await run.supervisor.stop(keep_servers=True)
            async with run_of(hub, spec(), adopt=[older, created]) as again:
                ready = await again.supervisor.ready()
                assert ready.job is not None
                assert ready.job.job_id == created.job_id
                await until(lambda: hub.alive() == [created.job_id])

    in_loop(check())


@pytest.mark.parametrize("announced_only", [False, True])
def test_supervisor__what_was_left_is_gone(hub: HubStand, announced_only: bool) -> None:
    job = hf_job.new_server(spec())
    if not announced_only:
        job = hf_job.create_server(hub.api(), spec(), job, "run-1")
        hf_job.cancel(hub.api(), job)

    async def check() -> None:
        async with run_of(hub, spec(), adopt=[job]) as run:
            ready = await run.supervisor.ready()
            assert ready.job is not None
            assert ready.job.nonce != job.nonce
            assert any("can't be used" in line for line in run.said)
            assert run.names().count("server_relaunch") == 0

    in_loop(check())


@pytest.mark.parametrize("when", [0.0, 0.05, 0.2, 0.35, 0.6])
def test_supervisor__a_stop_at_any_time_leaves_nothing(hub: HubStand, when: float) -> None:
    hub.rules({"call": "jobs.create", "action": {"delay": 0.3}})

    async def check() -> None:
        async with run_of(hub, spec()) as run:
            await asyncio.sleep(when)
            assert await run.supervisor.stop() == []
            assert all(job.ended for job in run.supervisor.jobs)
        assert hub.alive() == []
        await asyncio.sleep(0.5)
        assert hub.alive() == []

    in_loop(check())


@pytest.mark.slow
def test_supervisor__the_cancel_call_does_not_wait_behind_a_hub_that_hangs(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec(replicas=6)) as run:
            await until(lambda: len(run.supervisor.servers) == 6)
            await asyncio.to_thread(hub.rules, {"call": "jobs.inspect", "action": {"delay": 5}})
            await asyncio.sleep(0.3)  # All threads of the loop's own pool hang now.
            began = time.time()
            stopping = asyncio.create_task(run.supervisor.stop())
            await until(lambda: hub.alive() == [], 2)
            assert time.time() - began < 2
            await stopping

    in_loop(check())


def test_supervisor__a_cancel_that_fails_is_made_again(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec()) as run:
            await run.supervisor.ready()
            await asyncio.to_thread(
                hub.rules, {"call": "jobs.cancel", "times": 2, "action": {"status": 500}}
            )
            assert await run.supervisor.stop() == []
        assert hub.alive() == []

    in_loop(check())


@pytest.mark.slow
def test_supervisor__a_handover_that_fails_leaves_the_old_server_at_work(hub: HubStand) -> None:
    async def check() -> None:
        async with run_of(hub, spec(timeout=6)) as run, load(run, 2) as statuses:
            await run.supervisor.ready()
            await asyncio.to_thread(
                hub.rules, {"call": "server.start", "times": 1, "action": {"job": "die"}}
            )
            await until(lambda: "server_handover_failed" in run.names())
            assert run.supervisor.up
            await until(lambda: "server_retired" in run.names())
            assert set(statuses) == {200}
            assert run.supervisor.intervals == []

    in_loop(check())


def test_supervisor__nothing_is_created_that_is_not_on_record(hub: HubStand) -> None:
    def full(_: PaidJob) -> None:
        raise OSError(28, "No space left on device")

    async def check() -> None:
        supervisor = Supervisor(
            spec(),
            "run-1",
            api=hub.api(),
            gateway=None,
            record=full,
            journal=lambda _: None,
            say=lambda _: None,
            poll=0.05,
        )
        supervisor.start()
        with pytest.raises(NotStartedError, match="No space left"):
            await supervisor.ready()
        await supervisor.stop()
        assert hub.jobs() == []

    in_loop(check())


def endpoint(url: str) -> RunSpec:
    return validate_spec(
        {
            "model": {"name": MODEL},
            "endpoint": url,
            "benchmark": {"name": "demo", "path": "/tasks"},
        }
    )


async def good(request: Request) -> None:
    if request.target == "/v1/models":
        await request.answer({"data": [{"id": MODEL}]})
    else:
        await request.answer(completion())


def test_supervisor__an_endpoint_is_watched_and_may_come_back() -> None:
    async def check() -> None:
        async with model_server(good) as server, run_of(None, endpoint(server.url)) as run:
            ready = await run.supervisor.ready()
            assert ready.base_url == server.url
            assert await run.chat() == 200
            await server.kill()
            await asyncio.sleep(0.5)
            await server.start()
            assert await run.chat() == 200
            assert run.supervisor.failed is None
            await server.kill()
            await until(lambda: run.supervisor.failed)
            assert "the endpoint was away for" in str(run.supervisor.failed)
            assert run.supervisor.jobs == []

    in_loop(check())


def test_supervisor__a_borrowed_server_is_neither_replaced_nor_stopped(hub: HubStand) -> None:
    async def check() -> None:
        made = hf_job.create_server(hub.api(), spec(), hf_job.new_server(spec()), "other-run")
        job = borrow(hub.api(), spec(), made.job_id)
        async with run_of(hub, spec(replicas=2), borrowed=job) as run:
            assert (await run.supervisor.ready()).job is not None
            assert await run.chat() == 200
        assert hub.alive() == [job.job_id]
        async with run_of(hub, spec(), borrowed=job) as run:
            await run.supervisor.ready()
            await asyncio.to_thread(hub.kill, job.job_id)
            await until(lambda: run.supervisor.failed)
            assert "ended as ERROR; it is not this run's to start" in str(run.supervisor.failed)
            assert (run.records[-1].stage, run.records[-1].borrowed) == ("ERROR", True)
        assert len(hub.jobs()) == 1

    in_loop(check())


def test_supervisor__an_endpoint_that_is_not_there() -> None:
    async def check() -> None:
        async with run_of(None, endpoint("http://127.0.0.1:1/v1")) as run:
            with pytest.raises(NotStartedError, match="is not usable"):
                await run.supervisor.ready()

    in_loop(check())
