"""Two runs over the same tasks: is the difference more than chance, and how large may it be.

The unit is the task. With one scored attempt on each side a task is a pair of yes and no: exact
McNemar test and Newcombe's interval. With more attempts it is a difference of two pass rates: the
sign-flip permutation test and a t interval over tasks. Differences are `ours - theirs`, as
fractions; a negative one is a drop. No function here has a clock or hidden randomness.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tbh_action.comparison.distributions import binomial_at_least, student_t_critical
from tbh_action.comparison.stats import Estimate, wilson

SAMPLES: Final = 20_000
SEED: Final = 20_220_101
# Additions up to which the permutation distribution is computed exactly: about a second.
_EXACT_STEPS: Final = 4_000_000
_NEGLIGIBLE: Final = 1e-16


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """How the tasks that both runs scored (once each) split up."""

    both_passed: int
    fixed: int
    broken: int
    both_failed: int

    @property
    def n(self) -> int:
        return self.both_passed + self.fixed + self.broken + self.both_failed


def mcnemar_exact(broken: int, fixed: int) -> float:
    """Two-sided p-value of the exact McNemar test: 1 when no task changed.

    Given broken + fixed changed tasks, `broken` is Binomial(n, 1/2) when nothing but chance is at
    work; p is twice the smaller tail, at most 1. Q. McNemar (1947), Psychometrika 12:153-157.
    """
    n, ways, tail = broken + fixed, 1, 1
    for i in range(min(broken, fixed)):
        ways = ways * (n - i) // (i + 1)  # C(n, i + 1) from C(n, i), exactly
        tail += ways
    return min(1.0, 2 * tail / (1 << n))


def newcombe_difference(pairs: Pairs, confidence: float = 0.95) -> Estimate | None:
    """The difference of the two pass rates over pairs, with its interval; None without pairs.

    Method 10 of R. G. Newcombe (1998), "Improved confidence intervals for the difference between
    binomial proportions based on paired data", Stat. Med. 17:2635-2650: Wilson's intervals of
    both rates, joined with their correlation.
    """
    n = pairs.n
    if n == 0:
        return None
    ours, theirs = pairs.both_passed + pairs.fixed, pairs.both_passed + pairs.broken
    p1, p2 = ours / n, theirs / n
    (l1, u1), (l2, u2) = wilson(ours, n, confidence), wilson(theirs, n, confidence)
    phi = _correlation(pairs, ours, theirs)
    value = (pairs.fixed - pairs.broken) / n
    low = value - _joined(p1 - l1, u2 - p2, phi)
    high = value + _joined(u1 - p1, p2 - l2, phi)
    return Estimate(value=value, interval=(max(-1.0, low), min(1.0, high)))


def _correlation(pairs: Pairs, ours: int, theirs: int) -> float:
    """Newcombe's phi: a positive one is moved towards 0 by n/2, for continuity."""
    n = pairs.n
    margins = ours * (n - ours) * theirs * (n - theirs)
    if margins == 0:
        return 0.0
    cross = pairs.both_passed * pairs.both_failed - pairs.fixed * pairs.broken
    return (cross if cross < 0 else max(0.0, cross - n / 2)) / math.sqrt(margins)


def _joined(a: float, b: float, phi: float) -> float:
    return math.sqrt(max(0.0, a * a - 2.0 * phi * a * b + b * b))


@dataclass(frozen=True, kw_only=True, slots=True)
class Permutation:
    """The p-value of a sign-flip test, and whether all arrangements were counted or sampled."""

    p_value: float
    exact: bool


def sign_flip_test(
    differences: Sequence[Fraction], *, samples: int = SAMPLES, seed: int = SEED
) -> Permutation:
    """Two-sided paired permutation test of "the tasks' differences are symmetric around 0".

    If the two runs are equally good, each task's difference could as well have had the other
    sign. p is the share of all sign patterns whose sum is at least as far from 0 as the observed
    one. R. A. Fisher (1935), The Design of Experiments, section 21. With differences of -1, 0
    and 1 only it is the exact McNemar test.

    All patterns are counted where that is cheap (it is for any benchmark of today); otherwise
    `samples` are drawn with a fixed seed and p = (hits + 1) / (samples + 1), which is never too
    small (B. Phipson and G. K. Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39).
    """
    scale = math.lcm(*(d.denominator for d in differences)) if differences else 1
    moves = [abs(int(d * scale)) for d in differences if d]
    observed = abs(int(sum(differences, Fraction(0)) * scale))
    if observed == 0:
        return Permutation(p_value=1.0, exact=True)
    # The sum is S - 2 s, where s is what the tasks with a minus weigh, and S what all weigh.
    limit = (sum(moves) - observed) // 2
    if limit * len(moves) <= _EXACT_STEPS:
        ways = _subsets_up_to(limit, moves)
        return Permutation(p_value=min(1.0, 2 * ways / (1 << len(moves))), exact=True)
    hits = _sampled_hits(moves, limit, samples, seed)
    return Permutation(p_value=(hits + 1) / (samples + 1), exact=False)


def _subsets_up_to(limit: int, moves: Sequence[int]) -> int:
    """How many subsets of `moves` sum to at most `limit`."""
    ways = [1] + [0] * limit
    for move in moves:
        if move <= limit:
            ways[move:] = [a + b for a, b in zip(ways[move:], ways, strict=False)]
    return sum(ways)


