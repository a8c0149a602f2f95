"""The wire below the routes: the log of every call, and the ways to answer a request badly."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG_LENGTH: Final = 200_000
ABORT: Final = "tbh.abort"
RECORD: Final = "tbh.record"


class CallLog:
    """Outermost part of the application: records each call when it arrives, and again when it is
    answered; gives the routes the connection's own `abort`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.calls: deque[dict[str, Any]] = deque(maxlen=_LOG_LENGTH)
        self._number = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        record: dict[str, Any] = {
            "at": time.time(),
            "method": scope["method"],
            "path": scope["path"],
            "status": None,
        }
        scope[RECORD] = record
        # uvicorn's `send` is a method of the object that holds the transport; there is no public
        # way to cut a connection.
        scope[ABORT] = send.__self__.transport.abort  # type: ignore[attr-defined]
        if not scope["path"].startswith("/_admin"):
            self._number += 1
            record["number"] = self._number
            self.calls.append(record)

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record["status"] = message["status"]
                # Clients end the replay of a log at the first line after this moment.
                date = (b"date", formatdate(usegmt=True).encode())
                message = {**message, "headers": [*message.get("headers", []), date]}
            await send(message)

        try:
            await self._app(scope, receive, recorded)
        finally:
            record["seconds"] = round(time.time() - record["at"], 4)
        return None


def record(request: Request, **fields: Any) -> None:
    """Adds to the call's entry in the log."""
    request.scope[RECORD].update(fields)


class Cut(Response):
    """No answer at all: the connection is cut."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await cut(scope)


class Torn(Response):
    """The beginning of another answer, then the connection is cut."""

    def __init__(self, whole: Response) -> None:
        super().__init__()
        self._whole = whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def half(message: Message) -> None:
            body = message.get("body", b"")
            if body:
                part = body[: max(1, len(body) // 2)]
                await send({**message, "body": part, "more_body": True})
                raise _HalfSentError
            await send(message)

        with contextlib.suppress(_HalfSentError):
            try:
                await self._whole(scope, receive, half)
            except BaseExceptionGroup as group:
                if group.subgroup(_HalfSentError) is None:
                    raise
        await asyncio.sleep(0.05)
        await cut(scope)


class _HalfSentError(Exception):
    pass


async def cut(scope: Scope) -> None:
    """Aborts the connection and waits until the server has noticed."""
    scope[RECORD]["status"] = 0
    scope[ABORT]()
    await asyncio.sleep(0.01)


async def swallow(response: Response, request: Request) -> None:
    """Carries an answer out without sending it: what it stands for has happened."""

    async def nowhere(_: Message) -> None:
        pass

    await response(request.scope, _never, nowhere)


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def gone(request: Request) -> None:
    """Waits until the caller has hung up. The request's body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unless_gone[T](request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` gives, or None when the caller hangs up first; then it is cancelled."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, watch):
            if not each.done():
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await each


def error(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """An error in the Hub's form: its words in the body and in the header that clients quote."""
    headers = {"X-Error-Message": text, **(headers or {})}
    return JSONResponse({"error": text}, status_code=status, headers=headers)
