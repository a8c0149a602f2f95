"""The gateway in front of real servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from model_server import USAGE, ModelServer, Request, completion, model_server
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tbh_action.gateway import Gateway, Upstream, serve

KEY = "key-of-this-run"
TOKEN = "hf_token-of-the-hub"
CHAT = "/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@dataclass(kw_only=True)
class Bench:
    gateway: Gateway
    client: httpx.AsyncClient
    base_url: str
    journal: list[dict[str, Any]] = field(default_factory=list)

    async def chat(self, trial: str = "t", **more: Any) -> httpx.Response:
        headers = {"X-Tbh-Session": f"{trial}__agent"} if trial else {}
        return await self.client.post(CHAT, json=BODY, headers=headers, **more)

    def point_at(self, *servers: ModelServer) -> None:
        self.gateway.set_upstreams([Upstream(name=str(s.port), url=s.url) for s in servers])

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.journal if event["event"] == name]


@contextlib.asynccontextmanager
async def bench(
    *servers: ModelServer, patience: float = 20, token: str | None = TOKEN, routes: Any = ()
) -> AsyncIterator[Bench]:
    journal: list[dict[str, Any]] = []
    gateway = Gateway(
        KEY, patience=patience, token=token, extra_routes=routes, journal=journal.append
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
        made = Bench(gateway=gateway, client=client, base_url=base_url, journal=journal)
        if servers:
            made.point_at(*servers)
        yield made


type AsyncTest = Callable[[], Coroutine[Any, Any, None]]


def in_loop(test: AsyncTest) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 60))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def refused_port() -> int:
    """A port on which nothing listens."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@in_loop
async def test_gateway__passes_a_call_and_its_answer() -> None:
    async def behave(request: Request) -> None:
        await request.answer(
            completion("hello"), headers={"X-Own": "1", "Connection": "x-hop", "X-Hop": "no"}
        )

    async with model_server(behave) as server, bench(server) as b:
        response = await b.client.post(
            "/chat/completions?a=b%2Fc&d",
            json=BODY,
            headers={"X-Tbh-Session": "t__agent", "X-Kept": "yes", "Keep-Alive": "7"},
        )
        assert response.status_code == 200
        assert response.json() == completion("hello")
        assert response.headers["x-own"] == "1"
        assert "x-hop" not in response.headers
        got = server.requests[0]
        assert (got.method, got.target) == ("POST", "/v1/chat/completions?a=b%2Fc&d")
        assert json.loads(got.body) == BODY
        assert got.headers["authorization"] == f"Bearer {TOKEN}"
        assert got.headers["host"] == f"127.0.0.1:{server.port}"
        assert got.headers["x-kept"] == "yes"
        assert not {"keep-alive", "x-tbh-session"} & set(got.headers)
        assert KEY not in str(got.headers)


@in_loop
async def test_gateway__the_key_decides() -> None:
    async with model_server() as server, bench(server) as b:
        wrong = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY})
        for headers in wrong:
            async with httpx.AsyncClient(base_url=b.base_url, trust_env=False) as stranger:
                response = await stranger.post(CHAT, json=BODY, headers=headers)
            assert response.status_code == 401
            assert KEY not in response.text
        assert server.requests == []


@in_loop
async def test_gateway__without_a_token_the_key_stays_here() -> None:
    async with model_server() as server, bench(server, token=None) as b:
        assert (await b.chat()).status_code == 200
        assert "authorization" not in server.requests[0].headers


