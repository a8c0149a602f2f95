"""How many trials may run at once: additive increase, multiplicative decrease.

The rule of TCP's congestion control (Chiu and Jain, 1989; RFC 5681), with a trial in the place of
a packet. Sandboxes and proxies that are strained break trials; how much they bear is not published
and changes by the hour, so the limit is found by trying. `bench/policy.py` chose the constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tbh_action.durations import format_duration

# The classes of failures (tbh_action/failures.py) that say something about the load.
STRAIN_CLASSES: Final = frozenset({"infrastructure"})
# Where a run begins when it may go higher: what the first public run found bearable.
START_AT: Final = 3
DECREASE: Final = 0.5
# Failures so soon after a decrease belong to the burst that caused it.
COOL_DOWN: Final = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The limit now, and what the next trial's end is judged by. Times are seconds of any one
    clock. `reason` says why the value is what it is."""

    value: int
    lowest: int
    highest: int
    reason: str
    clean: int = 0
    decreased_at: float | None = None


def first_limit(lowest: int, highest: int) -> Limit:
    """Where a run begins: `START_AT`, or the nearest bound."""
    value = max(lowest, min(START_AT, highest))
    return Limit(
        value=value, lowest=lowest, highest=highest, reason=f"start at {value} of {highest}"
    )


def on_trial_end(limit: Limit, failure_class: str, *, running: int, now: float) -> Limit:
    """The limit after a trial ended with `failure_class` ("none" for a scored one).

    `running` is the number of trials that ran when it ended, itself included: failures while more
    run than the limit allows say nothing about the limit, since its last decrease has not had its
    effect yet.
    """
    if failure_class in STRAIN_CLASSES:
        return _after_failure(limit, running, now)
    if failure_class in ("none", "timeout", "agent", "verifier"):
        return _after_success(limit, running)
    return limit


def _after_failure(limit: Limit, running: int, now: float) -> Limit:
    cooling = limit.decreased_at is not None and now - limit.decreased_at < COOL_DOWN
    if cooling or running > limit.value:
        return replace(limit, clean=0)
    value = max(limit.lowest, int(limit.value * DECREASE))
    if value == limit.value:
        return replace(limit, clean=0, decreased_at=now)
    return replace(
        limit,
        value=value,
        clean=0,
        decreased_at=now,
        reason=f"{limit.value} → {value}: infrastructure failure with {running} running; "
        f"further ones count after {format_duration(COOL_DOWN)}",
    )


def _after_success(limit: Limit, running: int) -> Limit:
    """One more after as many clean ends as the limit's value, if the limit was what held back."""
    clean = limit.clean + 1
    if clean < limit.value or limit.value >= limit.highest or running < limit.value:
        return replace(limit, clean=clean)
    value = limit.value + 1
    return replace(
        limit,
        value=value,
        clean=0,
        reason=f"{limit.value} → {value}: {clean} trials in a row without infrastructure failure",
    )


def on_pass_start(limit: Limit, *, number: int) -> Limit:
    """The limit with which pass `number` (from 1) begins."""
    return limit
