"""Model servers on loopback that behave as badly as a test wants, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 60},
}


@dataclass(kw_only=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    async def answer(
        self, document: Any = None, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(completion() if document is None else document).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        given = {"Content-Type": "application/json", **(headers or {})}
        lines += [f"{name}: {value}" for name, value in given.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def reset(self) -> None:
        """Ends the connection with an RST, as a killed server does."""
        self.writer.transport.abort()


type Behaviour = Callable[[Request], Awaitable[None]]


def completion(text: str = "ready") -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
        "usage": USAGE,
    }


@dataclass(kw_only=True)
class ModelServer:
    """`behave` answers each request; it may be replaced at any time."""

    behave: Behaviour
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    left: int = 0
    _server: asyncio.Server | None = None
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """As kill -9: the port is closed, each connection is reset."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                request = await _read(reader, writer)
                self.requests.append(request)
                behaving = asyncio.ensure_future(self.behave(request))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({behaving, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not behaving.done():
                    self.left += 1
                    behaving.cancel()
                    return
                leaving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await leaving
                await behaving
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method=method, target=target, headers=headers, body=body, writer=writer)


@contextlib.asynccontextmanager
async def model_server(behave: Behaviour | None = None) -> AsyncIterator[ModelServer]:
    async def well(request: Request) -> None:
        await request.answer()

    server = ModelServer(behave=behave or well)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
        # The handlers end in this loop's next rounds.
        await asyncio.sleep(0.02)
