"""A recipe as TOML text (the standard library reads TOML, but does not write it)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_WIDTH = 100


def dump(document: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """`document` as TOML: its plain values first, then a table for each mapping.

    `comments`: key path (`server.flavor`, or `` for the top) → text written above that key. None
    values are left out, as TOML has no null.

    Raises:
        TypeError: a value that TOML cannot hold.
    """
    said = comments or {}
    lines = _comment(said.get("", ""))
    lines += _table(document, "", said)
    return "\n".join(lines).rstrip() + "\n"


def _table(table: Mapping[str, Any], prefix: str, said: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    subtables = []
    for key, value in table.items():
        path = f"{prefix}{key}"
        if value is None:
            continue
        if isinstance(value, Mapping) and not prefix:
            subtables.append((key, value))
            continue
        lines += _comment(said.get(path, ""))
        lines.append(_pair(key, value))
    for key, value in subtables:
        lines += ["", *_comment(said.get(key, "")), f"[{_key(key)}]"]
        lines += _table(value, f"{key}.", said)
    return lines


def _comment(text: str) -> list[str]:
    return [f"# {_printable(line)}".rstrip() for line in text.splitlines()]


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line)


def _pair(key: str, value: Any) -> str:
    line = f"{_key(key)} = {_value(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list | tuple):
        return line
    return "\n".join([f"{_key(key)} = [", *(f"  {row}," for row in _rows(value)), "]"])


def _rows(values: list[Any] | tuple[Any, ...]) -> list[str]:
    """A flag and its value stand on one line, as a person would write a command."""
    rows: list[list[str]] = []
    for value in values:
        text = _value(value)
        starts = str(value).startswith("-")
        if not rows or starts or (len(rows[-1]) == 2 and rows[-1][0].startswith('"-')):
            rows.append([text])
        else:
            rows[-1].append(text)
    return [", ".join(row) for row in rows]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError("TOML text of ours holds no NaN and no infinity")
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    raise TypeError(f"TOML cannot hold {value!r}")


def _text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
