"""What every test may rely on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A shell that starts the suite in the background makes SIGINT ignored, here and in every process
# that a test starts; several tests are about what SIGINT does.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A red build means that something was changed: no deadline that a busy machine misses, and the
# same examples each time.
settings.register_profile("the same everywhere", deadline=None, derandomize=True)
settings.load_profile("the same everywhere")


@pytest.fixture(autouse=True)
def _hub_client_as_it_comes() -> Iterator[None]:
    """The Hub client's patience is a setting of the whole process: no test hands its own on."""
    yield
    if "tbh_action.server.hub_client" not in sys.modules:
        return
    from huggingface_hub.utils import _http

    if _http._GLOBAL_CLIENT_FACTORY is not _http.default_client_factory:
        _http.set_client_factory(_http.default_client_factory)
