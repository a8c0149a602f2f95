"""Label values that the Hub's filters accept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.labels import label_value


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("qwen3.8-27b-fp8_x", "qwen3.8-27b-fp8_x"),
        ("Qwen/Qwen3.8-27B", "Qwen-Qwen3.8-27B"),
        ("  a b\n", "a-b"),
        ("--a--", "a"),
        ("", "none"),
        ("///", "none"),
        ("ü", "none"),
        ("x" * 80, "x" * 63),
        ("x" * 62 + "/y", "x" * 62),
    ],
)
def test_label_value__table(text: str, label: str) -> None:
    assert label_value(text) == label


@given(st.text())
def test_label_value__always_a_label_and_stable(text: str) -> None:
    label = label_value(text)
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", label)
    assert label_value(label) == label
