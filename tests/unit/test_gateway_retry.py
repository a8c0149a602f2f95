"""Which calls may be made again, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tbh_action.gateway.retry import (
    Trouble,
    pause_before_retry,
    repeatable,
)
from tbh_action.retry_after import parse_retry_after

REFUSED = Trouble(kind="refused", words="")
RESET = Trouble(kind="reset", words="")
SILENT = Trouble(kind="silent", words="")


def status(code: int, retry_after: float | None = None) -> Trouble:
    return Trouble(kind="status", words="", status=code, retry_after=retry_after)


@pytest.mark.parametrize(
    ("trouble", "tries", "left", "may_repeat", "others", "expected"),
    [
        pytest.param(REFUSED, 1, 100, True, False, 0.5, id="refused-waits-a-little"),
        pytest.param(REFUSED, 1, 100, False, False, 0.5, id="refused-was-never-sent"),
        pytest.param(REFUSED, 1, 100, True, True, 0.0, id="another-server-at-once"),
        pytest.param(REFUSED, 3, 100, True, False, 2.0, id="backoff-doubles"),
        pytest.param(REFUSED, 50, 100, True, False, 10.0, id="backoff-is-bounded"),
        pytest.param(REFUSED, 50, 9, True, False, None, id="patience-is-over"),
        pytest.param(RESET, 1, 100, True, False, 0.0, id="closed-connection-at-once"),
        pytest.param(RESET, 2, 100, True, False, 1.0, id="second-reset-waits"),
        pytest.param(RESET, 1, 100, False, False, None, id="reset-may-have-had-an-effect"),
        pytest.param(SILENT, 1, 100, True, True, None, id="silence-is-patience-spent"),
        pytest.param(status(503), 1, 100, True, False, 0.5, id="503"),
        pytest.param(status(503, 7), 1, 100, True, False, 7, id="503-retry-after"),
        pytest.param(status(503, 0), 9, 100, True, False, 10.0, id="503-retry-after-0-forever"),
        pytest.param(status(503, 7), 1, 100, True, True, 0.0, id="503-another-server"),
        pytest.param(status(503), 1, 100, False, False, 0.5, id="503-did-nothing"),
        pytest.param(status(502), 1, 100, True, False, 0.5, id="502"),
        pytest.param(status(429, 7), 1, 100, True, True, 7, id="429-means-slow-down-everywhere"),
        pytest.param(status(429, 700), 1, 100, True, False, None, id="429-longer-than-patience"),
        pytest.param(status(504), 2, 1000, True, False, 1.0, id="504-twice"),
        pytest.param(status(504), 3, 1000, True, False, None, id="504-is-not-cured-by-more"),
        pytest.param(status(504), 1, 1000, False, False, None, id="504-may-have-had-an-effect"),
        pytest.param(status(500), 1, 100, True, True, None, id="500-is-an-answer"),
        pytest.param(status(401), 1, 100, True, True, None, id="401-is-an-answer"),
    ],
)
def test_pause_before_retry(
    trouble: Trouble,
    tries: int,
    left: float,
    may_repeat: bool,
    others: bool,
    expected: float | None,
) -> None:
    pause = pause_before_retry(
        trouble, tries=tries, left=left, may_repeat=may_repeat, others=others
    )
    assert pause == expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/chat/completions", True),
        ("POST", "/completions/", True),
        ("POST", "/responses", True),
        ("GET", "/models", True),
        ("POST", "/files", False),
        ("POST", "/responses/abc/cancel", False),
        ("DELETE", "/chat/completions", False),
    ],
)
def test_repeatable(method: str, path: str, expected: bool) -> None:
    assert repeatable(method, path) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("999999999", 3600.0),
        ("soon", None),
        ("nan", None),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 07:27:50 GMT", 0.0),
    ],
)
def test_parse_retry_after(value: str | None, expected: float | None) -> None:
    now = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
    assert parse_retry_after(value, now) == expected
