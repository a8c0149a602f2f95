"""Which server gets a call: always the same one for one trial, as long as it lives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

SESSION_HEADER: Final = "x-tbh-session"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """A server that calls may go to. `url` ends in `/v1`; `name` is its job's id."""

    name: str
    url: str


def trial_of(session: str) -> str:
    """The trial's name in an agent's session id: `fix-git__Ab3dE6g__agent` → `fix-git__Ab3dE6g`.

    Harbor's terminus-2 appends more for its helpers (`…__agent-summarization-1-summary`).
    """
    return session.rpartition("__agent")[0] or session


def choose(
    upstreams: Sequence[Upstream],
    trial: str,
    *,
    down: Collection[str],
    in_flight: Mapping[str, int],
) -> Upstream:
    """The server for a call of `trial`; one that is not `down`, unless all are.

    Rendezvous hashing: when a server leaves or returns, only its own trials move, so all the others
    keep their prefix cache. A call without a trial goes where the fewest calls are.

    Raises:
        ValueError: there is no server.
    """
    candidates = [upstream for upstream in upstreams if upstream.name not in down] or upstreams
    if trial:
        return max(candidates, key=lambda upstream: _weight(trial, upstream.name))
    return min(candidates, key=lambda upstream: in_flight.get(upstream.name, 0))


def _weight(trial: str, name: str) -> bytes:
    return blake2b(f"{trial}\0{name}".encode(), digest_size=8).digest()
