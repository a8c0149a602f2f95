"""The Hub's client waits for no one for ever, whatever its methods ask for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from huggingface_hub import HfApi

from tbh_action.server.hub_client import limit_waiting


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.inspect_job(job_id="x", namespace="n"),
        lambda api: api.cancel_job(job_id="x", namespace="n"),
        lambda api: api.model_info("org/name"),
        lambda api: api.list_jobs_hardware(),
        lambda api: api.whoami(),
    ],
    ids=["inspect", "cancel", "model", "hardware", "whoami"],
)
def test_limit_waiting__silent_hub(silent: str, call: Callable[[HfApi], Any]) -> None:
    limit_waiting(0.3)
    with pytest.raises((httpx2.TimeoutException, OSError)):
        call(HfApi(endpoint=silent, token="hf_x"))