@in_loop
async def test_gateway__v1_and_nothing_else() -> None:
    async def hello(_: Any) -> PlainTextResponse:
        return PlainTextResponse("control")

    routes = [Route("/control/hello", hello)]
    async with model_server() as server, bench(server, routes=routes) as b:
        root = b.base_url.removesuffix("/v1")
        assert (await b.client.get(f"{root}/control/hello")).text == "control"
        for path in ("/health", "/", "/v2/x", "/v1x/y"):
            assert (await b.client.get(root + path)).status_code == 404
        host, port = root.removeprefix("http://").split(":")
        for climb in ("/v1/../health", "/v1/%2e%2e/health", "/v1/a/%252e%252e/b", "/v1/..%5cx"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET {climb} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            assert b" 404 " in (await reader.readline())
            writer.close()
        assert server.requests == []
        assert (await b.client.get("/models")).status_code == 200


@in_loop
async def test_gateway__large_bodies_both_ways() -> None:
    async def behave(request: Request) -> None:
        await request.answer({"size": len(request.body), "pad": "x" * (12 << 20)})

    async with model_server(behave) as server, bench(server) as b:
        body = b"x" * (25 << 20)
        response = await b.client.post(CHAT, content=body)
        assert response.json()["size"] == len(body)
        assert len(response.content) > 12 << 20


@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_gateway__an_answer_is_passed_whatever_it_says(status: int) -> None:
    async def behave(request: Request) -> None:
        await request.answer({"error": "as it is"}, status=status)

    @in_loop
    async def check() -> None:
        async with model_server(behave) as server, bench(server) as b:
            response = await b.chat()
            assert response.status_code == status
            assert response.json() == {"error": "as it is"}
            assert len(server.requests) == 1
            assert b.gateway.stats()["t"].failed == 1

    check()


@in_loop
async def test_gateway__a_refused_token_passes_and_is_told_once() -> None:
    async def behave(request: Request) -> None:
        await request.answer({"error": "who?"}, status=403)

    async with model_server(behave) as server, bench(server) as b:
        for _ in range(3):
            assert (await b.chat()).status_code == 403
        assert b.events("gateway_refused") == [
            {"event": "gateway_refused", "name": str(server.port), "status": 403}
        ]
        assert b.gateway.outages == []


@pytest.mark.parametrize("status", [429, 502, 503])
def test_gateway__not_now_is_asked_again(status: int) -> None:
    async def behave(request: Request) -> None:
        if len(server.requests) < 3:
            await request.answer({}, status=status, headers={"Retry-After": "0"})
        else:
            await request.answer()

    server: ModelServer

    @in_loop
    async def check() -> None:
        nonlocal server
        async with model_server(behave) as server, bench(server) as b:
            assert (await b.chat()).status_code == 200
            stats = b.gateway.stats()["t"]
            assert (stats.calls, stats.retries, stats.failed) == (1, 2, 0)
            assert 1.4 < stats.lost_seconds < 5

    check()


@in_loop
async def test_gateway__the_servers_last_word_when_patience_ends() -> None:
    async def behave(request: Request) -> None:
        await request.answer({"error": "full"}, status=503, headers={"X-Own": "1"})

    async with model_server(behave) as server, bench(server, patience=2) as b:
        began = time.monotonic()
        response = await b.chat()
        assert response.status_code == 503
        assert response.json() == {"error": "full"}
        assert response.headers["x-own"] == "1"
        assert time.monotonic() - began < 3
        assert len(server.requests) == 3
        (outage,) = b.gateway.outages
        assert outage.reason == "the server answers 503"
        assert 1 <= (outage.end - outage.start).total_seconds() < 3


@in_loop
async def test_gateway__retry_after_is_obeyed() -> None:
    async def behave(request: Request) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            await request.answer({}, status=429, headers={"Retry-After": "2"})
        else:
            await request.answer()

    times: list[float] = []
    async with model_server(behave) as server, bench(server) as b:
        assert (await b.chat()).status_code == 200
        assert 2 <= times[1] - times[0] < 3
        assert b.gateway.outages == []


@in_loop
async def test_gateway__refused_connections_until_the_server_is_there() -> None:
    async with model_server() as server, bench(server) as b:
        await server.kill()
        call = asyncio.create_task(b.chat())
        await asyncio.sleep(1.2)
        assert not call.done()
        await server.start()
        assert (await call).status_code == 200
        (outage,) = b.gateway.outages
        assert "can't be reached" in outage.reason
        assert b.events("gateway_outage")[0]["reason"] == outage.reason
        assert b.gateway.stats()["t"].lost_seconds > 1


@in_loop
async def test_gateway__no_server_within_patience() -> None:
    nowhere = ModelServer(behave=None, port=refused_port())  # type: ignore[arg-type]
    async with bench(nowhere, patience=1) as b:
        response = await b.chat()
        assert response.status_code == 503
        assert response.json()["error"]["type"] == "tbh_gateway"
        assert TOKEN not in response.text


@pytest.mark.parametrize("after", [b"", b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"cho'])
def test_gateway__a_connection_that_breaks_is_repeated(after: bytes) -> None:
    """Also in the middle of an answer: a whole one is kept back until it is whole."""

    async def behave(request: Request) -> None:
        if len(server.requests) > 1:
            await request.answer()
            return
        if after:
            await request.raw(after)
            await asyncio.sleep(0.05)
        request.reset()

    server: ModelServer

    @in_loop
    async def check() -> None:
        nonlocal server
        async with model_server(behave) as server, bench(server) as b:
            response = await b.chat()
            assert response.json() == completion()
            assert len(server.requests) == 2

    check()


@in_loop
async def test_gateway__what_may_have_had_an_effect_is_not_repeated() -> None:
    async def behave(request: Request) -> None:
        request.reset()

    async with model_server(behave) as server, bench(server) as b:
        response = await b.client.post("/files", content=b"x")
        assert response.status_code == 502
        assert len(server.requests) == 1


@in_loop
async def test_gateway__a_silent_server_is_waited_for_as_long_as_patience() -> None:
    async def behave(_: Request) -> None:
        await asyncio.sleep(60)

    async with model_server(behave) as server, bench(server, patience=1) as b:
        response = await b.chat()
        assert response.status_code == 504
        assert len(server.requests) == 1
        # A slow model and a dead one look alike from here: no evidence of an outage.
        assert b.gateway.outages == []
        assert b.gateway.stats()["t"].lost_seconds < 0.5


def stream_of(*texts: str) -> list[bytes]:
    events: list[Any] = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    events.append({"choices": [], "usage": USAGE})
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@in_loop
async def test_gateway__a_stream_passes_as_it_comes() -> None:
    async def behave(request: Request) -> None:
        await request.raw(STREAM_HEAD)
        for event in parts:
            await request.chunk(event)
            await asyncio.wait_for(seen.get(), 5)  # The next only when the last has arrived.
        await request.raw(b"0\r\n\r\n")

    seen: asyncio.Queue[int] = asyncio.Queue()
    parts = stream_of("a", "b", "c")
    async with model_server(behave) as server, bench(server) as b:
        got = b""
        headers = {"X-Tbh-Session": "t__agent"}
        async with b.client.stream("POST", CHAT, json=BODY, headers=headers) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            async for chunk in response.aiter_raw():
                got += chunk
                seen.put_nowait(1)
        assert got == b"".join(parts)
        stats = b.gateway.stats()["t"]
        assert (stats.known, stats.input, stats.cached, stats.output) == (1, 100, 60, 20)


@in_loop
async def test_gateway__a_stream_that_breaks_is_never_repeated() -> None:
    async def behave(request: Request) -> None:
        await request.raw(STREAM_HEAD)
        await request.chunk(stream_of("a")[0])
        await asyncio.sleep(0.2)
        request.reset()

    async with model_server(behave) as server, bench(server) as b:
        with pytest.raises(httpx.RemoteProtocolError):
            await b.chat()
        assert len(server.requests) == 1
        assert b.gateway.stats()["t"].failed == 1
        assert b.gateway.in_flight == 0


@in_loop
async def test_gateway__a_stream_that_breaks_before_its_first_event_is_repeated() -> None:
    async def behave(request: Request) -> None:
        await request.raw(STREAM_HEAD)
        if len(server.requests) == 1:
            await asyncio.sleep(0.1)
            request.reset()
            return
        for event in stream_of("a"):
            await request.chunk(event)
        await request.raw(b"0\r\n\r\n")

    async with model_server(behave) as server, bench(server) as b:
        response = await b.chat()
        assert response.content == b"".join(stream_of("a"))


@in_loop
async def test_gateway__a_caller_that_leaves_ends_the_servers_work() -> None:
    async def behave(request: Request) -> None:
        await asyncio.sleep(60)

    async with model_server(behave) as server, bench(server) as b:
        with pytest.raises(httpx.ReadTimeout):
            await b.chat(timeout=0.3)
        await until(lambda: server.left == 1)
        await until(lambda: b.gateway.in_flight == 0)
        stats = b.gateway.stats()["t"]
        assert (stats.calls, stats.failed) == (1, 1)
        assert stats.lost_seconds < 0.2


@in_loop
async def test_gateway__a_caller_that_leaves_in_a_stream_ends_the_servers_work() -> None:
    async def behave(request: Request) -> None:
        await request.raw(STREAM_HEAD)
        while True:
            await request.chunk(b"data: {}\n\n")
            await asyncio.sleep(0.01)

    async with model_server(behave) as server, bench(server) as b:
        async with b.client.stream("POST", CHAT, json=BODY) as response:
            async for _ in response.aiter_raw():
                break
        await until(lambda: server.left == 1)
        await until(lambda: b.gateway.in_flight == 0)


@in_loop
async def test_gateway__a_caller_that_leaves_while_it_waits() -> None:
    async with model_server() as server, bench(server) as b:
        b.gateway.hold("relaunch")
        with pytest.raises(httpx.ReadTimeout):
            await b.chat(timeout=0.3)
        await until(lambda: b.gateway.in_flight == 0)
        assert server.requests == []
        assert b.gateway.stats()["t"].lost_seconds >= 0.25


@in_loop
async def test_gateway__a_hold_delays_and_its_end_releases_at_once() -> None:
    async with model_server() as server, bench(server) as b:
        b.gateway.hold("relaunch")
        calls = [asyncio.create_task(b.chat(f"t{n}")) for n in range(8)]
        await asyncio.sleep(1.1)
        assert b.gateway.in_flight == 8
        assert server.requests == []
        b.gateway.release()
        released = time.monotonic()
        assert {(await call).status_code for call in calls} == {200}
        assert time.monotonic() - released < 1
        (outage,) = b.gateway.outages
        assert outage.reason == "relaunch"
        assert [
            e["event"] for e in b.journal if "hold" in e["event"] or "release" in e["event"]
        ] == [
            "gateway_hold",
            "gateway_release",
        ]


@in_loop
async def test_gateway__a_hold_is_bounded_by_patience() -> None:
    async with model_server() as server, bench(server, patience=1) as b:
        b.gateway.hold("relaunch of the server")
        response = await b.chat()
        assert response.status_code == 503
        assert "relaunch of the server" in response.json()["error"]["message"]
        assert server.requests == []


@in_loop
async def test_gateway__before_there_is_a_server_calls_wait() -> None:
    async with model_server() as server, bench() as b:
        call = asyncio.create_task(b.chat())
        await asyncio.sleep(0.2)
        assert not call.done()
        b.point_at(server)
        assert (await call).status_code == 200


@in_loop
async def test_gateway__handover_under_load_has_no_error() -> None:
    """Servers are replaced again and again while 16 callers call; the old one is killed at once
    when it is drained, and calls that were with it end there."""

    async def behave(request: Request) -> None:
        await asyncio.sleep(0.05)
        await request.answer()

    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(model_server(behave))
        b = await stack.enter_async_context(bench(first))
        statuses: list[int] = []
        done = False

        async def caller(number: int) -> None:
            while not done:
                statuses.append((await b.chat(f"t{number}")).status_code)

        callers = [asyncio.create_task(caller(n)) for n in range(16)]
        old = first
        for _ in range(6):
            await asyncio.sleep(0.25)
            new = await stack.enter_async_context(model_server(behave))
            b.point_at(new)
            await asyncio.wait_for(b.gateway.drained(str(old.port)), 5)
            served = len(old.requests)
            await old.kill()
            await asyncio.sleep(0.05)
            assert len(old.requests) == served
            old = new
        done = True
        await asyncio.gather(*callers)
        assert set(statuses) == {200}
        assert len(statuses) > 100
        assert sum(stats.retries for stats in b.gateway.stats().values()) == 0
        assert b.gateway.outages == []


@in_loop
async def test_gateway__a_killed_server_costs_no_call_when_its_replacement_comes() -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(30)

    async with model_server(slow) as old, model_server() as new, bench(old) as b:
        calls = [asyncio.create_task(b.chat(f"t{n}")) for n in range(8)]
        await until(lambda: len(old.requests) == 8)
        await old.kill()
        await asyncio.sleep(0.3)
        b.gateway.hold("relaunch")
        await asyncio.sleep(0.5)
        b.point_at(new)
        b.gateway.release()
        assert {(await call).status_code for call in calls} == {200}
        assert len(new.requests) == 8


@in_loop
async def test_gateway__calls_at_an_abandoned_server_are_made_again() -> None:
    """It accepts calls, and never answers nor breaks."""

    async def hang(_: Request) -> None:
        await asyncio.sleep(60)

    async with model_server(hang) as old, model_server() as new, bench(old) as b:
        calls = [asyncio.create_task(b.chat(f"t{n}")) for n in range(4)]
        await until(lambda: len(old.requests) == 4)
        b.point_at(new)
        await asyncio.sleep(0.3)
        assert not any(call.done() for call in calls)
        b.gateway.abandon(str(old.port))
        b.gateway.abandon(str(old.port))
        assert {(await call).status_code for call in calls} == {200}
        await until(lambda: old.left == 4)
        stats = b.gateway.stats()["t0"]
        assert (stats.calls, stats.retries, stats.failed) == (1, 1, 0)
        assert stats.lost_seconds > 0.25  # The time at the dead server was not the model's.
        b.gateway.abandon("unknown")


@in_loop
async def test_gateway__one_trial_stays_on_one_server() -> None:
    async with model_server() as one, model_server() as two, bench(one, two) as b:
        for trial in range(12):
            for _ in range(3):
                assert (await b.chat(f"task-{trial}")).status_code == 200
        counts = [len(one.requests), len(two.requests)]
        assert sum(counts) == 36
        assert all(count and count % 3 == 0 for count in counts)


@in_loop
async def test_gateway__a_dead_servers_trials_move_and_come_back() -> None:
    async with model_server() as one, model_server() as two, bench(one, two) as b:
        trials = [f"task-{n}" for n in range(12)]
        for trial in trials:
            await b.chat(trial)
        theirs = len(one.requests)
        assert theirs
        await one.kill()
        began = time.monotonic()
        for trial in trials:
            assert (await b.chat(trial)).status_code == 200
        assert time.monotonic() - began < 2
        assert len(two.requests) == 24 - theirs
        assert b.gateway.outages == []


@in_loop
async def test_gateway__counts_per_trial() -> None:
    async with model_server() as server, bench(server) as b:
        await asyncio.gather(*(b.chat("a") for _ in range(5)), b.chat("b"), b.chat(""))
        stats = b.gateway.stats()
        assert {trial: s.calls for trial, s in stats.items()} == {"a": 5, "b": 1, "": 1}
        assert (stats["a"].input, stats["a"].cached, stats["a"].output) == (500, 300, 100)
        assert stats["a"].seconds >= stats["a"].slowest_seconds > 0
        assert stats["a"].lost_seconds < 0.5


@in_loop
async def test_gateway__cookies_and_redirects_are_the_callers() -> None:
    async def behave(request: Request) -> None:
        assert "who" not in request.headers.get("cookie", "")
        await request.answer(
            {}, status=307, headers={"Location": "/elsewhere", "Set-Cookie": "who=first"}
        )

    async with model_server(behave) as server, bench(server) as b:
        for _ in range(2):
            response = await b.chat()
            assert response.status_code == 307
            assert response.headers["set-cookie"] == "who=first"
            b.client.cookies.clear()
        assert len(server.requests) == 2


@in_loop
async def test_gateway__a_journal_that_fails_fails_no_call() -> None:
    def full(_: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    async with model_server() as server:
        gateway = Gateway(KEY, patience=5, token=TOKEN, journal=full)
        async with serve(gateway) as base_url:
            gateway.set_upstreams([Upstream(name="a", url=server.url)])
            async with httpx.AsyncClient(trust_env=False) as client:
                response = await client.get(
                    f"{base_url}/models", headers={"Authorization": f"Bearer {KEY}"}
                )
            assert response.status_code == 200


@in_loop
async def test_serve__leaves_the_runs_signal_handlers_alone() -> None:
    def ours(*_: Any) -> None: ...

    before = signal.signal(signal.SIGTERM, ours)
    try:
        async with bench():
            assert signal.getsignal(signal.SIGTERM) is ours
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


@in_loop
async def test_serve__ends_soon_with_calls_under_way() -> None:
    async def behave(request: Request) -> None:
        await asyncio.sleep(60)

    async with model_server(behave) as server:
        async with bench(server) as b:
            call = asyncio.create_task(b.chat())
            await until(lambda: len(server.requests) == 1)
            began = time.monotonic()
        assert time.monotonic() - began < 4
        with pytest.raises(httpx.HTTPError):
            await call
        await until(lambda: server.left == 1)


GATEWAY_ALONE = """
import asyncio, sys
from tbh_action.gateway import Gateway, Upstream, serve

async def main():
    gateway = Gateway("key-of-this-run", patience=20, token=None, journal=lambda _: None)
    gateway.set_upstreams([Upstream(name="a", url=sys.argv[1])])
    async with serve(gateway) as base_url:
        print(base_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
@in_loop
async def test_gateway__memory_is_bounded() -> None:
    """Large bodies and many trials come and go through a gateway in its own process."""

    async def behave(request: Request) -> None:
        del server.requests[:]
        await request.answer(completion("x" * 100_000))

    async with model_server(behave) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", GATEWAY_ALONE, server.url, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None

        def resident() -> float:
            statm = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii")
            return int(statm.split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)

        async def calls(count: int) -> None:
            for number in range(count):
                headers = {
                    "Authorization": f"Bearer {KEY}",
                    "X-Tbh-Session": f"t{number % 50}__agent",
                }
                response = await client.post(CHAT, content=body, headers=headers)
                assert response.status_code == 200

        body = json.dumps({"messages": "y" * 1_000_000})
        base_url = (await process.stdout.readline()).decode().strip()
        try:
            async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=30) as client:
                await asyncio.gather(*(calls(25) for _ in range(8)))
                before = resident()
                await asyncio.gather(*(calls(125) for _ in range(8)))
                # 1,000 calls took and gave more than a gigabyte.
                assert resident() - before < 10
        finally:
            process.terminate()
            await process.wait()


async def until(what: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 (what is waited for lies in several objects)
            await asyncio.sleep(0.01)
