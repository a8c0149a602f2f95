"""Outages are never longer than the evidence for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tbh_action.gateway.outages import OutageLog

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def spans(log: OutageLog, now: float) -> list[tuple[float, float, str]]:
    return [
        ((o.start - START).total_seconds(), (o.end - START).total_seconds(), o.reason)
        for o in log.intervals(at(now))
    ]


def test_outage_log__from_first_failure_to_next_success() -> None:
    log = OutageLog()
    for second in (10, 20, 40):
        assert log.failed(at(second), "refused") is None
    closed = log.worked(at(45))
    assert closed is not None
    assert spans(log, 100) == [(10, 45, "refused")]
    assert log.worked(at(50)) is None


def test_outage_log__a_silence_is_no_outage() -> None:
    log = OutageLog()
    log.failed(at(0), "answered 503")
    log.failed(at(5), "answered 503")
    log.worked(at(600))
    assert spans(log, 700) == [(0, 5, "answered 503")]


def test_outage_log__failures_far_apart_are_two() -> None:
    log = OutageLog()
    log.failed(at(0), "one")
    log.failed(at(5), "one")
    closed = log.failed(at(100), "two")
    assert closed is not None
    assert closed.end == at(5)
    log.failed(at(120), "two")
    assert spans(log, 500) == [(0, 5, "one"), (100, 120, "two")]


def test_outage_log__a_single_failure_excuses_nothing() -> None:
    log = OutageLog()
    log.failed(at(0), "reset")
    log.worked(at(0.2))
    log.failed(at(10), "reset")
    assert spans(log, 500) == []


def test_outage_log__one_that_lasts_ends_with_its_last_failure() -> None:
    log = OutageLog()
    log.failed(at(0), "refused")
    log.failed(at(8), "refused")
    assert spans(log, 500) == [(0, 8, "refused")]


def test_outage_log__a_hold_lasts_until_now_or_its_release() -> None:
    log = OutageLog()
    log.held(at(0), "relaunch")
    log.held(at(5), "another reason")
    assert spans(log, 60) == [(0, 60, "relaunch")]
    assert log.released(at(90)) is not None
    assert log.released(at(91)) is None
    assert spans(log, 500) == [(0, 90, "relaunch")]


def test_outage_log__clock_that_jumps_back() -> None:
    log = OutageLog()
    log.failed(at(100), "refused")
    log.failed(at(110), "refused")
    log.worked(at(-3600))
    log.held(at(0), "relaunch")
    log.released(at(-50))
    for start, end, _ in spans(log, -4000):
        assert start <= end


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.sampled_from(["failed", "worked", "held", "released"])),
        max_size=60,
    )
)
def test_outage_log__failing_time_is_covered_by_failures(steps: list[tuple[float, str]]) -> None:
    """Each instant of an outage lies within the gap after a failure, or in a hold."""
    log, now = OutageLog(), 0.0
    failures: list[float] = []
    holds: list[list[float]] = []
    for step, what in steps:
        now += step
        if what == "failed":
            failures.append(now)
            log.failed(at(now), "failing")
        elif what == "worked":
            log.worked(at(now))
        elif what == "held":
            log.held(at(now), "held")
            if not holds or holds[-1][1] != float("inf"):
                holds.append([now, float("inf")])
        else:
            log.released(at(now))
            if holds:
                holds[-1][1] = min(holds[-1][1], now)
    for start, end, reason in spans(log, now):
        if reason == "failing":
            assert any(abs(start - f) < 1e-3 for f in failures)
            inside = [f for f in failures if start - 1e-3 <= f <= end + 1e-3]
            steps_inside = [b - a for a, b in zip(inside, [*inside[1:], end], strict=True)]
            assert max(steps_inside) <= 30 + 1e-3
        else:
            assert any(abs(start - a) < 1e-3 and end <= b + 1e-3 for a, b in holds)
