"""Behind the scenes of the loopback Hub, under `/_admin`, with a key of its own.

GET `state`, `jobs`, `log?since=N`, `rules` · POST `rules` (a list replaces, `{"add": [...]}` adds)
· POST `kill/<job>` (SIGKILL to its process) · POST `token` (`{"revoked": true}`) · POST `reset`.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tbh_action.errors import SpecError
from tbh_action.loopback.wire import error

if TYPE_CHECKING:
    from tbh_action.loopback.hub import Hub

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def routes(hub: Hub) -> list[Route]:
    """The routes of this part."""
    admin = Admin(hub)
    table: list[tuple[str, Endpoint, list[str]]] = [
        ("state", admin.state, ["GET"]),
        ("jobs", admin.jobs, ["GET"]),
        ("log", admin.log, ["GET"]),
        ("rules", admin.rules, ["GET", "POST"]),
        ("kill/{job}", admin.kill, ["POST"]),
        ("token", admin.token, ["POST"]),
        ("reset", admin.reset, ["POST"]),
    ]
    return [
        Route(f"/_admin/{path}", _guarded(hub, endpoint), methods=methods)
        for path, endpoint, methods in table
    ]


def _guarded(hub: Hub, endpoint: Endpoint) -> Endpoint:
    async def guarded(request: Request) -> Response:
        key = request.headers.get("X-Admin-Key", "")
        if not secrets.compare_digest(key.encode(), hub.settings.admin_key.encode()):
            return error(401, "wrong admin key")
        return await endpoint(request)

    return guarded


class Admin:
    """One method for each route."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def state(self, _: Request) -> Response:
        jobs = self._hub.board.jobs.values()
        now = time.time()
        return JSONResponse(
            {
                "stages": Counter(job.stage for job in jobs),
                "alive": {
                    "server": sum(not job.ended for job in jobs if job.kind == "server"),
                    "sandbox": self._hub.board.sandboxes_alive,
                },
                "usd": sum(job.usd(now) for job in jobs),
                "revoked": self._hub.revoked,
                "rules": self._hub.faults.to_json(),
                "calls": len(self._hub.log.calls),
            }
        )

    async def jobs(self, _: Request) -> Response:
        now = time.time()
        rows = [
            {
                **self._hub.document(job),
                "kind": job.kind,
                "task": job.task,
                "attempt": job.attempt,
                "usd": job.usd(now),
                "seconds": job.running_seconds(now),
                "logs": [line for _, line in job.logs],
            }
            for job in self._hub.board.jobs.values()
        ]
        return JSONResponse(rows)

    async def log(self, request: Request) -> Response:
        since = int(request.query_params.get("since", "0"))
        return JSONResponse([call for call in self._hub.log.calls if call["number"] > since])

    async def rules(self, request: Request) -> Response:
        faults = self._hub.faults
        if request.method == "POST":
            try:
                given = await request.json()
                if isinstance(given, list):
                    faults.set(given, now=time.time())
                else:
                    faults.add(given["add"], now=time.time())
            except (SpecError, ValueError, KeyError, TypeError, AttributeError) as problem:
                return error(400, str(problem))
        return JSONResponse(faults.to_json())

    async def kill(self, request: Request) -> Response:
        job = self._hub.board.jobs.get(request.path_params["job"])
        if job is None or job.process is None:
            return error(404, "no such job, or it has no process")
        job.process.kill()
        await self._hub.board.settle(job)
        return JSONResponse(self._hub.document(job))

    async def token(self, request: Request) -> Response:
        self._hub.revoked = bool((await request.json())["revoked"])
        return JSONResponse({"revoked": self._hub.revoked})

    async def reset(self, _: Request) -> Response:
        await self._hub.board.reset()
        await self._hub.proxy.close()
        self._hub.faults.set([], now=time.time())
        self._hub.revoked = False
        self._hub.log.calls.clear()
        return JSONResponse({})
