"""The statistics of a result: rates with intervals, and pass@k, with tasks as the unit.

Pure functions on numbers, standard library only. Rates and bounds are fractions, 0 to 1. Where
a task has several attempts, they resemble each other: a run of 89 tasks with five attempts knows
less than 445 tasks would tell, so every interval here treats the task as the unit ("cluster").
The tests compare each function with scipy or statsmodels to 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tbh_action.comparison.distributions import student_t_critical

type Interval = tuple[float, float]


def normal_critical(confidence: float) -> float:
    """The z with P(|Z| <= z) = confidence; 1.96 for 0.95."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """The score interval for `k` successes in `n` independent trials; (0, 1) when n is 0.

    E. B. Wilson (1927), "Probable inference, the law of succession, and statistical inference",
    J. Am. Stat. Assoc. 22:209-212; without continuity correction.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} successes in {n} trials")
    if n == 0:
        return (0.0, 1.0)
    return _score_interval(k / n, n, normal_critical(confidence))


def _score_interval(p: float, n: float, critical: float) -> Interval:
    """Wilson's formula; it depends on n and the critical value only through critical² / n."""
    ratio = critical * critical / n
    centre = (p + ratio / 2.0) / (1.0 + ratio)
    half = math.sqrt(p * (1.0 - p) * ratio + ratio * ratio / 4.0) / (1.0 + ratio)
    # Rounding must not move a bound past the estimate or out of 0..1 (p = 0 and p = 1).
    low = 0.0 if p <= 0.0 else min(p, max(0.0, centre - half))
    high = 1.0 if p >= 1.0 else max(p, min(1.0, centre + half))
    return (low, high)


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of `k` attempts passes, when `c` of `n` did: unbiased.

    1 - C(n-c, k) / C(n, k). M. Chen et al. (2021), "Evaluating large language models trained on
    code", arXiv:2107.03374, section 2.1.
    """
    _check_attempts(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of `k` attempts pass ("pass^k"), when `c` of `n` did: unbiased.

    C(c, k) / C(n, k). S. Yao et al. (2024), "τ-bench", arXiv:2406.12045.
    """
    _check_attempts(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check_attempts(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"{c} passed of {n} attempts, k = {k}: need 0 <= c <= n and 1 <= k <= n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean over tasks, with its interval. Both are fractions."""

    value: float
    interval: Interval


def cluster_rate(
    successes: Sequence[float], sizes: Sequence[float], confidence: float = 0.95
) -> Estimate | None:
    """The pass rate over all attempts, with an interval that treats each task as one cluster.

    `successes[i]` of `sizes[i]` attempts of task i passed; tasks of size 0 say nothing and are
    left out. None when no attempt is left.

    The variance of sum(successes) / sum(sizes) is the cluster-robust one (K.-Y. Liang and
    S. L. Zeger 1986, Biometrika 73:13-22, with the factor m / (m - 1) for m tasks; for model
    evaluations: E. Miller 2024, "Adding error bars to evals", arXiv:2411.00640). It gives an
    effective number of trials p (1 - p) / variance, which goes into Wilson's formula with
    Student's t of m - 1 degrees of freedom (C. Franco et al. 2019, J. Surv. Stat. Methodol.
    7:334-364; E. L. Korn and B. I. Graubard 1998, Surv. Methodol. 24:193-201), so that the
    interval stays inside 0..1 and does not shrink to a point when all attempts agree: then the
    tasks are counted, not the attempts.
    """
    pairs = [(x, n) for x, n in zip(successes, sizes, strict=True) if n > 0]
    if not pairs:
        return None
    tasks, total = len(pairs), math.fsum(n for _, n in pairs)
    p = min(1.0, max(0.0, math.fsum(x for x, _ in pairs) / total))
    if tasks == 1:
        return Estimate(value=p, interval=(0.0, 1.0))
    squares = math.fsum((x - p * n) ** 2 for x, n in pairs)
    variance = tasks / (tasks - 1) * squares / total**2
    effective = _effective_size(p, variance, tasks, total)
    critical = student_t_critical(tasks - 1, confidence)
    return Estimate(value=p, interval=_score_interval(p, effective, critical))


def _effective_size(p: float, variance: float, tasks: int, total: float) -> float:
    """How many independent trials would have this variance; never more than there were."""
    if p in (0.0, 1.0):
        return tasks
    binomial = p * (1.0 - p)
    if variance * total <= binomial:
        return total
    return binomial / variance


def mean_pass_at_k(
    counts: Sequence[tuple[int, int]], k: int, confidence: float = 0.95
) -> Estimate | None:
    """pass@k over tasks: the mean of each task's unbiased estimate, with its interval.

    `counts[i]` is (attempts, passed) of task i. Tasks with fewer than k attempts can't be
    estimated and are left out; None when none is left.
    """
    usable = [(n, pass_at_k(n, c, k)) for n, c in counts if n >= k]
    return _mean_over_tasks(usable, k, confidence)


def mean_pass_hat_k(
    counts: Sequence[tuple[int, int]], k: int, confidence: float = 0.95
) -> Estimate | None:
    """pass^k over tasks; see `mean_pass_at_k`."""
    usable = [(n, pass_hat_k(n, c, k)) for n, c in counts if n >= k]
    return _mean_over_tasks(usable, k, confidence)


def _mean_over_tasks(
    values: Sequence[tuple[int, float]], k: int, confidence: float
) -> Estimate | None:
    """Each task weighs the same, and stands for as many trials as it has disjoint groups of k."""
    if not values:
        return None
    groups = min(n for n, _ in values) // k
    return cluster_rate([value * groups for _, value in values], [groups] * len(values), confidence)
