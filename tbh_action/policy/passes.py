"""Whether the run goes on: the bounded loop's decision after each pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tbh_action.controller.state import PassRecord

# A pass that was cut short is continued while it gets somewhere; so often in a row it may get
# nowhere.
FRUITLESS_CUTS: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What comes next: the first pass, a further one, or the end; always with a reason."""

    kind: Literal["run", "resume", "stop"]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Remaining:
    """What is left after the last pass: planned trials that never ended (not started, interrupted),
    and ended ones that may be repeated (infrastructure)."""

    unfinished: int
    retryable: int

    @property
    def total(self) -> int:
        return self.unfinished + self.retryable


def next_step(
    history: Sequence[PassRecord],
    remaining: Remaining,
    *,
    max_passes: int,
    stop: str | None = None,
    earlier: int = 0,
) -> Step:
    """The next step after the passes in `history` (oldest first; none yet: an empty sequence).

    The first `earlier` of them belong to earlier legs. `stop` is a reason from outside to end now
    (time, money, set-up burst, signal). Only whole passes count towards `max_passes`: one that was
    cut short (server lost, Harbor hung, leg ended, signal) is continued, unless the last
    `FRUITLESS_CUTS` of this leg brought nothing. Both kinds of passes end: the whole ones by their
    number, the cut ones since each that brings something uses up a trial that had not ended, or
    one to repeat.
    """
    if stop is not None:
        return Step(kind="stop", reason=stop)
    if remaining.total == 0:
        return Step(kind="stop", reason="nothing is left to run")
    if not history:
        return Step(kind="run", reason=f"first pass over {_trials(remaining.total)}")
    if history[-1].cut_short:
        return _after_cut(history[earlier:], remaining)
    return _after_whole(history, remaining, max_passes)


def _after_whole(history: Sequence[PassRecord], remaining: Remaining, max_passes: int) -> Step:
    last = history[-1]
    whole = sum(not record.cut_short for record in history)
    left = _trials(remaining.total)
    if whole >= max_passes:
        return Step(kind="stop", reason=f"{left} left after {whole} passes (--max-passes)")
    if _in_vain(last):
        return Step(
            kind="stop",
            reason=f"the last pass repaired none of {_trials(last.repeated)}; more would not help",
        )
    return Step(kind="resume", reason=f"{left} to repeat")


def _after_cut(history: Sequence[PassRecord], remaining: Remaining) -> Step:
    recent = history[-FRUITLESS_CUTS:]
    if len(recent) == FRUITLESS_CUTS and all(r.cut_short and _in_vain(r) for r in recent):
        return Step(
            kind="stop",
            reason=f"the last {FRUITLESS_CUTS} passes were cut short and brought nothing "
            f"({history[-1].reason or 'no reason known'})",
        )
    return Step(
        kind="resume",
        reason=f"continue the pass that was cut short: {_trials(remaining.total)} left",
    )


def _in_vain(record: PassRecord) -> bool:
    """Whether a pass brought nothing: it repaired no trial, and ended none that had not ended
    before (each trial that had was moved away for this pass, so it is counted in `repeated`)."""
    return record.repaired == 0 and record.trials <= record.repeated


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"
