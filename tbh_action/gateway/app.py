"""The gateway itself: takes a call, finds it a server, and tries again where that is safe."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from starlette.types import Receive, Scope, Send

from tbh_action.gateway.balance import Upstream, choose
from tbh_action.gateway.call import Answer, Call, TooLargeError, climbs, header, read_call
from tbh_action.gateway.forward import forward
from tbh_action.gateway.outages import OutageLog, outage_event
from tbh_action.gateway.retry import Trouble, pause_before_retry, repeatable
from tbh_action.gateway.stats import StatsBook, TrialStats
from tbh_action.scoring.failures import Interval

_CONNECT_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 120.0
# Idle connections are given up before proxies do so: fewer calls meet a closed one.
_KEEPALIVE_SECONDS: Final = 20.0
# How long a server that failed is avoided while another one is there.
_AVOID_SECONDS: Final = 5.0


class Gateway:
    """Forwards `/v1/*` to the server(s) of a run; see the package's docstring.

    `key` is what callers must show, `token` what the servers want instead; `patience` is how many
    seconds a call may take from its arrival to its answer, all waiting included. `extra_routes` are
    served beside `/v1` and check their callers themselves. `journal` is told of events.
    """

    def __init__(
        self,
        key: str,
        *,
        patience: float,
        token: str | None,
        extra_routes: Sequence[BaseRoute] = (),
        journal: Callable[[dict[str, Any]], None],
    ) -> None:
        self.app = Starlette(routes=[*extra_routes, Mount("/v1", app=self._serve)])
        self.app.router.redirect_slashes = False
        self._bearer = f"Bearer {key}".encode()
        self._patience = patience
        self._token = token
        self._journal = journal
        self._upstreams: tuple[Upstream, ...] = ()
        self._hold: str | None = None
        self._changed = asyncio.Event()
        self._became_idle = asyncio.Event()
        self._in_flight = 0
        self._load: Counter[str] = Counter()
        self._attempts_at: dict[str, set[asyncio.Timeout]] = {}
        self._silent_since: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._avoid_until: dict[str, float] = {}
        self._refused: set[tuple[str, int]] = set()
        self._book = StatsBook()
        self._outages = OutageLog()
        self._transport = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=128,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            )
        )

    def set_upstreams(self, upstreams: Sequence[Upstream]) -> None:
        """From now on calls go to these. A call that is under way ends where it is."""
        self._upstreams = tuple(upstreams)
        names = {upstream.name for upstream in upstreams}
        self._failures = Counter({n: c for n, c in self._failures.items() if n in names})
        self._avoid_until = {n: t for n, t in self._avoid_until.items() if n in names}
        self._tell("gateway_upstreams", names=sorted(names))
        self._wake()

    def hold(self, reason: str) -> None:
        """New attempts wait (within their caller's patience) until `release`."""
        if self._hold is None:
            self._outages.held(_now(), reason)
            self._tell("gateway_hold", reason=reason)
        self._hold = reason

    def release(self) -> None:
        """Ends a hold; waiting calls go on at once."""
        if self._hold is not None:
            self._hold = None
            self._tell("gateway_release")
            self._tell_outage(self._outages.released(_now()))
            self._wake()

    @property
    def held(self) -> str | None:
        """The reason of the hold that lasts, if any."""
        return self._hold

    @property
    def in_flight(self) -> int:
        """Calls that have come and were not yet answered, those that wait included."""
        return self._in_flight

    def abandon(self, name: str) -> None:
        """Calls under way at the server `name` are made again elsewhere: it is dead, and may never
        say so (a proxy can hold a connection to nothing for long)."""
        now = asyncio.get_running_loop().time()
        for attempt in self._attempts_at.get(name, ()):
            if not attempt.expired():
                attempt.reschedule(now)

    async def drained(self, name: str) -> None:
        """Returns once no call is under way at the server `name`."""
        while self._load[name]:
            await self._became_idle.wait()

    def answered_ago(self, name: str) -> float | None:
        """Seconds since a call was answered by the server `name`; None when none was."""
        at = self._answered_at.get(name)
        return None if at is None else time.monotonic() - at

    def silent_for(self, name: str) -> float:
        """For how many seconds calls have been under way at `name` without an answer to any."""
        since = self._silent_since.get(name)
        return 0.0 if since is None else time.monotonic() - since

    def stats(self) -> dict[str, TrialStats]:
        """A copy of each trial's sums; calls that named no trial are under the empty name."""
        return {trial: replace(stats) for trial, stats in self._book.trials.items()}

    @property
    def outages(self) -> list[Interval]:
        """When calls found no server, or were held; oldest first, those that last included."""
        return self._outages.intervals(_now())

    async def aclose(self) -> None:
        """Closes the connections to the servers."""
        await self._transport.aclose()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application behind `/v1`."""
        answer = Answer(send)
        if scope["type"] != "http":
            return
        if not hmac.compare_digest(header(scope["headers"], b"authorization"), self._bearer):
            await answer.error(401, "The gateway's key is missing or wrong.")
            return
        try:
            call = await read_call(scope, receive)
        except TooLargeError as error:
            await answer.error(413, str(error))
            return
        if call is None:
            return
        if climbs(call.path):
            await answer.error(404, "No such path.")
            return
        self._in_flight += 1
        try:
            await _unless_gone(self._answer(call, answer), answer, receive)
        except Exception as error:  # noqa: BLE001 (a bug of ours must be seen, and end in an answer)
            self._tell("gateway_bug", error=repr(error)[:500])
            if not answer.started:
                await answer.error(500, "The gateway failed; its run's events say how.")
        finally:
            self._in_flight -= 1

    async def _answer(self, call: Call, answer: Answer) -> None:
        """Attempts until something could be passed on; then adds the call to the sums."""
        trouble: Trouble | None = None
        try:
            trouble = await self._attempts(call, answer)
        finally:
            ended = time.monotonic()
            # A silent server may be a slow model: the time of that attempt is not counted as lost.
            broken = trouble.kind != "silent" if trouble else answer.status >= 500
            lost_until = ended if broken or call.waiting else call.attempted
            self._book.add(
                call.trial,
                seconds=ended - call.arrived,
                lost=lost_until - call.arrived,
                retries=max(0, call.tries - 1),
                failed=not answer.finished or answer.status >= 400,
                usage=answer.usage,
            )

    async def _attempts(self, call: Call, answer: Answer) -> Trouble | None:
        """Returns the trouble that the caller was told of; None when a server's answer passed."""
        may_repeat = repeatable(call.method, call.path)
        while True:
            upstream = await self._next_upstream(call)
            if upstream is None:
                trouble = Trouble(kind="refused", words=self._hold or "there is no server")
                await _tell_caller(trouble, answer)
                return trouble
            met = await self._attempt(call, upstream, answer)
            if met is None or answer.started:
                # Started and in trouble: the caller sees the broken connection that we saw.
                return met
            pause = pause_before_retry(
                met,
                tries=call.tries,
                left=self._left(call),
                may_repeat=may_repeat,
                others=self._others(upstream),
            )
            if pause is None:
                await _tell_caller(met, answer)
                return met
            call.waiting = True
            await self._wait(pause)

    async def _next_upstream(self, call: Call) -> Upstream | None:
        """The server for the next attempt; waits while there is none. None: out of patience."""
        while self._hold is not None or not self._upstreams:
            left = self._left(call)
            if left <= 0:
                return None
            await self._wait(left)
        return choose(self._upstreams, call.trial, down=self._avoided(), in_flight=self._load)

    async def _attempt(self, call: Call, upstream: Upstream, answer: Answer) -> Trouble | None:
        call.tries += 1
        call.waiting = False
        call.attempted = time.monotonic()
        left = max(0.1, self._left(call))
        timeout = {"connect": min(_CONNECT_SECONDS, left), "read": left, "write": _WRITE_SECONDS}
        request = call.request(upstream.url, self._token, timeout)
        try:
            async with self._under_way(upstream.name):
                trouble = await forward(self._transport, request, answer)
        except TimeoutError:
            return Trouble(kind="reset", words="the server was given up")
        self._judge(upstream.name, trouble, answer.status)
        return trouble

    def _judge(self, name: str, trouble: Trouble | None, status: int) -> None:
        """What this attempt says about the server."""
        if trouble is None and status in (401, 403):
            # About our token, not about the server: neither a failure nor a success.
            if (name, status) not in self._refused:
                self._refused.add((name, status))
                self._tell("gateway_refused", name=name, status=status)
        elif trouble is None and status < 500:
            self._failures.pop(name, None)
            self._avoid_until.pop(name, None)
            self._answered_at[name] = time.monotonic()
            if name in self._silent_since:
                self._silent_since[name] = time.monotonic()
            self._tell_outage(self._outages.worked(_now()))
        elif trouble is None or (trouble.kind != "silent" and trouble.status != 429):
            words = trouble.words if trouble else f"the server answers {status}"
            self._tell_outage(self._outages.failed(_now(), words))
            self._failures[name] += 1
            if self._failures[name] > 1 or (trouble and trouble.kind == "refused"):
                self._avoid_until[name] = time.monotonic() + _AVOID_SECONDS

    def _avoided(self) -> set[str]:
        now = time.monotonic()
        return {name for name, until in self._avoid_until.items() if until > now}

    def _others(self, upstream: Upstream) -> bool:
        """Could another server take the call now?"""
        avoided = self._avoided()
        return any(u.name not in avoided for u in self._upstreams if u.name != upstream.name)

    def _left(self, call: Call) -> float:
        """Seconds of the caller's patience that remain."""
        return call.arrived + self._patience - time.monotonic()

    @contextlib.asynccontextmanager
    async def _under_way(self, name: str) -> AsyncIterator[None]:
        """Counts an attempt; `abandon` ends it with a TimeoutError."""
        self._load[name] += 1
        self._silent_since.setdefault(name, time.monotonic())
        attempts = self._attempts_at.setdefault(name, set())
        attempt = asyncio.timeout(None)
        attempts.add(attempt)
        try:
            async with attempt:
                yield
        finally:
            attempts.discard(attempt)
            self._load[name] -= 1
            if not self._load[name]:
                del self._load[name]
                del self._silent_since[name]
                del self._attempts_at[name]
                self._became_idle.set()
                self._became_idle = asyncio.Event()

    async def _wait(self, seconds: float) -> None:
        """Waits, but no longer than until the servers change."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell_outage(self, outage: Interval | None) -> None:
        if outage is not None:
            self._tell("gateway_outage", **outage_event(outage))

    def _tell(self, event: str, **fields: Any) -> None:
        # A full disk under the journal must not fail a model call.
        with contextlib.suppress(OSError):
            self._journal({"event": event, **fields})


async def _unless_gone(work: Any, answer: Answer, receive: Receive) -> None:
    """Runs `work`; cancels it, and with it the server's side, when the caller leaves before."""
    task = asyncio.create_task(work)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.finished:
            task.cancel()
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        task.cancel()
        gone.cancel()


async def _tell_caller(trouble: Trouble, answer: Answer) -> None:
    """The last attempt's answer where there was one, else its trouble as a status."""
    if answer.refusal is not None and trouble.kind == "status":
        await answer.whole(*answer.refusal)
    elif trouble.kind == "refused":
        await answer.error(503, f"No model server: {trouble.words}.")
    else:
        await answer.error(504 if trouble.kind == "silent" else 502, f"{trouble.words}.")


def _now() -> datetime:
    return datetime.now(UTC)
