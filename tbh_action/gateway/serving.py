"""The gateway on a loopback port, inside the event loop that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn

from tbh_action.gateway.app import Gateway

# Longer than any client keeps an idle connection: it is never us who closes one that is in use.
_KEEPALIVE_SECONDS: Final = 3600


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: signals are the run's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def loopback_listener() -> socket.socket:
    """A socket on 127.0.0.1 and a free port, for uvicorn's `sockets`.

    The protocol is named, since asyncio sets TCP_NODELAY only on sockets that name it (those of
    `socket.create_server` do not): without it each answer waits 40 ms for a delayed ACK.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    return listener


@contextlib.asynccontextmanager
async def serve(gateway: Gateway) -> AsyncIterator[str]:
    """Serves `gateway` on 127.0.0.1 and a free port; yields its base URL, which ends in `/v1`."""
    listener = loopback_listener()
    port = listener.getsockname()[1]
    server = _Server(
        uvicorn.Config(
            gateway.app,
            lifespan="off",
            ws="none",
            log_config=None,
            # A cut answer is passed on as a cut answer; uvicorn calls that an error of ours.
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEPALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 (uvicorn has only this flag)
            await asyncio.sleep(0.005)
        if task.done():
            task.result()
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.should_exit = True
        await task
        await gateway.aclose()
