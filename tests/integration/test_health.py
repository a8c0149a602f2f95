"""Probes against real servers: one that loads, one that exits early, and several that are wrong."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import httpx
import pytest
from model_server import Request, completion, model_server

from tbh_action.errors import NotStartedError
from tbh_action.server.bring_up import check_endpoint
from tbh_action.server.health import Probe, probe_all, probe_completion, server_root

MODEL = "demo/model"
MODELS = {"data": [{"id": MODEL, "max_model_len": 4096}]}


def well(request: Request) -> Any:
    if request.target == "/health":
        return 200, {}
    return 200, MODELS if request.target == "/v1/models" else completion()


async def look(url: str, token: str | None = "t") -> Probe:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await probe_all(client, url, token, MODEL)


def probed(answer: Any) -> Probe:
    """`answer(request)` gives status and document; the probe of such a server."""

    async def behave(request: Request) -> None:
        status, document = answer(request)
        await request.answer(document, status=status)

    async def run() -> Probe:
        async with model_server(behave) as server:
            return await look(server.url)

    return asyncio.run(run())


def test_probe_all__a_good_server() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Any:
        asked.append(request)
        return well(request)

    assert probed(answer) == Probe(ok=True, detail="ok", context_length=4096)
    assert [request.target for request in asked] == [
        "/health",
        "/v1/models",
        "/v1/chat/completions",
    ]
    assert {request.headers["authorization"] for request in asked} == {"Bearer t"}
    # Several turns: a chat template that takes one message may still refuse the next.
    body = json.loads(asked[-1].body)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def only(target: str, status: int, document: Any) -> Any:
    """A server that is good but for one route."""
    return lambda request: (status, document) if request.target == target else well(request)


CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("answer", "expected", "words"),
    [
        pytest.param(only("/health", 404, {}), {"ok": True}, "ok", id="no-health-route"),
        pytest.param(only("/health", 503, {}), {}, "/health", id="loading"),
        pytest.param(only("/health", 401, {}), {"refused": True}, "token", id="token"),
        pytest.param(only("/v1/models", 403, {}), {"refused": True}, "token", id="token-later"),
        pytest.param(only("/v1/models", 404, {}), {}, "404", id="a-proxy-without-its-server"),
        pytest.param(only("/v1/models", 200, ["x"]), {}, "not a list", id="models-is-a-list"),
        pytest.param(only("/v1/models", 200, {"data": 3}), {}, "not a list", id="models-is-odd"),
        pytest.param(
            only("/v1/models", 200, {"data": [{"id": "other/model"}]}),
            {"wrong": True},
            "serves other/model, not demo/model",
            id="another-model",
        ),
        pytest.param(
            only("/v1/models", 200, {"data": []}), {"wrong": True}, "serves nothing", id="no-model"
        ),
        pytest.param(
            only(CHAT, 400, {"error": "chat template"}),
            {"wrong": True},
            "chat template",
            id="chat-template",
        ),
        pytest.param(only(CHAT, 500, {}), {}, "500", id="completion-fails"),
        pytest.param(only(CHAT, 200, {"choices": []}), {}, "without a choice", id="no-choice"),
        pytest.param(only(CHAT, 200, []), {}, "no chat completion", id="no-completion"),
        pytest.param(
            only("/v1/models", 200, {"data": [{"id": MODEL, "max_model_len": True}]}),
            {"ok": True, "context_length": None},
            "ok",
            id="odd-window",
        ),
    ],
)
def test_probe_all__what_it_finds(answer: Any, expected: dict[str, Any], words: str) -> None:
    probe = probed(answer)
    wanted = {"ok": False, "refused": False, "wrong": False, **expected}
    assert {name: getattr(probe, name) for name in wanted} == wanted
    assert words in probe.detail


def test_probe_completion__a_limit() -> None:
    async def behave(_: Request) -> None:
        await asyncio.sleep(30)

    async def run() -> Probe:
        async with model_server(behave) as server, httpx.AsyncClient(trust_env=False) as client:
            return await probe_completion(client, server.url, None, MODEL, limit=0.3)

    began = time.monotonic()
    probe = asyncio.run(run())
    assert not probe.ok
    assert "ReadTimeout" in probe.detail
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("url", ["not a url", "http://", "ftp://x/v1", "http://127.0.0.1:1/v1"])
def test_check_endpoint__no_traceback_for_a_wrong_address(url: str) -> None:
    with pytest.raises(NotStartedError, match="is not usable"):
        asyncio.run(check_endpoint(url, None, MODEL))


SLOW_SERVER = """
import http.server, json, sys, time
loaded = time.monotonic() + float(sys.argv[1])
exits = float(sys.argv[2])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = time.monotonic() > loaded
        body = json.dumps({"data": [{"id": "demo/model"}]}).encode()
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"choices": [{}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
if exits:
    import os, threading
    threading.Timer(exits, os._exit, [3]).start()
server.serve_forever()
"""


async def _probes_until(load: float, exits: float, enough: Any) -> list[Probe]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SLOW_SERVER, str(load), str(exits)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        probes: list[Probe] = []
        async with asyncio.timeout(10):
            while not (probes and enough(probes[-1])):
                probes.append(await look(f"http://127.0.0.1:{port}/v1"))
                await asyncio.sleep(0.05)
        return probes
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_probe_all__a_real_slow_server() -> None:
    probes = asyncio.run(_probes_until(0.5, 0, lambda probe: probe.ok))
    assert len(probes) > 2
    assert all("503" in probe.detail for probe in probes[:-1])


def test_probe_all__a_real_server_that_exits_early() -> None:
    probes = asyncio.run(_probes_until(60, 0.4, lambda probe: "503" not in probe.detail))
    assert not probes[-1].ok
    assert "/health" in probes[-1].detail


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://a:1/v1", "http://a:1"),
        ("http://a:1/v1/", "http://a:1"),
        ("http://a:1", "http://a:1"),
        ("http://a/proxy/v1", "http://a/proxy"),
    ],
)
def test_server_root(base_url: str, root: str) -> None:
    assert server_root(base_url) == root
