"""Errors read as sentences."""

from __future__ import annotations

import pytest

from tbh_action.errors import NotStartedError, SpecError


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("The Hub said: No credit left..", "The Hub said: No credit left."),
        ("It is damaged: no end.. Start a new run.", "It is damaged: no end. Start a new run."),
        ("Wait for it... or stop.", "Wait for it... or stop."),
        ("Cannot write ../runs or ..", "Cannot write ../runs or .."),
    ],
)
def test_tbh_error__a_sentence_ends_once(message: str, said: str) -> None:
    assert SpecError(message).message == said
    assert str(NotStartedError(message)) == said
