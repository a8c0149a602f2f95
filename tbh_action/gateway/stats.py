"""What each trial's model calls took: tokens, time, and time that was not the model's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tbh_action.gateway.usage import Usage

# Trials are few; this only bounds the memory against a caller that invents names.
_MOST_TRIALS: Final = 20_000


@dataclass(kw_only=True, slots=True)
class TrialStats:
    """Sums over the calls of one trial; seconds are wall time.

    `known` of `calls` said what tokens they took; `cached` is a part of `input`. `failed` calls got
    no answer, or one of 400 and above. `lost_seconds`: time in which a call waited for a server,
    or worked on an attempt that infrastructure broke, so that the model is not to blame for it.
    """

    calls: int = 0
    known: int = 0
    failed: int = 0
    retries: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    lost_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class StatsBook:
    """The sums of all trials; calls that name no trial are under the empty name."""

    trials: dict[str, TrialStats] = field(default_factory=dict)

    def add(
        self,
        trial: str,
        *,
        seconds: float,
        lost: float,
        retries: int,
        failed: bool,
        usage: Usage | None,
    ) -> None:
        """One call that has ended, in whatever way."""
        if trial not in self.trials and len(self.trials) >= _MOST_TRIALS:
            trial = ""
        stats = self.trials.setdefault(trial, TrialStats())
        stats.calls += 1
        stats.failed += failed
        stats.retries += retries
        stats.seconds += seconds
        stats.slowest_seconds = max(stats.slowest_seconds, seconds)
        stats.lost_seconds += lost
        if usage is not None:
            stats.known += 1
            stats.input += usage.input
            stats.cached += usage.cached
            stats.output += usage.output
