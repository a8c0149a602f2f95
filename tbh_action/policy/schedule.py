"""Which trial starts next, and whether it may start now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tbh_action.durations import format_duration

if TYPE_CHECKING:
    from tbh_action.harbor.tasks import TaskInfo

# What a trial takes beside its agent: sandbox, agent set-up, a short verifier.
OVERHEAD: Final = 180.0
# Harbor's own default for a task that gives no agent timeout is none at all; this stands in.
UNKNOWN_AGENT_TIME: Final = 3600.0
# What a leg keeps for its end: Harbor's clean stop, the report, the upload of the state.
CLOSING: Final = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """May the trial start? `final` says that waiting does not help in this leg (the run is ending);
    a pass whose waiting trials are all final, with none running, is over."""

    go: bool
    reason: str
    final: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """What the gate knows when a trial asks. Times are seconds of one clock; `stop` is the reason
    why no trial may start any more (set-up burst, spend, signal), None while there is none.
    `deadline` is when the leg's last trial must have ended."""

    at: float
    running: int
    limit: int
    server_up: bool = True
    stop: str | None = None
    deadline: float | None = None


def admit(now: Now, *, expected: float) -> Admission:
    """Whether a trial that is expected to take `expected` seconds may start now."""
    if now.stop is not None:
        return Admission(go=False, reason=now.stop, final=True)
    if not fits(expected, at=now.at, deadline=now.deadline):
        assert now.deadline is not None
        left = max(0.0, now.deadline - now.at)
        return Admission(
            go=False,
            final=True,
            reason=f"expected to take {format_duration(expected)}, "
            f"{format_duration(left)} left in this leg",
        )
    if not now.server_up:
        return Admission(go=False, reason="waiting for the model server")
    if now.running >= now.limit:
        return Admission(go=False, reason=f"{now.running} running, limit {now.limit}")
    return Admission(go=True, reason=f"{now.running + 1} of {now.limit}")


def drained(running: int, waiting: Iterable[Admission]) -> bool:
    """True when a pass can be stopped: none runs, and none that waits will start in this leg."""
    return running == 0 and all(admission.final for admission in waiting)


def leg_deadline(started: float, budget: float | None, *, closing: float = CLOSING) -> float | None:
    """When the leg's last trial must have ended: the budget's end less the time to close."""
    return None if budget is None else started + max(0.0, budget - closing)


def fits(expected: float, *, at: float, deadline: float | None) -> bool:
    """Whether a trial that starts now is expected to end before the deadline."""
    return deadline is None or at + expected <= deadline


def worst_seconds(task: TaskInfo, *, multiplier: float = 1.0, cap: float | None = None) -> float:
    """The longest a trial of this task may take: its agent's timeout, as Harbor computes it
    (the cap first, then the multiplier), its verifier's, and the overhead."""
    return agent_limit(task, multiplier=multiplier, cap=cap) + (
        (task.verifier_timeout or 0.0) + OVERHEAD
    )


def agent_limit(task: TaskInfo, *, multiplier: float = 1.0, cap: float | None = None) -> float:
    """The agent's timeout in seconds: min(own, cap) × multiplier (harbor/trial/trial.py)."""
    own = task.agent_timeout or UNKNOWN_AGENT_TIME
    return (min(own, cap) if cap else own) * multiplier


def expected_seconds(
    tasks: Iterable[TaskInfo],
    *,
    earlier: Mapping[str, float] | None = None,
    multiplier: float = 1.0,
    cap: float | None = None,
) -> dict[str, float]:
    """Seconds that a trial of each task is expected to take, by task name.

    From an earlier run where it has the task (a whole trial's seconds), else the agent's own
    timeout and the overhead: too long for most, in the right order for nearly all.
    """
    earlier = earlier or {}
    return {
        task.name: earlier.get(
            task.name, agent_limit(task, multiplier=multiplier, cap=cap) + OVERHEAD
        )
        for task in tasks
    }


def order(names: Sequence[str], expected: Mapping[str, float]) -> list[str]:
    """Longest expected first (the rule of Graham, 1969, which keeps the tail short); those of
    equal length keep their order, those without an expectation come last."""
    return sorted(names, key=lambda name: -expected.get(name, 0.0))
