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


@contextlib.asynccontextmanager
async def serve(gateway: Gateway) -> AsyncIterator[str]:
    """Serves `gateway` on 127.0.0.1 and a free port; yields its base URL, which ends in `/v1`."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
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
