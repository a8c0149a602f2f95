"""A model call on its way: what the caller asked, and what it has been told so far."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

import httpx
from starlette.types import Receive, Scope, Send

from tbh_action.gateway.balance import SESSION_HEADER, trial_of
from tbh_action.gateway.usage import Usage

type Headers = list[tuple[bytes, bytes]]

# A call with a million tokens of text is a few megabytes; images make it tens.
LARGEST_BODY: Final = 256 << 20

# RFC 9110, 7.6.1: these belong to one connection. The names in `Connection` are added to them.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Ours to say, or about the body that we hold as a whole. Answers stay uncompressed so that their
# usage can be read as they pass.
_OURS: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"expect",
        b"accept-encoding",
        b"authorization",
        SESSION_HEADER.encode(),
    }
)


class TooLargeError(Exception):
    """The call's body is above `LARGEST_BODY`."""


@dataclass(kw_only=True, slots=True)
class Call:
    """One request of a caller, whole. Times are `time.monotonic()`.

    `path` is below `/v1`, as sent (percent-encoded). `waiting`: between two attempts, or before the
    first one.
    """

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    trial: str
    arrived: float = field(default_factory=time.monotonic)
    attempted: float = 0.0
    tries: int = 0
    waiting: bool = True

    def request(self, base_url: str, token: str | None, timeout: dict[str, float]) -> httpx.Request:
        """The call as sent to the server at `base_url`, with the server's token if it has one."""
        url = f"{base_url.rstrip('/')}{self.path}" + (f"?{self.query}" if self.query else "")
        headers = [*self.headers, (b"accept-encoding", b"identity")]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        return httpx.Request(
            self.method,
            url,
            headers=headers,
            content=self.body or None,
            extensions={"timeout": timeout},
        )


async def read_call(scope: Scope, receive: Receive) -> Call | None:
    """The whole call; None when the caller left before its end.

    Raises:
        TooLargeError: see `LARGEST_BODY`.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            raise TooLargeError(f"The call's body is above {LARGEST_BODY >> 20} MiB.")
        parts.append(part)
        if not message.get("more_body"):
            break
    headers: Headers = scope["headers"]
    session = header(headers, SESSION_HEADER.encode())
    return Call(
        method=scope["method"],
        path=path_below_v1(scope),
        query=scope["query_string"].decode("latin-1"),
        headers=end_to_end(headers, drop=_OURS),
        body=b"".join(parts),
        trial=trial_of(session.decode("latin-1")),
    )


def path_below_v1(scope: Scope) -> str:
    """`/chat/completions` for `/v1/chat/completions`, as it was sent."""
    raw: bytes = scope["raw_path"]
    return raw.decode("latin-1").removeprefix("/v1")


def climbs(path: str) -> bool:
    """Would this path, once a server has decoded it, leave `/v1`?"""
    return ".." in unquote(unquote(path)).replace("\\", "/").split("/")


def end_to_end(headers: Headers, *, drop: Iterable[bytes] = ()) -> Headers:
    """The headers that may be passed on (names in lower case), without those in `drop`."""
    listed = header(headers, b"connection").lower().split(b",")
    dropped = _HOP_BY_HOP | {name.strip() for name in listed} | set(drop)
    lowered = ((name.lower(), value) for name, value in headers)
    return [(name, value) for name, value in lowered if name not in dropped]


def header(headers: Headers, name: bytes) -> bytes:
    """The header's first value; empty when absent. `name` is in lower case."""
    return next((value for key, value in headers if key.lower() == name), b"")


class Answer:
    """What the caller has been told. Until `started`, another attempt can still be made."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.started = False
        self.finished = False
        self.usage: Usage | None = None
        # The server's last "not now", whole: what the caller is told when patience runs out.
        self.refusal: tuple[int, Headers, bytes] | None = None

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        # Set first: the caller may leave as soon as it has the last byte: no disconnect.
        self.finished = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [*headers, length])
        await self.end(body)

    async def error(self, status: int, message: str) -> None:
        """An error in the form that OpenAI's clients read."""
        document = {"error": {"message": message, "type": "tbh_gateway", "code": status}}
        headers = [(b"content-type", b"application/json")]
        await self.whole(status, headers, json.dumps(document).encode())
