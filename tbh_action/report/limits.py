"""Texts that fit: GitHub drops a summary that is too large, and refuses such a comment.

A template marks where a part begins (`part("All tasks")`). `fit` keeps the first part and as many
of the others, in order, as there is room for, and says by name what it left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tbh_action.escape import markdown_text, one_line

# https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
#   "Job summaries … limited to a maximum size of 1MiB" for each step, in bytes of UTF-8.
SUMMARY_BYTES: Final = 1_048_576
# The API answers 422 "Body is too long (maximum is 65536 characters)".
COMMENT_CHARACTERS: Final = 65_536

# A control character that `escape` takes out of every text: nothing foreign can mark a part.
_MARK: Final = "\x1e"
_PART: Final = re.compile(f"{_MARK}([^{_MARK}\n]*){_MARK}\n?")


def part(name: str) -> str:
    """The mark of a part that may be left out, to be put in front of it."""
    return f"{_MARK}{one_line(name)}{_MARK}"


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def fit_summary(text: str, *, where: str = "") -> str:
    """`text` with at most 1 MiB of UTF-8, its marks gone. `where` says where the rest is."""
    return fit(text, limit=SUMMARY_BYTES, size=utf8_bytes, where=where)


def fit_comment(text: str, *, where: str = "") -> str:
    """`text` with at most 65,536 characters, its marks gone. `where` says where the rest is.

    Counted in UTF-16 units, which is never less than what GitHub counts.
    """
    return fit(text, limit=COMMENT_CHARACTERS, size=utf16_units, where=where)


def utf16_units(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


def fit(text: str, *, limit: int, size: Callable[[str], int], where: str) -> str:
    """The final text, `size(result) <= limit` whatever `text` is."""
    pieces = _PART.split(text)
    head, parts = pieces[0], list(zip(pieces[1::2], pieces[2::2], strict=True))
    whole = head + "".join(body for _, body in parts)
    if size(whole) <= limit:
        return whole
    # Room for the longest notice that can become necessary.
    room = limit - size(_notice([name for name, _ in parts] or [_REST], where)) - size(head)
    if room < 0:
        return _cut_at_a_line(head, limit, size, where)
    kept, left_out = [head], []
    for name, body in parts:
        needed = size(body)
        if needed <= room:
            kept.append(body)
            room -= needed
        else:
            left_out.append(name)
    return "".join(kept) + _notice(left_out, where)


_REST: Final = "everything below"


def _notice(names: list[str], where: str) -> str:
    listed = ", ".join(markdown_text(name) for name in names)
    rest = f" {where}" if where else ""
    return f"\n\n> **Left out here, for size:** {listed}.{rest}\n"


def _cut_at_a_line(text: str, limit: int, size: Callable[[str], int], where: str) -> str:
    """As many whole lines of `text` as fit beside the notice; at worst a part of the notice."""
    notice = _notice([_REST], where)
    room = limit - size(notice)
    kept = []
    for line in text.splitlines(keepends=True):
        room -= size(line)
        if room < 0:
            break
        kept.append(line)
    result = "".join(kept) + notice
    while size(result) > limit:  # only a limit below the notice's own size leads here
        result = result[: len(result) // 2]
    return result
