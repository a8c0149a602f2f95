"""Whether the run goes on: the bounded loop's decision after each pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tbh_action.state import PassRecord

# A pass that was cut short is continued while it gets somewhere; so often it may get nowhere.
FRUITLESS_CUTS: Final = 2


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
) -> Step:
    """The next step after the passes in `history` (oldest first; none yet: an empty sequence).

    `stop` is a reason from outside to end now (time, money, set-up burst, signal). Only whole
    passes count towards `max_passes`: one that was cut short (server lost, Harbor hung, leg ended,
    signal) is continued, unless the last `FRUITLESS_CUTS` of them ended no trial.
    """
    if stop is not None:
        return Step(kind="stop", reason=stop)
    if remaining.total == 0:
        return Step(kind="stop", reason="nothing is left to run")
    if not history:
        return Step(kind="run", reason=f"first pass over {_trials(remaining.total)}")
    if history[-1].cut_short:
        return _after_cut(history, remaining)
    return _after_whole(history, remaining, max_passes)


def _after_whole(history: Sequence[PassRecord], remaining: Remaining, max_passes: int) -> Step:
    last = history[-1]
    whole = sum(not record.cut_short for record in history)
    if whole >= max_passes:
        return Step(
            kind="stop",
            reason=f"{_trials(remaining.total)} left after {whole} passes (--max-passes)",
        )
    if last.kind == "resume" and last.repaired == 0:
        return Step(
            kind="stop",
            reason=f"the last pass repaired none of {_trials(last.trials)}; more would not help",
        )
    return Step(kind="resume", reason=f"{_trials(remaining.total)} to repeat")


def _after_cut(history: Sequence[PassRecord], remaining: Remaining) -> Step:
    recent = history[-FRUITLESS_CUTS:]
    fruitless = all(record.cut_short and record.trials == 0 for record in recent)
    if len(recent) == FRUITLESS_CUTS and fruitless:
        return Step(
            kind="stop",
            reason=f"the last {FRUITLESS_CUTS} passes were cut short before any trial ended "
            f"({history[-1].reason or 'no reason known'})",
        )
    return Step(
        kind="resume",
        reason=f"continue the pass that was cut short: {_trials(remaining.total)} left",
    )


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"
