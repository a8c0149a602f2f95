"""Durations as people write them."""

from __future__ import annotations

import pytest

from tbh_action.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4h", 14_400),
        ("5h30m", 19_800),
        ("5h 30m", 19_800),
        (" 4H ", 14_400),
        ("90s", 90),
        ("2d", 172_800),
        ("600", 600),
        ("1.5h", 5_400),
        ("1d2h3m4s", 93_784),
        (600, 600),
        (0.5, 0.5),
    ],
)
def test_parse_duration__what_people_write(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "4 hours",
        "h",
        "-1",
        "-4h",
        "4h-",
        "1e3",
        "0",
        "0s",
        0,
        "366d",
        "nan",
        "inf",
        float("nan"),
        float("inf"),
        None,
        [4],
        {"h": 4},
    ],
)
def test_parse_duration__what_is_none(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (8.34, "8.3s"),
        (59.4, "59s"),
        (60, "1m"),
        (724, "12m 4s"),
        (3_600, "1h"),
        (11_160, "3h 6m"),
        (3_599.6, "1h"),
        (93_784, "1d 2h"),
    ],
)
def test_format_duration__two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
