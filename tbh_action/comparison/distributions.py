"""The two distributions that the statistics need and the standard library lacks.

No numpy or scipy at run time: both are a few lines on top of `math`, and the tests hold them
against scipy to 1e-9.
"""

from __future__ import annotations

import math
from typing import Final

_TINY: Final = 1e-300
_PRECISION: Final = 1e-16
_MAX_TERMS: Final = 10_000


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), for a, b > 0.

    The continued fraction DLMF 8.17.22, evaluated by Lentz's method, on the side where it
    converges fast (DLMF 8.17.4 gives the other).
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    return math.exp(log_front) / _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) of DLMF 8.17.22, by the modified Lentz method."""
    value = c = 1.0
    d = 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 + step * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + step / c
        c = c if abs(c) > _TINY else _TINY
        value *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return value


def binomial_at_least(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p): the upper tail as an incomplete beta (DLMF 8.17.5)."""
    if k <= 0:
        return 1.0
    if k > n:
        return 0.0
    return beta_cdf(p, k, n - k + 1)


def student_t_critical(df: int, confidence: float) -> float:
    """The t with P(|T| <= t) = confidence, T Student's with `df` >= 1 degrees of freedom.

    P(|T| <= t) = I_y(1/2, df/2) with y = t² / (df + t²); solved for t by bisection.
    """
    low, high = 0.0, 1.0
    while _within(high, df) < confidence:
        low, high = high, high * 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if _within(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, df: int) -> float:
    return beta_cdf(t * t / (df + t * t), 0.5, df / 2.0)
