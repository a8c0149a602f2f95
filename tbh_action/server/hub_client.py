"""The Hub's client with an end to its patience: by itself it waits for an answer for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

# Seconds without a byte from the Hub, and for a connection.
READ_TIMEOUT: Final = 30.0
CONNECT_TIMEOUT: Final = 10.0


def limit_waiting(read: float = READ_TIMEOUT) -> None:
    """From now on no call of this process's Hub client waits longer than `read` seconds for a sign
    of the Hub. Calls with time limits of their own keep them."""
    import httpx2
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    limits = httpx2.Timeout(read, connect=CONNECT_TIMEOUT).as_dict()

    def end_patience(request: httpx2.Request) -> None:
        # Some of the client's methods ask for no limit in so many words (list_jobs, model_info).
        if (request.extensions.get("timeout") or {}).get("read") is None:
            request.extensions["timeout"] = limits

    def client() -> httpx2.Client:
        made = default_client_factory()
        hooks = made.event_hooks
        made.event_hooks = hooks | {"request": [*hooks["request"], end_patience]}
        return made

    set_client_factory(client)
