"""The Hub's own routes: who am I, hardware, and the Jobs API."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tbh_action.loopback.faults import Call
from tbh_action.loopback.hardware import hardware, usd_per_second
from tbh_action.loopback.jobs import Job, iso
from tbh_action.loopback.wire import error

if TYPE_CHECKING:
    from tbh_action.loopback.hub import Hub

_KEEP_ALIVE: Final = 30.0
_MAX_TIMEOUT: Final = 7 * 24 * 3600


def routes(hub: Hub) -> list[Route]:
    """The routes of this part."""
    api = JobsApi(hub)
    one = "/api/jobs/{namespace}/{job}"
    return [
        Route("/api/whoami-v2", api.whoami),
        Route("/api/jobs/hardware", api.hardware),
        Route("/api/jobs/{namespace}", api.list, methods=["GET"]),
        Route("/api/jobs/{namespace}", api.create, methods=["POST"]),
        Route(one, api.inspect, methods=["GET"]),
        Route(f"{one}/cancel", api.cancel, methods=["POST"]),
        Route(f"{one}/labels", api.labels, methods=["PUT", "POST"]),
        Route(f"{one}/logs", api.logs, methods=["GET"]),
    ]


class JobsApi:
    """One method for each route."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def whoami(self, request: Request) -> Response:
        settings = self._hub.settings

        async def work() -> Response:
            return JSONResponse(
                {
                    "type": "user",
                    "id": settings.user_id,
                    "name": settings.user,
                    "fullname": settings.user,
                    "email": None,
                    "canPay": True,
                    "isPro": False,
                    "orgs": [{"type": "org", "id": org, "name": org} for org in settings.orgs],
                    "auth": {
                        "type": "access_token",
                        "accessToken": {"displayName": "loopback", "role": "write"},
                    },
                }
            )

        return await self._hub.answer(request, Call(name="whoami", path=request.url.path), work)

    async def hardware(self, request: Request) -> Response:
        async def work() -> Response:
            return JSONResponse(hardware())

        call = Call(name="jobs.hardware", path=request.url.path)
        return await self._hub.answer(request, call, work)

    async def create(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
            job = self._hub.board.announce(request.path_params["namespace"], body)
        except (ValueError, AttributeError, TypeError):
            return error(400, "The body is not a job.")

        async def work() -> Response:
            refused = self._not_to_be_created(request, body)
            if refused is not None:
                return refused
            created = self._hub.board.create(request.path_params["namespace"], body)
            request.scope["tbh.record"]["job"] = created.id
            return JSONResponse(self._hub.document(created))

        call = job.call("jobs.create", path=request.url.path)
        response = await self._hub.answer(request, call, work)
        # The job that was announced was never made: its id must not stand in the log.
        entry = request.scope["tbh.record"]
        entry["job"] = None if entry["job"] == job.id else entry["job"]
        return response

    async def list(self, request: Request) -> Response:
        query = request.query_params
        stages = {stage.upper() for stage in query.getlist("stage")}
        labels = [label.partition("=")[::2] for label in query.getlist("label")]

        async def work() -> Response:
            found = [
                self._hub.document(job)
                for job in reversed(self._hub.board.jobs.values())
                if job.namespace == request.path_params["namespace"]
                and (not stages or job.stage in stages)
                and all(job.labels.get(key) == value for key, value in labels)
            ]
            return self._foreign(request) or JSONResponse(found)

        call = Call(name="jobs.list", path=request.url.path, labels=dict(labels))
        return await self._hub.answer(request, call, work)

    async def inspect(self, request: Request) -> Response:
        return await self._about(request, "jobs.inspect", lambda _: None)

    async def cancel(self, request: Request) -> Response:
        return await self._about(request, "jobs.cancel", lambda job: job.finish("CANCELED"))

    async def labels(self, request: Request) -> Response:
        body = json.loads(await request.body() or b"{}")

        def change(job: Job) -> None:
            reserved = {key: job.labels[key] for key in job.labels if key.startswith("hf-sandbox")}
            job.labels = {**dict(body.get("labels") or {}), **reserved}

        return await self._about(request, "jobs.labels", change)

    async def logs(self, request: Request) -> Response:
        job = self._hub.board.jobs.get(request.path_params["job"])
        if job is None:
            return error(404, "Job not found")
        tail = int(request.query_params.get("tail", "0") or 0)

        async def work() -> Response:
            return StreamingResponse(follow(job, tail), media_type="text/event-stream")

        call = job.call("jobs.logs", path=request.url.path)
        return await self._hub.answer(request, call, work)

    async def _about(self, request: Request, name: str, change: Any) -> Response:
        """A call about one job: changes it, then describes it."""
        path = request.path_params
        job = self._hub.board.jobs.get(path["job"])
        known = job is not None and job.namespace == path["namespace"]

        async def work() -> Response:
            if job is None or not known:
                return error(404, "Job not found")
            change(job)
            return JSONResponse(self._hub.document(job))

        call = job.call(name, path=request.url.path) if job and known else Call(name=name)
        return await self._hub.answer(request, call, work)

    def _foreign(self, request: Request) -> Response | None:
        """The answer for a namespace that the token may not use."""
        namespace = request.path_params["namespace"]
        settings = self._hub.settings
        if namespace in (settings.user, *settings.orgs):
            return None
        return error(403, f"You don't have the rights to use jobs in the namespace {namespace}.")

    def _not_to_be_created(self, request: Request, body: dict[str, Any]) -> Response | None:
        foreign = self._foreign(request)
        if foreign is not None:
            return foreign
        if not body.get("command") or not (body.get("dockerImage") or body.get("spaceId")):
            return error(400, "A job needs an image and a command.")
        flavor = str(body.get("flavor", "cpu-basic"))
        try:
            usd_per_second(flavor)
        except KeyError:
            return error(400, f"Invalid flavor: {flavor}")
        if not 0 < float(body.get("timeoutSeconds") or 1) <= _MAX_TIMEOUT:
            return error(400, "Invalid timeoutSeconds")
        return None


async def follow(job: Job, tail: int) -> AsyncIterator[str]:
    """The job's log as server-sent events: what there is, then what comes, until it ends."""
    sent = max(0, len(job.logs) - tail) if tail else 0
    while True:
        changed = job.changed
        while sent < len(job.logs):
            at, line = job.logs[sent]
            sent += 1
            yield f"data: {json.dumps({'timestamp': iso(at), 'data': line})}\n\n"
        if job.ended and time.time() - (job.finished_at or 0) > 0.2:
            return
        try:
            await asyncio.wait_for(changed.wait(), 0.2 if job.ended else _KEEP_ALIVE)
        except TimeoutError:
            yield ": keep-alive\n\n"
