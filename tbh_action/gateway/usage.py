"""Tokens that an answer says it took: from a whole JSON answer, or from a stream's usage events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

# A line of a stream that is longer holds no usage that is worth its memory.
_LONGEST_LINE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens of one answer. `cached` is a part of `input`, never to be added to it."""

    input: int
    cached: int
    output: int


def usage_in(document: Any) -> Usage | None:
    """The usage of an answer or of a stream's event; None when it says none.

    Chat completions say `prompt_tokens`/`completion_tokens`, responses `input_tokens`/
    `output_tokens`; both count cached tokens in the first number. A responses stream wraps the
    answer in `response`.
    """
    if not isinstance(document, dict):
        return None
    usage = document.get("usage")
    if not isinstance(usage, dict):
        inner = document.get("response")
        return usage_in(inner) if isinstance(inner, dict) else None
    taken = _count(usage, "prompt_tokens", "input_tokens")
    made = _count(usage, "completion_tokens", "output_tokens")
    if taken is None and made is None:
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
    return Usage(input=taken or 0, cached=min(cached or 0, taken or 0), output=made or 0)


def usage_in_json(body: bytes) -> Usage | None:
    """The usage of a whole JSON answer; None when it says none or is no JSON."""
    # A look for the word first: parsing a large answer for nothing would delay other calls.
    if b'"usage"' not in body:
        return None
    try:
        return usage_in(json.loads(body))
    except (ValueError, RecursionError):
        return None


class StreamUsage:
    """Reads a stream of server-sent events as it passes, in bounded memory.

    The last usage counts: servers send it once at the end, or in each event as a running total.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the stream, cut anywhere."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        for line in lines:
            if line.startswith(b"data:"):
                self.usage = usage_in_json(line[5:]) or self.usage


def _count(values: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
