"""Reading JSON that somebody else wrote: bounded, never through a link, never a crash.

Everything here was written by a harness, a model or a task, so every value is taken only when it
has the type that it should have.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
MAX_COUNT: Final = 10**15


class UnreadableError(Exception):
    """The document cannot be used; the message says why in words that end a sentence."""


class AbsentError(UnreadableError):
    """There is no such file."""


def read_bytes(path: Path | str, limit: int = MAX_RESULT_BYTES) -> bytes:
    """The content of a regular file of at most `limit` bytes; links are not followed.

    Raises:
        AbsentError: there is no file.
        UnreadableError: a link, a device, too large, or an error of the system.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise AbsentError(f"{_name(path)} is missing") from error
    except OSError as error:
        if os.path.islink(path):  # noqa: PTH114
            raise UnreadableError(
                f"{_name(path)} is a symbolic link, which is not followed"
            ) from error
        raise UnreadableError(f"{_name(path)} cannot be opened ({error.strerror})") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{_name(path)} is no regular file")
        if status.st_size > limit:
            raise UnreadableError(
                f"{_name(path)} is larger than {limit:,} bytes ({status.st_size:,})"
            )
        return _read_all(handle, status.st_size)
    except OSError as error:
        raise UnreadableError(f"{_name(path)} cannot be read ({error.strerror})") from error
    finally:
        os.close(handle)


def _read_all(handle: int, size: int) -> bytes:
    """The first `size` bytes: one call for almost every file (a file object costs three)."""
    data = os.read(handle, size)
    while len(data) < size and (more := os.read(handle, size - len(data))):
        data += more
    return data


def _name(path: Path | str) -> str:
    return os.path.basename(path)  # noqa: PTH119


def parse_object(
    data: bytes, name: str, *, parse_constant: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """The JSON object in `data` (a byte order mark is allowed).

    `parse_constant` is given NaN and the infinities, as `json.loads` does; it may raise ValueError.

    Raises:
        UnreadableError: not UTF-8, not JSON, or not an object.
    """
    if not data.strip():
        raise UnreadableError(f"{name} is empty")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        document = _fast(data) if parse_constant is None else None
        if document is None:
            document = json.loads(data.decode(), parse_constant=parse_constant)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{name} is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{name} is no JSON ({error.msg}, character {error.pos})") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{name} is no JSON that can be read ({error})") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"{name} holds no JSON object")
    return document


def _fast(data: bytes) -> Any:
    """What pydantic's parser makes of `data`, in half the time of the standard one; None where it
    sees a fault: it refuses lone surrogates, and its words are not for people."""
    try:
        return from_json(data)
    except ValueError:
        return None


def read_object(path: Path | str, limit: int = MAX_RESULT_BYTES) -> dict[str, Any]:
    """`parse_object` of the file at `path`."""
    return parse_object(read_bytes(path, limit), _name(path))


def mapping(value: Any) -> dict[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def clean(value: str) -> str:
    """`value` as text that every encoder takes: lone surrogates become visible escapes."""
    if value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> Any:
    """A JSON value as every encoder takes it: clean text, None for numbers that are not finite."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def text(value: Any, limit: int) -> str | None:
    """`value` when it is text, cleaned and cut to `limit` characters, else None."""
    if not isinstance(value, str):
        return None
    if len(value) <= limit:
        return clean(value)
    return f"{clean(value[:limit])}… ({len(value) - limit:,} more characters)"


def instant(value: Any) -> datetime | None:
    """`value` as an instant in UTC; text without a zone means UTC; None when it is no time."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is UTC:  # nearly always
            return parsed
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def iso(value: datetime | None) -> str | None:
    """An instant as every file of ours writes it: ISO 8601, UTC, `Z`."""
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def count(value: Any) -> int | None:
    """`value` when it is a whole, believable, non-negative number, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    return None


def amount(value: Any) -> float | None:
    """`value` when it is a finite, non-negative number (money), else None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= MAX_COUNT:  # NaN compares as false
            return None
        return float(value)
    return None


def finite(value: Any) -> float | None:
    """`value` as a finite float when it is a number (a boolean is none), else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
