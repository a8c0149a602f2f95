"""Durations as people write them: `4h`, `5h30m`, `90s`, `2d`, `600`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# The two largest units of a duration, with their seconds.
_PAIRS: Final = (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1))
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def parse_duration(text: object) -> float:
    """Seconds. A bare number is seconds.

    Raises:
        ValueError: not a duration, or not above zero.
    """
    if isinstance(text, int | float):
        seconds = float(text)
    else:
        cleaned = str(text).strip().lower().replace(" ", "")
        if re.fullmatch(r"\d+(\.\d+)?", cleaned):
            seconds = float(cleaned)
        elif cleaned and re.fullmatch(rf"(?:{_PART.pattern})+", cleaned):
            parts = _PART.findall(cleaned)
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        else:
            raise ValueError(f"{text!r} is not a duration; write it like 4h, 5h30m, 90s or 600")
    if not 0 < seconds < 86_400 * 366:
        raise ValueError(f"{text!r} is not a duration above zero and below a year")
    return seconds


def format_duration(seconds: float) -> str:
    """The two largest units, for people: `3h 6m`, `12m 4s`, `8.3s`."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    whole = round(seconds)
    for big, size, small, sub in _PAIRS:
        if whole >= size:
            rest = whole % size // sub
            return f"{whole // size}{big} {rest}{small}" if rest else f"{whole // size}{big}"
    return f"{whole}s"
