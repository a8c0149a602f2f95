"""How many trials may run at once: additive increase, multiplicative decrease.

The rule of TCP's congestion control (Chiu and Jain, 1989), with a trial in the place of a packet.
Sandboxes and proxies that are strained break trials; how much they bear is not published and
changes by the hour, so the limit is found by trying.

What is measured is the share of the trials' time that infrastructure failures threw away since the
last change: a failure in a trial's first minute costs a minute, one in its fourth hour costs 4 h.
A few failures are the price of speed and no reason to slow down, several together are; a value
that had to be given up is tried again later each time. `bench/policy.py` chose the constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

# The classes of failures (scoring/failures.py) that say something about the load, and those
# that say that it was borne.
STRAIN_CLASSES: Final = frozenset({"infrastructure"})
BORNE_CLASSES: Final = frozenset({"none", "timeout", "agent", "verifier"})

# What the first public run found bearable, and where a run begins that may go higher.
BEARABLE: Final = 3
START_AT: Final = 5
DECREASE: Final = 0.85
FAILURES_TO_DECREASE: Final = 4
LOST_TOO_MUCH: Final = 0.4
FAILED_TOO_MANY: Final = 0.5
LOST_LITTLE: Final = 0.2
# Late repeats are gentler: what still fails is what lasts long, and has few chances left. The caps
# of pass 3 and of those after it.
REPEAT_CAPS: Final = (5, 3)
# A failure throws away what the running trials have invested. Above `BEARABLE`, the first further
# trial is put beside them while that is at most so many seconds, the second at half of it, ...
INVESTED: Final = 12_600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The limit now, and what was seen since its last change.

    `lowest` and `highest` bound it (`cap` too, in repeat passes). Of the trials that ended since
    `changed_at`: how many, how many of them failed, the seconds of all and of the failed ones.
    `setbacks` are the values that had to be given up. `reason` says why the value is what it is.
    """

    value: int
    lowest: int
    highest: int
    reason: str
    cap: int | None = None
    ended: int = 0
    failed: int = 0
    seconds: float = 0.0
    lost: float = 0.0
    changed_at: float | None = None
    setbacks: tuple[int, ...] = ()

    @property
    def ceiling(self) -> int:
        """The highest value at this time."""
        return self.highest if self.cap is None else max(self.lowest, min(self.highest, self.cap))


def first_limit(lowest: int, highest: int) -> Limit:
    """Where a run begins: `START_AT`, or the nearest bound."""
    value = max(lowest, min(START_AT, highest))
    return Limit(
        value=value, lowest=lowest, highest=highest, reason=f"start at {value} of {highest}"
    )


def on_pass_start(limit: Limit, *, number: int) -> Limit:
    """The limit with which pass `number` (from 1) begins."""
    if number <= 2:
        return limit
    capped = replace(limit, cap=REPEAT_CAPS[min(number - 3, len(REPEAT_CAPS) - 1)])
    if limit.value <= capped.ceiling:
        return capped
    return _changed(
        capped,
        capped.ceiling,
        f"{limit.value} → {capped.ceiling}: pass {number} repeats what broke, gently",
        limit.changed_at,
    )


def on_trial_end(
    limit: Limit, failure_class: str, *, running: int, now: float, seconds: float = 1.0
) -> Limit:
    """The limit after a trial ended with `failure_class` ("none" for a scored one).

    `running` is the number of trials that ran when it ended, itself included; `seconds` how long
    it ran. A failure of a trial that was started before the last change says something about the
    old limit, not about this one: so one burst counts once.
    """
    if failure_class in STRAIN_CLASSES:
        if limit.changed_at is not None and now - seconds < limit.changed_at:
            return limit
        return _after_failure(_seen(limit, seconds, failed=True), now)
    if failure_class in BORNE_CLASSES:
        return _after_success(_seen(limit, seconds, failed=False), running, now)
    return limit


def room(limit: Limit, invested: Iterable[float]) -> int:
    """How many trials may run at once, when those that run have `invested` these seconds."""
    at_risk = sum(invested)
    value = min(limit.value, BEARABLE)
    while value < limit.value and at_risk * (value + 1 - BEARABLE) <= INVESTED:
        value += 1
    return value


def _seen(limit: Limit, seconds: float, *, failed: bool) -> Limit:
    seconds = max(seconds, 0.0)
    return replace(
        limit,
        ended=limit.ended + 1,
        failed=limit.failed + failed,
        seconds=limit.seconds + seconds,
        lost=limit.lost + (seconds if failed else 0.0),
    )


def _lost_share(limit: Limit) -> float:
    return limit.lost / limit.seconds if limit.seconds > 0 else limit.failed / limit.ended


def _after_failure(limit: Limit, now: float) -> Limit:
    share = _lost_share(limit)
    too_many = limit.failed > limit.ended * FAILED_TOO_MANY
    if limit.failed < FAILURES_TO_DECREASE or not (share > LOST_TOO_MUCH or too_many):
        return limit
    value = max(limit.lowest, int(limit.value * DECREASE))
    seen = f"{limit.failed} of {limit.ended} trials broke ({share:.0%} of their time)"
    reason = f"{limit.value} → {value}: {seen}" if value < limit.value else f"stays: {seen}"
    limit = replace(limit, setbacks=(*limit.setbacks, limit.value))
    return _changed(limit, value, reason, now)


def _after_success(limit: Limit, running: int, now: float) -> Limit:
    """One more after as many ends as the limit's value (twice as many where that went wrong once,
    and so on), if the limit was what held back."""
    share = _lost_share(limit)
    held_back = running >= min(limit.value, BEARABLE)
    needed = limit.value * (1 + limit.setbacks.count(limit.value + 1))
    if limit.ended < needed or share > LOST_LITTLE or not held_back:
        return limit
    if limit.value >= limit.ceiling:
        return limit
    value = limit.value + 1
    return _changed(
        limit,
        value,
        f"{limit.value} → {value}: {limit.failed} of {limit.ended} trials broke "
        f"({share:.0%} of their time)",
        now,
    )


def _changed(limit: Limit, value: int, reason: str, now: float | None) -> Limit:
    return replace(
        limit, value=value, reason=reason, ended=0, failed=0, seconds=0.0, lost=0.0, changed_at=now
    )
