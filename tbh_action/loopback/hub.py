"""The loopback Hub: one application, its parts by module.

Each part is a module with a `routes(hub)` (`jobs_api`, `proxy`, `admin`); a new one is added to
`_PARTS`. Every call goes through `Hub.answer`, which is where faults happen.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from tbh_action.errors import SpecError
from tbh_action.loopback import admin, jobs_api, proxy, repos
from tbh_action.loopback.board import Board
from tbh_action.loopback.faults import Action, Call, Faults
from tbh_action.loopback.jobs import Job, end_by_fault
from tbh_action.loopback.settings import Settings
from tbh_action.loopback.wire import CallLog, Cut, Torn, error, record, swallow, unless_gone

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PARTS: Final[tuple[ModuleType, ...]] = (jobs_api, proxy, admin, repos)

Work = Callable[[], Coroutine[Any, Any, Response]]


class Hub:
    """What the parts share."""

    def __init__(self, settings: Settings, folder: Path, base_url: str) -> None:
        self.settings = settings
        self.folder = folder
        self.base_url = base_url
        self.faults = Faults(seed=settings.seed)
        self.board = Board(settings, folder, self.decide)
        self.board.environment = client_environment(base_url, settings.token, folder)
        self.proxy = proxy.Proxy()
        self.revoked = False
        routes = [route for part in _PARTS for route in part.routes(self)]
        self.log = CallLog(Starlette(routes=routes))

    @property
    def app(self) -> ASGIApp:
        return self.log

    def decide(self, call: Call) -> Action | None:
        """What the fault rules say about a call."""
        alive = self.board.sandboxes_alive
        return self.faults.decide(replace(call, concurrency=alive), now=time.time())

    def refusal(self, request: Request) -> Response | None:
        """The answer to a call without a valid token, as the Hub gives it."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        known = secrets.compare_digest(token.strip().encode(), self.settings.token.encode())
        if scheme.lower() == "bearer" and known and not self.revoked:
            return None
        return error(401, "Invalid username or password.")

    async def answer(self, request: Request, call: Call, work: Work) -> Response:
        """The answer to `call`: `work`'s, unless the caller is refused or a fault rule hits."""
        record(request, call=call.name, job=call.job or None, task=call.task or None)
        await request.body()
        action = self.decide(call)
        if action is not None:
            record(request, fault=action.label)
            self.revoked = self.revoked or action.revoke
        refused = self.refusal(request)
        if refused is not None:
            return refused
        if action is None:
            return await unless_gone(request, work()) or Cut()
        return await unless_gone(request, self._badly(request, call, action, work)) or Cut()

    async def _badly(self, request: Request, call: Call, action: Action, work: Work) -> Response:
        if action.delay:
            await asyncio.sleep(action.delay)
        if action.hang:
            await asyncio.Event().wait()
        if action.job is not None and (job := self.board.jobs.get(call.job)):
            end_by_fault(job, action)
        answered = bad_answer(action)
        if action.drop == "before" or (action.status and not action.after):
            return answered
        response = await work()
        if action.drop == "after" or action.status:
            await swallow(response, request)
            return answered
        return Torn(response) if action.drop == "middle" else response

    def document(self, job: Job) -> dict[str, Any]:
        """A job as the Jobs API describes it."""
        user = self.settings.user
        owner = {"type": "user", "id": self.settings.user_id, "name": user}
        return job.document(self.base_url, owner)


def client_environment(url: str, token: str, folder: Path) -> dict[str, str]:
    """The environment in which the real clients (huggingface_hub, Harbor, git) use this Hub."""
    return {
        "HF_ENDPOINT": url,
        "HF_TOKEN": token,
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # This Hub speaks the LFS protocol for large files, not Xet's.
        "HF_HUB_DISABLE_XET": "1",
        "HARBOR_TELEMETRY": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # Harbor fetches tasks with git, which knows no HF_ENDPOINT.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{(folder / 'git').as_uri()}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://huggingface.co/",
    }


def bad_answer(action: Action) -> Response:
    """The answer that a fault rule gives; without a status, none."""
    if action.status is None:
        return Cut()
    body = {"error": "fault on demand"} if action.body is None else action.body
    if isinstance(body, str):
        answer = Response(body, status_code=action.status, media_type="text/plain")
    else:
        answer = JSONResponse(body, status_code=action.status)
        if isinstance(body, dict) and isinstance(body.get("error"), str):
            answer.headers["X-Error-Message"] = body["error"]
    answer.headers.update(action.headers)
    return answer


def check_host(host: str) -> None:
    """Raises:
    SpecError: the address is not a loopback one: this server starts processes for anyone who
        knows its token.
    """
    if host not in LOOPBACK:
        raise SpecError(f"The loopback Hub binds to 127.0.0.1 only, not to {host}.")


def listen(port: int = 0) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes a free one."""
    # Without its protocol named, asyncio does not switch Nagle's algorithm off: 40 ms a call.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


async def serve(
    settings: Settings,
    folder: Path,
    listener: socket.socket,
    *,
    faults: Sequence[dict[str, Any]],
    ready: Callable[[str], None],
    until: Awaitable[object],
) -> None:
    """Serves until `until` ends or a signal comes; then ends all jobs and their processes."""
    host, port = listener.getsockname()[:2]
    check_host(host)
    hub = Hub(settings, folder, f"http://{host}:{port}")
    hub.faults.set(faults, now=time.time())
    config = uvicorn.Config(
        hub.app,
        log_level="error",
        lifespan="off",
        access_log=False,
        date_header=False,  # uvicorn's own may be two seconds old: `CallLog` writes a true one
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stop = asyncio.ensure_future(until)
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 (uvicorn has no event)
            await asyncio.sleep(0.005)
        ready(hub.base_url)
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        await hub.board.close()
        await hub.proxy.close()
        server.should_exit = True
        await serving
