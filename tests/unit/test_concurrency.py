from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.policy.concurrency import (
    BEARABLE,
    FAILURES_TO_DECREASE,
    INVESTED,
    START_AT,
    Limit,
    first_limit,
    on_pass_start,
    on_trial_end,
    room,
)

CLASSES = (
    "none", "timeout", "agent", "infrastructure", "setup", "verifier", "interrupted",
    "unclassified", "unreadable", "missing",
)  # fmt: skip


def after(limit: Limit, classes: str, *, seconds: float = 600.0, start: float = 0.0) -> Limit:
    """The limit after trials that ended one after another: `.` well, `x` broken; they were all
    started after the last change."""
    for number, mark in enumerate(classes):
        limit = on_trial_end(
            limit,
            "infrastructure" if mark == "x" else "none",
            running=limit.value,
            now=start + (number + 1) * (seconds + 1),
            seconds=seconds,
        )
    return limit


@pytest.mark.parametrize(
    ("lowest", "highest", "value"),
    [(1, 8, START_AT), (1, 3, 3), (7, 9, 7), (1, 1, 1), (START_AT, START_AT, START_AT)],
)
def test_first_limit__bounds(lowest: int, highest: int, value: int) -> None:
    assert first_limit(lowest, highest).value == value


def test_on_trial_end__clean_window_adds_one() -> None:
    limit = first_limit(1, 8)
    almost = after(limit, "." * (limit.value - 1))
    assert almost.value == limit.value
    more = after(almost, ".")
    assert more.value == limit.value + 1
    assert more.reason == "5 → 6: 0 of 5 trials broke (0% of their time)"


def test_on_trial_end__stays_at_the_highest() -> None:
    assert after(first_limit(1, 3), "." * 50).value == 3


def test_on_trial_end__few_failures_are_no_reason() -> None:
    limit = replace(first_limit(1, 8), value=6)
    assert after(limit, "x" * (FAILURES_TO_DECREASE - 1)).value == 6
    assert after(limit, "x" * FAILURES_TO_DECREASE).value == 5


def test_on_trial_end__reason_of_a_decrease_says_what_was_seen() -> None:
    limit = after(replace(first_limit(1, 8), value=8), "x.xxx")
    assert (limit.value, limit.setbacks) == (6, (8,))
    assert limit.reason == "8 → 6: 4 of 5 trials broke (80% of their time)"


def test_on_trial_end__failures_in_the_first_minute_cost_little() -> None:
    """Four of fifteen trials broke at once: little time was lost, and less than half of them."""
    limit = after(replace(first_limit(1, 8), value=8, highest=8), "...........", seconds=3600.0)
    assert after(limit, "xxxx", seconds=30.0, start=1e6).value == 8


def test_on_trial_end__one_burst_counts_once() -> None:
    """Failures of trials that were started before the decrease don't decrease it again."""
    limit = replace(first_limit(1, 8), value=8)
    for number in range(8):
        limit = on_trial_end(limit, "infrastructure", running=8, now=1000.0 + number, seconds=900.0)
    assert limit.value == 6
    assert limit.ended == 0


def test_on_trial_end__what_went_wrong_once_is_tried_later() -> None:
    limit = replace(first_limit(1, 8), value=5, setbacks=(6,))
    assert after(limit, "." * 9).value == 5
    assert after(limit, "." * 10).value == 6


def test_on_trial_end__no_increase_when_the_limit_did_not_hold_back() -> None:
    """A queue that runs empty says nothing about what more trials would do."""
    limit = first_limit(1, 8)
    for number in range(20):
        limit = on_trial_end(limit, "none", running=1, now=float(number), seconds=10.0)
    assert limit.value == START_AT


@pytest.mark.parametrize("name", ["setup", "interrupted", "unclassified", "unreadable"])
def test_on_trial_end__other_classes_say_nothing(name: str) -> None:
    limit = first_limit(1, 8)
    assert on_trial_end(limit, name, running=3, now=1.0, seconds=1.0) == limit


@pytest.mark.parametrize(("number", "value"), [(1, 8), (2, 8), (3, 5), (4, 3), (9, 3)], ids=str)
def test_on_pass_start__late_repeats_are_gentle(number: int, value: int) -> None:
    limit = replace(first_limit(1, 8), value=8)
    assert on_pass_start(limit, number=number).value == value


def test_on_pass_start__cap_holds_in_the_pass() -> None:
    limit = on_pass_start(replace(first_limit(1, 8), value=8), number=4)
    assert after(limit, "." * 50, start=1e6).value == 3


def test_on_pass_start__never_below_the_lowest() -> None:
    limit = on_pass_start(replace(first_limit(6, 8), value=8), number=4)
    assert limit.value == 6


@pytest.mark.parametrize(
    ("value", "invested", "expected"),
    [
        (8, 0.0, 8),
        (8, INVESTED / 5, 8),
        (8, INVESTED / 4, 7),
        (8, INVESTED / 2, 5),
        (8, INVESTED, 4),
        (8, INVESTED + 1, BEARABLE),
        (4, INVESTED, 4),
        (3, INVESTED * 50, 3),
        (1, INVESTED * 50, 1),
    ],
)
def test_room__invested_work_keeps_others_away(value: int, invested: float, expected: int) -> None:
    limit = replace(first_limit(1, 8), value=value)
    assert room(limit, [invested / 2] * 2) == expected


@given(
    st.integers(1, 6),
    st.integers(0, 12),
    st.lists(
        st.tuples(
            st.sampled_from(CLASSES),
            st.integers(1, 20),
            st.floats(0, 1e5),
            st.floats(0, 1e5),
            st.booleans(),
        ),
        max_size=60,
    ),
)
def test_limit__always_within_its_bounds(
    lowest: int, above: int, ends: list[tuple[str, int, float, float, bool]]
) -> None:
    limit = first_limit(lowest, lowest + above)
    now, number = 0.0, 1
    for name, running, wait, seconds, next_pass in ends:
        now += wait
        before = limit
        limit = on_trial_end(limit, name, running=running, now=now, seconds=seconds)
        assert lowest <= limit.value <= limit.highest
        assert limit.value - before.value <= 1
        if limit.value != before.value:
            assert limit.reason.startswith(f"{before.value} → {limit.value}: ")
        if next_pass:
            number += 1
            limit = on_pass_start(limit, number=number)
            assert lowest <= limit.value <= limit.highest
        assert 1 <= room(limit, [seconds]) <= limit.value
