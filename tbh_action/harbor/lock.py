"""A job's lock.json, read in a stream: it holds kilobytes for each planned trial.

Only the head and each trial's `task` are kept, so a lock of any size costs little memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tbh_action.harbor.documents import AbsentError, UnreadableError, mapping, parse_object, plain
from tbh_action.harbor.trial import MAX_NAME

_CHUNK: Final = 1 << 18
# One trial's entry, and all that stands before the first one.
_MAX_ENTRY: Final = 32 * 1024 * 1024
_TRIALS: Final = re.compile(r'"trials"\s*:\s*\[')
_GAP: Final = re.compile(r"[\s,]*")
_DECODER: Final = json.JSONDecoder()
_POLICY: Final = re.compile(r'"override_error_policy"\s*:\s*(?=\{)')


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLock:
    """`harbor` says which Harbor wrote it; `tasks` has the task of each planned trial."""

    harbor: dict[str, Any]
    tasks: tuple[dict[str, Any], ...]


def read_lock(path: Path) -> JobLock:
    """The lock at `path`; entries without a usable name are left out.

    Raises:
        AbsentError: there is none.
        UnreadableError: it is no lock; the message says why.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise AbsentError("lock.json is missing") from error
    except OSError as error:
        raise UnreadableError(f"lock.json cannot be opened ({error.strerror})") from error
    with os.fdopen(handle, encoding="utf-8") as file:
        try:
            return _read(file)
        except (ValueError, RecursionError, OSError) as error:
            raise UnreadableError(f"lock.json cannot be read ({error})") from error


def _read(file: IO[str]) -> JobLock:
    head = file.read(_CHUNK)
    while (found := _TRIALS.search(head)) is None:
        more = file.read(_CHUNK)
        if not more or len(head) > _MAX_ENTRY:
            raise UnreadableError("lock.json has no list of trials")
        head += more
    start = parse_object(f"{head[: found.end()]}]}}".encode(), "lock.json")
    tasks: dict[str, dict[str, Any]] = {}
    planned = []
    for entry in _entries(file, head[found.end() :]):
        said = mapping(mapping(entry).get("task"))
        key = json.dumps(said)
        if key not in tasks:  # Attempts at one task share one object.
            tasks[key] = plain(said)
        name = tasks[key].get("name")
        if isinstance(name, str) and 0 < len(name) <= MAX_NAME:
            planned.append(tasks[key])
    return JobLock(harbor=plain(mapping(start.get("harbor"))), tasks=tuple(planned))


def _entries(file: IO[str], buffer: str) -> Iterator[Any]:
    """The list's values, up to its end; the file is read as far as they need it."""
    place = 0
    key = policy = ""
    while True:
        gap = _GAP.match(buffer, place)
        place = gap.end() if gap else place
        if buffer[place : place + 1] == "]":
            return
        try:
            value, end = _DECODER.raw_decode(buffer, place)
        except json.JSONDecodeError as error:
            more = file.read(_CHUNK)
            if not more or len(buffer) - place > _MAX_ENTRY:
                raise UnreadableError("lock.json ends too early, or is no JSON") from error
            buffer, place = _without(key, policy, buffer[place:] + more), 0
            continue
        if not key and (found := _POLICY.search(buffer, place, end)):
            key = found.group()
            policy = buffer[found.end() : _DECODER.raw_decode(buffer, found.end())[1]]
            buffer, end = _without(key, policy, buffer[end:]), 0
        place = end
        yield value


def _without(key: str, policy: str, text: str) -> str:
    """`text` with nothing in `policy`, which is most of each entry and the same in all of them.

    A third of the time that a lock takes otherwise. No JSON string is changed: a quote in one is
    escaped, so it cannot hold `key`.
    """
    if not key:
        return text
    pieces = []
    place = 0
    while (found := text.find(key, place)) >= 0:
        start = found + len(key)
        pieces.append(text[place:start])
        place = start
        if text.startswith(policy, start):
            pieces.append("{}")
            place += len(policy)
    return "".join([*pieces, text[place:]])
