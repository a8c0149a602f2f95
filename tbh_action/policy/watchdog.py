"""Which trials, and which Harbor process, have stopped making progress.

Harbor has a timeout for each phase of a trial. A trial that is past one by a margin has hung where
Harbor's own timeout does not reach (a blocked thread, a connection that never ends), and holds a
place in the queue that is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tbh_action.durations import format_duration
from tbh_action.policy.schedule import agent_limit

if TYPE_CHECKING:
    from tbh_action.harbor.tasks import TaskInfo

Phase = Literal["waiting", "environment", "agent", "verifier"]
# Which phase a trial is in after each of Harbor's events. Between the agent's end and the
# verification Harbor copies files: that counts as the verifier's time.
PHASE_AFTER: Final[Mapping[str, Phase]] = {
    "start": "environment",
    "environment-start": "environment",
    "agent-start": "agent",
    "agent-end": "verifier",
    "verification-start": "verifier",
}
# Harbor's defaults for a task that gives none (models/task/config.py, agents/base.py).
BUILD_TIMEOUT: Final = 600.0
AGENT_SETUP_TIMEOUT: Final = 360.0
VERIFIER_TIMEOUT: Final = 600.0
# Above each of Harbor's own limits: its cancellation and the download of logs take their time.
MARGIN: Final = 600.0
# How long an ordered end may take before Harbor itself counts as hung.
CANCEL_GRACE: Final = 180.0
# The plugin asks for orders every 2 s: a silence so long means that Harbor's loop stands still.
SILENCE: Final = 300.0
# Resolving and downloading the tasks comes before the plugin's first word.
START_UP: Final = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseLimits:
    """Seconds that each phase of a trial may take, margin included."""

    environment: float
    agent: float
    verifier: float

    def of(self, phase: Phase) -> float | None:
        """None: no limit (a trial that waits for its admission)."""
        match phase:
            case "environment":
                return self.environment
            case "agent":
                return self.agent
            case "verifier":
                return self.verifier
            case _:
                return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """One trial that has not ended: its phase and since when (seconds of one clock)."""

    trial: str
    phase: Phase
    since: float
    limits: PhaseLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class Stuck:
    """A trial to end, and why."""

    trial: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HarborView:
    """What is known of the Harbor process at `at`. `heard_at`: its plugin's last call, None before
    the first; `ordered`: when the end of which trial was ordered."""

    at: float
    started_at: float
    heard_at: float | None
    trials: Sequence[Watched]
    ordered: Mapping[str, float]


def phase_limits(
    task: TaskInfo, *, multiplier: float = 1.0, cap: float | None = None, margin: float = MARGIN
) -> PhaseLimits:
    """The limits of a task's trials: Harbor's own plus the margin."""
    return PhaseLimits(
        environment=(task.build_timeout or BUILD_TIMEOUT) + AGENT_SETUP_TIMEOUT + margin,
        agent=agent_limit(task, multiplier=multiplier, cap=cap) + margin,
        verifier=(task.verifier_timeout or VERIFIER_TIMEOUT) + margin,
    )


def stuck_trials(trials: Iterable[Watched], now: float) -> list[Stuck]:
    """The trials that are past the limit of their phase, longest overdue first."""
    overdue = []
    for trial in trials:
        limit = trial.limits.of(trial.phase)
        if limit is not None and now - trial.since > limit:
            spent = now - trial.since
            reason = (
                f"no progress: {format_duration(spent)} in the {trial.phase} phase, "
                f"limit {format_duration(limit)}"
            )
            overdue.append((spent - limit, Stuck(trial=trial.trial, reason=reason)))
    return [stuck for _, stuck in sorted(overdue, key=lambda item: (-item[0], item[1].trial))]


def harbor_hung(view: HarborView) -> str | None:
    """Why the Harbor process has to be stopped; None while it does its work."""
    if view.heard_at is None:
        waited = view.at - view.started_at
        if waited > START_UP:
            return f"Harbor started no trial within {format_duration(waited)}"
        return None
    silence = view.at - view.heard_at
    if silence > SILENCE:
        return f"Harbor has been silent for {format_duration(silence)}"
    alive = {trial.trial for trial in view.trials}
    for trial, at in sorted(view.ordered.items()):
        if trial in alive and view.at - at > CANCEL_GRACE:
            return (
                f"Harbor did not end the trial {trial} within "
                f"{format_duration(view.at - at)} of being told to"
            )
    return None
