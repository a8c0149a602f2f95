"""Whether a call that got no answer may be made again, and when. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_LONGEST_PAUSE: Final = 10.0
# A proxy that gave up on a slow answer will give up again, and each try costs the server the work.
_TRIES_AFTER_504: Final = 2
RETRIABLE_STATUSES: Final = frozenset({429, 502, 503, 504})

# Asking a model again costs time, never a second effect: these may be repeated although the server
# may already have worked on them. Anything else (an upload, a batch) only when it surely has not.
_REPEATABLE_POSTS: Final = frozenset(
    {"completions", "responses", "messages", "embeddings", "rerank", "score", "tokenize"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """Why an attempt gave no answer that could be passed on.

    `refused`: no connection, nothing was sent. `reset`: the connection broke after that. `silent`:
    no answer within the caller's patience. `status`: an answer that says "not now".
    """

    kind: Literal["refused", "reset", "silent", "status"]
    words: str
    status: int = 0
    retry_after: float | None = None


def repeatable(method: str, path: str) -> bool:
    """Does a second sending of this request have no second effect?"""
    if method in ("GET", "HEAD", "OPTIONS"):
        return True
    return method == "POST" and path.rstrip("/").rpartition("/")[2] in _REPEATABLE_POSTS


def pause_before_retry(
    trouble: Trouble, *, tries: int, left: float, may_repeat: bool, others: bool
) -> float | None:
    """Seconds to wait before the next attempt; None when the trouble is the caller's to know.

    `tries` attempts were made (at least one), `left` seconds of the caller's patience remain,
    `others`: another server could take the call now.
    """
    sent = trouble.kind == "reset" or trouble.status == 504
    if trouble.kind == "silent" or (sent and not may_repeat):
        return None
    if trouble.kind == "status" and trouble.status not in RETRIABLE_STATUSES:
        return None
    if trouble.status == 504 and tries > _TRIES_AFTER_504:
        return None
    backoff = min(_LONGEST_PAUSE, 0.25 * 2.0 ** min(tries, 10))
    if trouble.retry_after is not None and (trouble.status == 429 or not others):
        # A server that says "in 0 seconds" forever must not be asked without a pause.
        pause = max(backoff, trouble.retry_after)
    elif tries == 1 and (trouble.kind == "reset" or others):
        # Most often a kept connection that the server had just closed: at once, on a new one.
        pause = 0.0
    else:
        pause = backoff
    return pause if pause < left else None
