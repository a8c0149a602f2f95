"""The jobs proxy: passes requests on to the process behind a job's exposed port."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tbh_action.loopback.jobs import Job
from tbh_action.loopback.plays import task_of, text_of
from tbh_action.loopback.wire import error

if TYPE_CHECKING:
    from tbh_action.loopback.hub import Hub

_METHODS: Final = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
_SESSION_HEADERS: Final = ("X-Tbh-Session", "X-Session-ID")
_NOT_PASSED: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "transfer-encoding",
        "upgrade",
        "te",
        "host",
        "authorization",
        "date",
    )
)


def routes(hub: Hub) -> list[Route]:
    """The routes of this part."""

    async def endpoint(request: Request) -> Response:
        return await hub.proxy.handle(hub, request)

    return [
        Route("/proxy/{target}", endpoint, methods=_METHODS),
        Route("/proxy/{target}/{rest:path}", endpoint, methods=_METHODS),
    ]


class Proxy:
    """Passes requests on, with one pool of connections for each job."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def handle(self, hub: Hub, request: Request) -> Response:
        """One request to `/proxy/<job>--<port>.…/…`."""
        job_id, _, port = request.path_params["target"].partition(".")[0].partition("--")
        job = hub.board.jobs.get(job_id)
        if job is None or port not in map(str, job.ports):
            return hub.refusal(request) or error(404, "No such job or port.")
        rest = request.path_params.get("rest", "")
        body = await request.body()
        if job.kind == "sandbox":
            name = sandbox_call(rest)
            call = job.call(name, path=rest, command=command_of(name, body))
            job.last_used = time.time()
        else:
            name = model_call(rest)
            task = session_task(request, name, body)
            call = job.call(name, path=rest)
            call = replace(call, task=task, attempt=hub.board.attempts_of(task))

        async def work() -> Response:
            return await self._forward(job, request, rest, body)

        return await hub.answer(request, call, work)

    async def _forward(self, job: Job, request: Request, rest: str, body: bytes) -> Response:
        if job.stage != "RUNNING":
            await self._forget(job)
            return error(503, f"The job is not running ({job.stage}).")
        if job.process is None:
            return error(502, "The job does not answer.")
        url = f"http://job/{rest}"
        if request.url.query:
            url += f"?{request.url.query}"
        headers = [(key, value) for key, value in request.headers.items() if key not in _NOT_PASSED]
        client = self._client(job)
        try:
            passed = client.build_request(request.method, url, headers=headers, content=body)
            response = await client.send(passed, stream=True)
        except httpx.HTTPError as problem:
            return error(503 if job.ended else 502, f"The job does not answer ({problem}).")
        kept = {key: value for key, value in response.headers.items() if key not in _NOT_PASSED}
        return StreamingResponse(_stream(response), response.status_code, headers=kept)

    def _client(self, job: Job) -> httpx.AsyncClient:
        assert job.process is not None
        if job.id not in self._clients:
            transport = httpx.AsyncHTTPTransport(
                uds=str(job.process.socket),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
            )
            # A model may think for as long as it likes: the caller's patience counts, not ours.
            self._clients[job.id] = httpx.AsyncClient(
                transport=transport,
                timeout=httpx.Timeout(None),
                trust_env=False,
                verify=False,  # noqa: S501 (a Unix socket has no certificates)
            )
        return self._clients[job.id]

    async def _forget(self, job: Job) -> None:
        client = self._clients.pop(job.id, None)
        if client is not None:
            await client.aclose()


async def _stream(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    finally:
        await response.aclose()


def sandbox_call(rest: str) -> str:
    """A request to a sandbox by the name that fault rules use."""
    path = rest.removeprefix("v1/")
    if path.startswith("files/"):
        return f"sandbox.{path.removeprefix('files/')}"
    return f"sandbox.{path.partition('/')[0] or 'other'}"


def model_call(rest: str) -> str:
    """The same for a request to a model server."""
    known = {"health": "health", "v1/models": "models", "v1/chat/completions": "chat"}
    return f"model.{known.get(rest, 'other')}"


def command_of(name: str, body: bytes) -> str:
    """The command of an exec, as one string."""
    if name not in ("sandbox.exec", "sandbox.processes") or not body:
        return ""
    try:
        command = json.loads(body)["cmd"]
    except (ValueError, KeyError, TypeError):
        return ""
    return command if isinstance(command, str) else " ".join(map(str, command))


def session_task(request: Request, name: str, body: bytes) -> str:
    """The task that a model call is for: from the agent's session header (`<trial>__agent`), else
    from the instruction in its first message."""
    for header in _SESSION_HEADERS:
        trial = request.headers.get(header, "").removesuffix("__agent")
        if "__" in trial:
            return trial.rsplit("__", 1)[0]
    if name != "model.chat":
        return ""
    try:
        messages: list[dict[str, Any]] = json.loads(body)["messages"]
        return task_of("\n".join(text_of(message) for message in messages[:2]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