def _sampled_hits(moves: Sequence[int], limit: int, samples: int, seed: int) -> int:
    """How many of `samples` random sign patterns are as far out as `limit`, on either side."""
    draw = random.Random(seed)  # noqa: S311 (a reproducible sample, not a secret)
    groups = sorted(Counter(moves).items())
    total = sum(moves)
    hits = 0
    for _ in range(samples):
        minus = sum(size * draw.getrandbits(count).bit_count() for size, count in groups)
        hits += minus <= limit or total - minus <= limit
    return hits


def mean_difference(
    differences: Sequence[Fraction], confidence: float = 0.95, *, attempts: int = 1
) -> Estimate | None:
    """The mean of the tasks' differences, with a t interval over tasks; None without tasks.

    The interval is that of the tasks and two more, one a single attempt better and one a single
    attempt worse (`attempts` is how many a task has): D. G. Bonett and R. M. Price (2012),
    "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
    data", J. Educ. Behav. Stat. 37:479-488, which has one attempt, with Student's t. So it does
    not shrink to a point when all tasks agree.
    """
    if not differences:
        return None
    value = float(sum(differences, Fraction(0)) / len(differences))
    centre, error, df = _adjusted_error(differences, attempts)
    half = student_t_critical(df, confidence) * error
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return Estimate(value=value, interval=(min(low, value), max(high, value)))


def _adjusted_error(differences: Sequence[Fraction], attempts: int) -> tuple[float, float, int]:
    """Mean, standard error and degrees of freedom with the two tasks of Bonett and Price."""
    adjusted = [*differences, Fraction(1, attempts), Fraction(-1, attempts)]
    m = len(adjusted)
    mean = sum(adjusted, Fraction(0)) / m
    squares = sum(((d - mean) ** 2 for d in adjusted), Fraction(0))
    return float(mean), math.sqrt(squares / (m - 1) / m), m - 1


def detectable_drop(
    n_pairs: int, discordant: int, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true drop that the exact McNemar test finds with probability `power`.

    `n_pairs` tasks were scored once in both runs, `discordant` of them changed. What changes
    anyway is taken as observed, and a drop of d needs at least a share d of changed tasks: of a
    share s = max(discordant / n_pairs, d) a part (s + d) / 2 breaks and (s - d) / 2 is fixed. The
    power is summed over the number of changed tasks (unconditional, as in S. W. Duffy 1984,
    Biometrics 40:1005-1015). None when not even a drop from 1 to 0 would be found.
    """
    if n_pairs == 0 or mcnemar_exact(n_pairs, 0) > alpha:
        return None
    background = discordant / n_pairs
    critical = _critical_fixed(n_pairs, alpha)
    low, high = 0.0, 1.0
    while high - low > 1e-11:
        middle = (low + high) / 2.0
        if _mcnemar_power(n_pairs, middle, max(background, middle), critical) < power:
            low = middle
        else:
            high = middle
    return high


def _critical_fixed(n: int, alpha: float) -> list[int]:
    """For each number m <= n of changed tasks: the most fixed ones at which p <= alpha; or -1."""
    critical, fixed, ways = [-1], -1, 0
    for m in range(1, n + 1):
        # The sum of C(m, 0..fixed) from the one for m - 1, by Pascal's rule.
        ways = 2 * ways - (math.comb(m - 1, fixed) if fixed >= 0 else 0)
        more = ways + math.comb(m, fixed + 1)
        if 2 * more / (1 << m) <= alpha:
            fixed, ways = fixed + 1, more
        critical.append(fixed)
    return critical


def _mcnemar_power(n: int, drop: float, changed: float, critical: Sequence[int]) -> float:
    """The chance of a significant drop, when a share `changed` of n tasks changes."""
    broken_share = min(1.0, (changed + drop) / (2.0 * changed))
    power = 0.0
    for m, weight in enumerate(_binomial_weights(n, changed)):
        if weight > _NEGLIGIBLE and critical[m] >= 0:
            power += weight * binomial_at_least(m - critical[m], m, broken_share)
    return power


def _binomial_weights(n: int, p: float) -> list[float]:
    """P(X = m) for m = 0..n, X ~ Binomial(n, p)."""
    if p >= 1.0:
        return [0.0] * n + [1.0]
    total, yes, no = math.lgamma(n + 1), math.log(p), math.log1p(-p)
    return [
        math.exp(total - math.lgamma(m + 1) - math.lgamma(n - m + 1) + m * yes + (n - m) * no)
        for m in range(n + 1)
    ]


def detectable_mean_drop(
    differences: Sequence[Fraction], *, attempts: int = 1, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true drop of the mean that is found with probability `power`; None if none is.

    (t(1 - alpha/2) + t(power)) times the standard error over tasks, as in `mean_difference`: the
    minimum detectable effect of H. S. Bloom (1995), Eval. Rev. 19:547-556; for model evaluations
    E. Miller (2024), arXiv:2411.00640, section 5. None as well when there are so few tasks that
    no permutation is rare enough.
    """
    if not differences or mcnemar_exact(len(differences), 0) > alpha:
        return None
    _, error, df = _adjusted_error(differences, attempts)
    factor = student_t_critical(df, 1.0 - alpha) + student_t_critical(df, 2.0 * power - 1.0)
    drop = factor * error
    return drop if drop <= 1.0 else None
