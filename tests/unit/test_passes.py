from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.controller.state import PassRecord
from tbh_action.policy.passes import FRUITLESS_CUTS, Remaining, next_step


def record(kind: str = "run", **changes: Any) -> PassRecord:
    values = {"number": 1, "started_at": "", "trials": 10, "repaired": 0} | changes
    return PassRecord(kind=kind, **values)


def left(unfinished: int = 0, retryable: int = 0) -> Remaining:
    return Remaining(unfinished=unfinished, retryable=retryable)


FIRST = record()
REPAIRED = record("resume", repeated=10, repaired=3)
IN_VAIN = record("resume", repeated=4, trials=4)
AFTER_CUT = record("resume", repeated=4, trials=30)
CUT = record(cut_short=True, reason="the server is gone")
EMPTY_CUT = record("resume", cut_short=True, trials=0, reason="the server is gone")
BROKEN_CUT = record("resume", cut_short=True, trials=3, repeated=5, reason="no server")


@pytest.mark.parametrize(
    ("history", "remaining", "stop", "kind", "reason"),
    [
        ([], left(89), None, "run", "first pass over 89 trials"),
        ([], left(1), None, "run", "first pass over 1 trial"),
        ([], left(), None, "stop", "nothing is left to run"),
        ([], left(89), "setup burst", "stop", "setup burst"),
        ([FIRST], left(), None, "stop", "nothing is left to run"),
        ([FIRST], left(retryable=4), None, "resume", "4 trials to repeat"),
        ([FIRST], left(retryable=4), "no money", "stop", "no money"),
        # It repaired none of those that were broken, but ended others for the first time.
        ([CUT, AFTER_CUT], left(retryable=1), None, "resume", "1 trial to repeat"),
        ([record(trials=0)], left(unfinished=3), None, "stop",
         "the last pass repaired none of 0 trials; more would not help"),
        ([FIRST, REPAIRED], left(retryable=1), None, "resume", "1 trial to repeat"),
        ([FIRST, IN_VAIN], left(retryable=4), None, "stop",
         "the last pass repaired none of 4 trials; more would not help"),
        ([FIRST, REPAIRED, REPAIRED, REPAIRED], left(retryable=1), None, "stop",
         "1 trial left after 4 passes (--max-passes)"),
        # A pass that was cut short is continued, and doesn't count.
        ([CUT], left(40, 3), None, "resume",
         "continue the pass that was cut short: 43 trials left"),
        ([FIRST, REPAIRED, REPAIRED, CUT], left(1), None, "resume",
         "continue the pass that was cut short: 1 trial left"),
        ([FIRST, CUT, REPAIRED, REPAIRED], left(retryable=1), None, "resume", "1 trial to repeat"),
        ([EMPTY_CUT, EMPTY_CUT], left(89), None, "resume",
         "continue the pass that was cut short: 89 trials left"),
        ([EMPTY_CUT, EMPTY_CUT, CUT], left(80), None, "resume",
         "continue the pass that was cut short: 80 trials left"),
        ([CUT, EMPTY_CUT, EMPTY_CUT, EMPTY_CUT], left(80), None, "stop",
         "the last 3 passes were cut short and brought nothing (the server is gone)"),
        ([CUT, BROKEN_CUT, EMPTY_CUT, BROKEN_CUT], left(80), None, "stop",
         "the last 3 passes were cut short and brought nothing (no server)"),
        ([CUT], left(), None, "stop", "nothing is left to run"),
    ],
)  # fmt: skip
def test_next_step__table(
    history: list[PassRecord], remaining: Remaining, stop: str | None, kind: str, reason: str
) -> None:
    step = next_step(history, remaining, max_passes=4, stop=stop)
    assert (step.kind, step.reason) == (kind, reason)


@given(st.integers(1, 20), st.integers(1, 6), st.data())
def test_next_step__ends(planned: int, max_passes: int, data: st.DataObject) -> None:
    """Whatever each pass does, the loop ends: whole passes within their number, cut ones bounded
    by the trials that they can use up."""
    fresh, broken = planned, 0  # not ended yet; ended without a score
    history: list[PassRecord] = []
    while True:
        step = next_step(history, left(fresh, broken), max_passes=max_passes)
        if step.kind == "stop":
            break
        assert step.kind == ("resume" if history else "run")
        cut = data.draw(st.booleans())
        first = data.draw(st.integers(0, fresh)) if cut else fresh
        again = data.draw(st.integers(0, broken)) if cut else broken
        repaired = data.draw(st.integers(0, again))
        bad = data.draw(st.integers(0, first))
        history.append(
            record(
                step.kind,
                number=len(history) + 1,
                trials=first + again,
                repeated=broken,
                repaired=repaired,
                cut_short=cut,
            )
        )
        fresh, broken = fresh - first, broken - repaired + bad
        assert len(history) <= (2 * planned + max_passes + 1) * FRUITLESS_CUTS
    assert sum(not item.cut_short for item in history) <= max_passes
