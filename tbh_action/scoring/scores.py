"""The figures of a result, from its outcomes: counts, rates with intervals, errors, tokens, time.

Two denominators everywhere: all planned slots (what failed for any reason counts against the
model) and the scored ones (beside their coverage). Rates are fractions; None where nothing was
planned or scored.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tbh_action.comparison.stats import (
    Estimate,
    cluster_rate,
    mean_pass_at_k,
    mean_pass_hat_k,
    wilson,
)
from tbh_action.harbor.trial import seconds_between
from tbh_action.scoring.outcomes import Outcome

_DIGITS: Final = 3


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The parts of results.json that follow from the outcomes alone."""
    counts = count_outcomes(outcomes)
    planned = counts["planned"]
    scored = counts["passed"] + counts["failed"]
    return {
        "counts": counts,
        "rates": {
            "all": ratio(counts["passed"], planned),
            "scored": ratio(counts["passed"], scored),
            "coverage": ratio(scored, planned),
        },
        "intervals": intervals(outcomes),
        "mean_reward": _mean_reward(outcomes, planned, scored),
        "exceptions_first": exceptions_first(outcomes),
        "errors": _by_count(
            outcome.winner.exception
            for outcome in outcomes
            if outcome.winner and outcome.winner.exception
        ),
        "errors_by_class": _by_count(
            outcome.failure_class for outcome in outcomes if outcome.status == "errored"
        ),
        "scored_after_exception": _by_count(
            outcome.winner.exception
            for outcome in outcomes
            if outcome.winner and outcome.winner.scored and outcome.winner.exception
        ),
        "pass_at_k": _over_k(outcomes, hat=False),
        "pass_hat_k": _over_k(outcomes, hat=True),
        "tokens": _tokens(outcomes),
        "seconds": _seconds(outcomes),
    }


def count_outcomes(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Every planned slot is in exactly one bucket."""
    by_status = Counter(outcome.status for outcome in outcomes)
    return {
        "planned": len(outcomes),
        "passed": by_status["passed"],
        "failed": by_status["failed"],
        "errored": by_status["errored"],
    }


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def exceptions_first(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The same slots with every exception called errored, whatever the reward beside it."""
    buckets: Counter[str] = Counter()
    for outcome in outcomes:
        clean = outcome.winner is not None and not outcome.winner.exceptions
        buckets[outcome.status if clean else "errored"] += 1
    passed, failed = buckets["passed"], buckets["failed"]
    return {
        "passed": passed,
        "failed": failed,
        "errored": buckets["errored"],
        "rate_scored": ratio(passed, passed + failed),
    }


def intervals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """95 % intervals of both rates: Wilson's, or with tasks as clusters for several attempts."""
    passed: Counter[str] = Counter()
    scored: Counter[str] = Counter()
    planned: Counter[str] = Counter()
    for outcome in outcomes:
        planned[outcome.task] += 1
        scored[outcome.task] += outcome.status != "errored"
        passed[outcome.task] += outcome.status == "passed"
    if max(planned.values(), default=1) == 1:
        total = passed.total()
        return {
            "all": list(wilson(total, planned.total())),
            "scored": list(wilson(total, scored.total())),
            "method": "wilson",
        }
    tasks = sorted(planned)
    successes = [passed[task] for task in tasks]
    return {
        "all": _interval(cluster_rate(successes, [planned[task] for task in tasks])),
        "scored": _interval(cluster_rate(successes, [scored[task] for task in tasks])),
        "method": "cluster",
    }


def _interval(estimate: Estimate | None) -> list[float]:
    return list(estimate.interval) if estimate else [0.0, 1.0]


def _mean_reward(outcomes: Iterable[Outcome], planned: int, scored: int) -> dict[str, Any]:
    rewards = [
        outcome.winner.reward
        for outcome in outcomes
        if outcome.winner and outcome.winner.scored and outcome.winner.reward is not None
    ]
    return {"all": _mean(rewards, planned), "scored": _mean(rewards, scored)}


def _mean(values: Sequence[float], size: int) -> float | None:
    # Divided before it is summed: rewards near the largest float must not overflow.
    return math.fsum(value / size for value in values) if size else None


def _by_count(names: Iterable[str]) -> dict[str, int]:
    """Names with how often they occur, most frequent first."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _over_k(outcomes: Sequence[Outcome], *, hat: bool) -> dict[str, Any]:
    """For each k up to the attempts a task has; nothing when each task has one attempt.

    What was not scored counts as not passed, as in the rate over all.
    """
    slots: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for outcome in outcomes:
        slots[outcome.task][0] += 1
        slots[outcome.task][1] += outcome.status == "passed"
    counts = [(n, c) for n, c in slots.values()]
    most = max((n for n, _ in counts), default=1)
    over = mean_pass_hat_k if hat else mean_pass_at_k
    found = {str(k): over(counts, k) for k in range(1, most + 1)} if most > 1 else {}
    return {
        k: {"value": estimate.value, "interval": list(estimate.interval)}
        for k, estimate in found.items()
        if estimate
    }


def _tokens(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Sums over the trials that count; `cached` is a part of `input`."""
    known = [
        outcome.winner.tokens for outcome in outcomes if outcome.winner and outcome.winner.tokens
    ]
    sums = {
        "input": _sum(tokens.input for tokens in known),
        "cached": _sum(tokens.cached for tokens in known),
        "output": _sum(tokens.output for tokens in known),
    }
    return {**sums, "known_for": len(known), "of": len(outcomes)}


def _seconds(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    winners = [outcome.winner for outcome in outcomes if outcome.winner]
    whole = [seconds_between(winner.started_at, winner.finished_at) for winner in winners]
    agent = [
        seconds_between(winner.agent_started_at, winner.agent_finished_at) for winner in winners
    ]
    return {
        "agent_total": _total(agent),
        "trial_total": _total(whole),
        "known_for": sum(value is not None for value in whole),
        "of": len(outcomes),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(math.fsum(known), _DIGITS) if known else None


def cost_with_passed(cost: Mapping[str, Any] | None, passed: int) -> dict[str, Any]:
    """The run's cost beside what a passed task cost; unknown parts are None."""
    total = (cost or {}).get("total_usd")
    return {
        "server_usd": (cost or {}).get("server_usd"),
        "sandbox_usd": (cost or {}).get("sandbox_usd"),
        "total_usd": total,
        "per_passed_usd": round(total / passed, 4) if total is not None and passed else None,
        "items": list((cost or {}).get("items") or ()),
    }
