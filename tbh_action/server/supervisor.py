"""Keeps the servers of a run alive: starts, watches, replaces and stops them.

What to do is decided in `supervisor_rules`; this is where it is done. Each place (one for each
replica) has a task of its own; the fleet is what answers in all of them together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from tbh_action.errors import NotStartedError
from tbh_action.gateway import Gateway
from tbh_action.scoring.failures import Interval
from tbh_action.server import hf_job
from tbh_action.server.bring_up import POLL, ReadyServer, check_endpoint, until_ready
from tbh_action.server.fleet import Fleet
from tbh_action.server.hf_job import RefusedError
from tbh_action.server.hub_errors import explain, hub_errors
from tbh_action.server.live_server import LiveServer
from tbh_action.server.paid_servers import PaidServers
from tbh_action.server.supervisor_rules import Decision, Limits, Seen, decide

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

# What a start took, as far as none was measured (a server that an earlier leg left).
_USUAL_LOAD: Final = 600.0
_BETWEEN_RELAUNCHES: Final = 5.0


@dataclass(kw_only=True, slots=True)
class _Place:
    """Where one server of the run stands. `successor` is being started to replace it; `said` is the
    last decision that was told."""

    number: int
    relaunches: int = 0
    successor: asyncio.Task[LiveServer] | None = None
    said: str = ""


class Supervisor:
    """The servers of one run (or the endpoint that it was given). Lives in one event loop.

    `record` is told each change of each paid job, before it is waited for; `journal` gets events,
    `say` lines for people. Without a `gateway` (agents inside the sandbox), callers ask `ready` for
    the address. `api` is None for an endpoint, and `endpoint_token` is for it alone. A `borrowed`
    server is used and watched; none is started or stopped then.
    """

    def __init__(
        self,
        spec: RunSpec,
        run_id: str,
        *,
        api: HfApi | None,
        gateway: Gateway | None,
        record: Callable[[PaidJob], None],
        journal: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
        endpoint_token: str | None = None,
        borrowed: PaidJob | None = None,
        limits: Limits | None = None,
        poll: float = POLL,
    ) -> None:
        self._spec = spec
        self._api = api
        self._gateway = gateway
        self._journal = journal
        self._say = say
        self._endpoint_token = endpoint_token
        self._limits = limits or Limits()
        self._poll = poll
        self._borrowed = borrowed
        self._record = record
        self._paid = (
            None if api is None or borrowed else PaidServers(api, spec, run_id, record=record)
        )
        self._fleet = Fleet(gateway, journal)
        self._places: list[_Place] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._load_time: float | None = None
        self._failure: NotStartedError | None = None

    def start(self, adopt: Sequence[PaidJob] = ()) -> None:
        """Begins to start the servers and returns at once; `ready` waits for the first.

        `adopt`: servers that an earlier leg left. They are used if they still live; those that are
        too many are cancelled.
        """
        replicas = self._spec.server.replicas if self._spec.server and not self._borrowed else 1
        # The newest first: it has the longest life left.
        left = sorted(
            (job for job in adopt if not job.ended and self._paid is not None),
            key=lambda job: job.created_at or "",
            reverse=True,
        )
        for job in left:
            self._paid_servers.note(job)
        for job in left[replicas:]:
            self._spawn(self._cancel(job))
        self._places = [_Place(number=number) for number in range(replicas)]
        for place in self._places:
            self._spawn(self._keep(place, left[place.number] if place.number < len(left) else None))

    async def ready(self) -> ReadyServer:
        """The first server that answers.

        Raises:
            NotStartedError: there is none and there will be none; says why.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self.servers:
                return self.servers[0]
            await self._fleet.changed.wait()

    @property
    def up(self) -> bool:
        """Does any server answer now, as far as is known?"""
        return bool(self._fleet.servers)

    @property
    def servers(self) -> list[ReadyServer]:
        """The servers that answer now."""
        return [server.ready for server in self._fleet.servers]

    @property
    def jobs(self) -> list[PaidJob]:
        """The records of all server jobs, ended ones included."""
        return self._paid.jobs if self._paid else []

    @property
    def failed(self) -> str | None:
        """Why there is no server and will be none; None as long as there is hope."""
        return self._failure.message if self._failure is not None else None

    @property
    def intervals(self) -> list[Interval]:
        """When no server answered, after the first one had; the time that lasts included."""
        return self._fleet.outages

    async def stop(self, *, keep_servers: bool = False) -> list[PaidJob]:
        """Ends all work and cancels all jobs; those that may still be running are returned. May be
        called again to try those once more.

        With `keep_servers` they are left, for the next leg.
        """
        ending = None
        if self._paid and not keep_servers:
            # Before anything is waited for: the calls must reach the Hub while there is time.
            ending = asyncio.create_task(self._paid.cancel_all())
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._paid is None:
            return []
        await self._paid.settled()
        return await ending if ending is not None else []

    async def _keep(self, place: _Place, adopt: PaidJob | None) -> None:
        """Fills a place, and keeps it filled until it is given up."""
        try:
            server = await self._first(adopt)
            while True:
                self._fleet.enter(place.number, server)
                decision, seen = await self._until_decided(place, server)
                if decision.action == "handover_switch" and place.successor is not None:
                    old, server = server, place.successor.result()
                    place.successor = None
                    self._spawn(self._retire(old))
                else:
                    self._lose(place, server, decision, seen)
                    server = await self._replacement(place, decision)
        except NotStartedError as error:
            self._give_up(place, error)
        except Exception as error:
            self._give_up(place, NotStartedError(f"The supervisor failed: {error!r}."))
            raise

    async def _first(self, adopt: PaidJob | None) -> LiveServer:
        if adopt is not None:
            try:
                return await self._begin(await self._found(adopt))
            except NotStartedError as error:
                self._say(f"the server that was left can't be used: {error.message}")
        return await self._begin(None)

    async def _found(self, job: PaidJob) -> PaidJob:
        """A job that was left, with its id: a crash in its creation left only the nonce.

        Raises:
            NotStartedError: there is no such job, or the Hub does not say.
        """
        if job.job_id:
            return job
        assert self._api is not None
        try:
            found = await asyncio.to_thread(hf_job.find_by_nonce, self._api, job)
        except hub_errors(ValueError, KeyError, TypeError) as error:
            raise NotStartedError(f"the Hub can't be asked about it: {explain(error)}") from error
        if found is None:
            raise NotStartedError("it was never created")
        self._paid_servers.note(found)
        return found

    async def _begin(self, left: PaidJob | None) -> LiveServer:
        """A server that answers: borrowed, `left` by an earlier leg, or a new one.

        Raises:
            NotStartedError: it can't be had; what was started is cancelled.
        """
        if self._api is None:
            assert self._spec.endpoint is not None
            endpoint = self._spec.endpoint, self._endpoint_token, self._spec.model.name
            return self._live(await check_endpoint(*endpoint))
        if self._borrowed is not None:
            return self._live(await self._answering(self._api, self._borrowed, self._record))
        began = time.monotonic()
        job = left or await self._paid_servers.create()
        if left is None:
            self._event("server_created", job_id=job.job_id, flavor=job.flavor)
            self._say(f"server job {job.job_id} created on {job.flavor}")
        try:
            ready = await self._answering(self._api, job, self._paid_servers.note)
        except NotStartedError:
            self._spawn(self._cancel(job))
            raise
        if left is None:
            self._load_time = time.monotonic() - began
        return self._live(ready)

    async def _answering(
        self, api: HfApi, job: PaidJob, record: Callable[[PaidJob], None]
    ) -> ReadyServer:
        return await until_ready(
            api, self._spec, job, record=record, say=self._say, poll=self._poll
        )

    def _live(self, ready: ReadyServer) -> LiveServer:
        return LiveServer(
            self._api,
            ready,
            self._spec.model.name,
            load_time=self._load_time or _USUAL_LOAD,
            record=self._paid.note if self._paid else self._record,
        )

    async def _until_decided(self, place: _Place, server: LiveServer) -> tuple[Decision, Seen]:
        """Watches a server until it must be replaced or given up; what was seen of it then."""
        gateway = self._gateway
        try:
            while True:
                await asyncio.sleep(self._poll)
                silent_for = gateway.silent_for(server.name) if gateway else 0.0
                await server.look(silent=silent_for >= self._limits.doubt_after_silence)
                self._notice_failed_successor(place)
                seen = server.seen(
                    answered_ago=gateway.answered_ago(server.name) if gateway else None,
                    silent_for=silent_for,
                    successor=_state(place.successor),
                    relaunches=place.relaunches,
                )
                decision = decide(seen, self._limits)
                self._tell(place, server, decision)
                if decision.action == "probe_completion":
                    server.converse()
                elif decision.action == "handover_start":
                    place.successor = self._spawn(self._begin(None))
                elif decision.action != "keep":
                    return decision, seen
        finally:
            await server.aclose()

    def _notice_failed_successor(self, place: _Place) -> None:
        task = place.successor
        error = task.exception() if task is not None and task.done() else None
        if error is None:
            return
        place.successor = None
        if not isinstance(error, NotStartedError):
            raise error
        # As good as a relaunch that failed: they share their bound.
        refused = isinstance(error, RefusedError)
        place.relaunches = self._limits.relaunches if refused else place.relaunches + 1
        self._event("server_handover_failed", place=place.number, reason=error.message)
        self._say(f"the next server did not start: {error.message}")

    def _lose(self, place: _Place, server: LiveServer, decision: Decision, seen: Seen) -> None:
        bad_for = timedelta(seconds=max(seen.failing_for, seen.silent_for))
        self._fleet.leave(place.number, bad_for=bad_for, reason=decision.reason)
        self._say(f"server {server.name} is lost: {decision.reason}")
        if server.job is not None and self._paid is not None:
            self._spawn(self._cancel(server.job))

    async def _replacement(self, place: _Place, decision: Decision) -> LiveServer:
        """The next server, in a bounded number of tries.

        Raises:
            NotStartedError: it was given up, all tries failed, or the Hub refuses.
        """
        if decision.action == "give_up":
            raise NotStartedError(f"The model server was given up: {decision.reason}.")
        while True:
            starting = place.successor
            if starting is None:
                place.relaunches += 1
                self._event("server_relaunch", place=place.number, number=place.relaunches)
                starting = self._spawn(self._begin(None))
            place.successor = None
            try:
                return await starting
            except RefusedError:
                raise
            except NotStartedError as error:
                if place.relaunches >= self._limits.relaunches:
                    raise
                self._say(f"the relaunch failed: {error.message}")
            await asyncio.sleep(min(_BETWEEN_RELAUNCHES, self._poll))

    def _give_up(self, place: _Place, error: NotStartedError) -> None:
        self._places.remove(place)
        if place.successor is not None:
            self._spawn(self._abandon(place.successor))
        self._event("server_given_up", place=place.number, reason=error.message)
        if self._places:
            self._say(f"going on with fewer servers ({len(self._places)}): {error.message}")
        else:
            self._failure = error
        self._fleet.wake()

    async def _abandon(self, successor: asyncio.Task[LiveServer]) -> None:
        """A server that nobody needs any more must not be paid for once it has started."""
        with contextlib.suppress(NotStartedError):
            await self._retire(await successor)

    async def _retire(self, server: LiveServer) -> None:
        """Lets an old server end the calls that it works on, then cancels it."""
        if self._gateway is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.margin):
                    await self._gateway.drained(server.name)
        if server.job is not None:
            self._event("server_retired", name=server.name)
            await self._cancel(server.job)

    async def _cancel(self, job: PaidJob) -> None:
        if not await self._paid_servers.cancel(job):
            self._say(f"the server job {job.job_id} could not be cancelled yet")

    @property
    def _paid_servers(self) -> PaidServers:
        assert self._paid is not None, "neither an endpoint nor a borrowed server is ours"
        return self._paid

    def _spawn[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that `stop` ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _tell(self, place: _Place, server: LiveServer, decision: Decision) -> None:
        """Each decision once, not at each look."""
        words = f"{decision.action} {decision.reason}".rstrip()
        if words in (place.said, "keep"):
            return
        place.said = words
        self._event(
            "server_decision",
            name=server.name,
            action=decision.action,
            reason=decision.reason,
            detail=server.detail,
        )
        if decision.action.startswith("handover"):
            self._say(f"server {server.name}: {decision.reason}")

    def _event(self, event: str, **fields: Any) -> None:
        self._journal({"event": event, **fields})


def _state(successor: asyncio.Task[LiveServer] | None) -> Literal["none", "starting", "ready"]:
    if successor is None:
        return "none"
    return "ready" if successor.done() else "starting"
