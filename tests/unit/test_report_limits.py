from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.report.limits import (
    COMMENT_CHARACTERS,
    SUMMARY_BYTES,
    fit,
    fit_comment,
    fit_summary,
    part,
    utf8_bytes,
    utf16_units,
)

HEAD = "## Headline\n\n**53 of 89 passed**\n"


@pytest.mark.parametrize("extra", [-1, 0])
@pytest.mark.parametrize("char", ["x", "é", "任", "😀"])
def test_fit_summary__what_fits_stays(extra: int, char: str) -> None:
    room = SUMMARY_BYTES + extra - utf8_bytes(HEAD)
    body = char * (room // utf8_bytes(char))
    body += "x" * (room - utf8_bytes(body))
    text = f"{HEAD}{part('All tasks')}{body}"
    result = fit_summary(text)
    assert utf8_bytes(result) == SUMMARY_BYTES + extra
    assert result == HEAD + body


@pytest.mark.parametrize("char", ["x", "é", "任", "😀"])
def test_fit_summary__one_byte_too_many_leaves_a_part_out(char: str) -> None:
    room = SUMMARY_BYTES + 1 - utf8_bytes(HEAD)
    body = char * (room // utf8_bytes(char))
    body += "x" * (room - utf8_bytes(body))
    text = f"{HEAD}{part('All tasks')}{body}{part('Footer')}"
    result = fit_summary(text, where="It is [there](<https://a.example>).")
    assert utf8_bytes(result) <= SUMMARY_BYTES
    assert result.startswith(HEAD)
    assert "**Left out here, for size:** All tasks. It is [there](<https://a.example>)." in result


@pytest.mark.parametrize(
    ("extra", "whole"), [(-1, True), (0, True), (1, False)], ids=["below", "at", "above"]
)
@pytest.mark.parametrize("char", ["x", "任", "😀"])
def test_fit_comment__at_the_limit(extra: int, whole: bool, char: str) -> None:
    room = COMMENT_CHARACTERS + extra - len(HEAD)
    body = char * (room // utf16_units(char))
    body += "x" * (room - utf16_units(body))
    result = fit_comment(f"{HEAD}{part('All tasks')}{body}")
    assert utf16_units(result) <= COMMENT_CHARACTERS
    assert (result == HEAD + body) is whole
    assert ("Left out" in result) is not whole


def test_fit__a_small_part_after_a_large_one_stays() -> None:
    text = f"{HEAD}{part('Big')}{'x' * 500}\n{part('Small')}small\n"
    result = fit(text, limit=200, size=len, where="")
    assert result == f"{HEAD}small\n\n\n> **Left out here, for size:** Big.\n"


def test_fit__a_head_that_is_too_long_is_cut_at_a_line() -> None:
    text = "".join(f"line {number}\n" for number in range(100)) + part("Rest") + "rest"
    result = fit(text, limit=200, size=len, where="")
    assert len(result) <= 200
    assert result.startswith("line 0\nline 1\n")
    assert result.endswith("\n\n\n> **Left out here, for size:** everything below.\n")


@given(
    st.text(max_size=300),
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=300)), max_size=5),
    st.integers(min_value=0, max_value=700),
    st.sampled_from([len, utf8_bytes, utf16_units]),
)
def test_fit__never_above_the_limit(
    head: str, parts: list[tuple[str, str]], limit: int, size: object
) -> None:
    assert callable(size)
    text = head.replace("\x1e", "") + "".join(
        part(name) + body.replace("\x1e", "") for name, body in parts
    )
    result = fit(text, limit=limit, size=size, where="There.")
    assert size(result) <= limit
    assert "\x1e" not in result
