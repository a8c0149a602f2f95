from __future__ import annotations

import pytest
from scipy import special, stats

from tbh_action.comparison.distributions import beta_cdf, binomial_at_least, student_t_critical


@pytest.mark.parametrize("a", [0.5, 1.0, 3.0, 44.5, 1000.0])
@pytest.mark.parametrize("b", [0.5, 1.0, 2.5, 60.0, 900.0])
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.01, 0.3, 0.5, 0.77, 0.999, 1.0])
def test_beta_cdf__agrees_with_scipy(a: float, b: float, x: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-11)


@pytest.mark.parametrize("n", [1, 2, 17, 400])
@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 0.9, 1.0])
def test_binomial_at_least__agrees_with_scipy(n: int, p: float) -> None:
    for k in (0, 1, n // 2, n, n + 1):
        assert binomial_at_least(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), abs=1e-11)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 88, 1999])
@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.6, 0.9, 0.95, 0.999])
def test_student_t_critical__agrees_with_scipy(df: int, confidence: float) -> None:
    expected = stats.t.ppf((1 + confidence) / 2, df)
    assert student_t_critical(df, confidence) == pytest.approx(expected, rel=1e-9)
