from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from tbh_action.comparison.stats import (
    cluster_rate,
    mean_pass_at_k,
    mean_pass_hat_k,
    normal_critical,
    pass_at_k,
    pass_hat_k,
    wilson,
)

CLUSTERS = [
    ([3, 5, 0, 2], [5, 5, 5, 5]),
    ([1, 0, 1, 1, 0], [1, 1, 1, 1, 1]),
    ([2, 1, 4, 0, 3], [3, 1, 5, 2, 3]),
    ([1, 2], [4, 5]),
    ([0, 9, 1, 8, 2], [10, 10, 10, 10, 10]),
]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 89, 445, 100_000])
def test_wilson__agrees_with_statsmodels(n: int, confidence: float) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        expected = proportion_confint(k, n, alpha=1 - confidence, method="wilson")
        assert wilson(k, n, confidence) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)],
)
def test_wilson__of_published_examples(k: int, n: int, low: float, high: float) -> None:
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I.
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson__without_trials_knows_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (1, 0)])
def test_wilson__impossible_counts(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(k, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_normal_critical__refuses_what_is_no_probability(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        normal_critical(confidence)


@settings(deadline=None)
@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson__invariants(counts: tuple[int, int]) -> None:
    k, n = counts
    low, high = wilson(k, n)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert low < high
    assert (1 - high, 1 - low) == pytest.approx(wilson(n - k, n), abs=1e-12)


def _draws(n: int, c: int, k: int) -> list[int]:
    """How many attempts pass in each of the draws of k among n, c of which passed."""
    return [sum(draw) for draw in itertools.combinations([1] * c + [0] * (n - c), k)]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k__is_the_share_of_draws_with_a_pass(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = _draws(n, c, k)
        share = sum(passed > 0 for passed in draws) / len(draws)
        assert pass_at_k(n, c, k) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_hat_k__is_the_share_of_draws_that_all_pass(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = _draws(n, c, k)
        share = sum(passed == k for passed in draws) / len(draws)
        assert pass_hat_k(n, c, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k__agrees_with_the_paper_s_own_code() -> None:
    # Chen et al. 2021, figure 3: 1 - prod(1 - k / arange(n - c + 1, n + 1)).
    for n, c, k in [(200, 3, 100), (200, 120, 10), (10, 1, 1), (10, 10, 3), (10, 0, 5)]:
        expected = 1.0 if n - c < k else 1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1))
        assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k__impossible_counts(n: int, c: int, k: int) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="attempts"):
            estimate(n, c, k)


def _cluster_variance(successes: list[int], sizes: list[int]) -> float:
    """The squared standard error that statsmodels gives for the mean of all attempts."""
    outcomes, groups = [], []
    for number, (passed, size) in enumerate(zip(successes, sizes, strict=True)):
        outcomes += [1.0] * passed + [0.0] * (size - passed)
        groups += [number] * size
    model = sm.OLS(np.array(outcomes), np.ones(len(outcomes)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)}, use_t=True)
    return float(fit.bse[0] ** 2)


@pytest.mark.parametrize(("successes", "sizes"), CLUSTERS)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_cluster_rate__agrees_with_statsmodels(
    successes: list[int], sizes: list[int], confidence: float
) -> None:
    total, tasks = sum(sizes), len(sizes)
    p = sum(successes) / total
    effective = min(total, p * (1 - p) / _cluster_variance(successes, sizes))
    critical = stats.t.ppf((1 + confidence) / 2, tasks - 1)
    expected = proportion_confint(
        p * effective, effective, alpha=2 * stats.norm.sf(critical), method="wilson"
    )
    estimate = cluster_rate(successes, sizes, confidence)
    assert estimate is not None
    assert estimate.value == pytest.approx(p, abs=1e-12)
    assert estimate.interval == pytest.approx(expected, abs=1e-9)


def test_cluster_rate__attempts_that_agree_count_as_one() -> None:
    five_times = cluster_rate([5, 5, 0, 5, 0, 5], [5] * 6)
    once = cluster_rate([1, 1, 0, 1, 0, 1], [1] * 6)
    assert five_times is not None
    assert once is not None
    assert five_times.interval == pytest.approx(once.interval, abs=1e-12)


@pytest.mark.parametrize("successes", [[0] * 4, [5] * 4])
def test_cluster_rate__all_equal_is_not_certain(successes: list[int]) -> None:
    estimate = cluster_rate(successes, [5] * 4)
    assert estimate is not None
    critical = stats.t.ppf(0.975, 3)
    edge = critical**2 / (4 + critical**2)  # Wilson's bound for 0 of 4 tasks
    expected = (0.0, edge) if successes[0] == 0 else (1 - edge, 1.0)
    assert estimate.interval == pytest.approx(expected, abs=1e-9)


def test_cluster_rate__edges() -> None:
    assert cluster_rate([], []) is None
    assert cluster_rate([0, 0], [0, 0]) is None
    one = cluster_rate([3], [5])
    assert one is not None
    assert (one.value, one.interval) == (0.6, (0.0, 1.0))


@pytest.mark.parametrize(("tasks", "a", "b"), [(89, 0.5, 0.4), (20, 0.5, 0.4), (89, 5, 4)])
def test_cluster_rate__covers_the_truth_where_wilson_over_trials_does_not(
    tasks: int, a: float, b: float
) -> None:
    random = np.random.default_rng(3)
    covered = naive = 0
    for _ in range(1000):
        passed = random.binomial(5, random.beta(a, b, tasks)).tolist()
        estimate = cluster_rate(passed, [5] * tasks)
        assert estimate is not None
        covered += estimate.interval[0] <= a / (a + b) <= estimate.interval[1]
        low, high = wilson(sum(passed), 5 * tasks)
        naive += low <= a / (a + b) <= high
    assert covered >= 935  # 950 less two standard errors
    assert naive < 935


@st.composite
def clusters(draw: st.DrawFn) -> list[tuple[int, int]]:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=30))
    return [(draw(st.integers(0, size)), size) for size in sizes]


@settings(deadline=None)
@given(clusters())
def test_cluster_rate__invariants(pairs: list[tuple[int, int]]) -> None:
    estimate = cluster_rate([x for x, _ in pairs], [n for _, n in pairs])
    if sum(n for _, n in pairs) == 0:
        assert estimate is None
        return
    assert estimate is not None
    low, high = estimate.interval
    assert 0.0 <= low <= estimate.value <= high <= 1.0
    assert low < high
    backwards = cluster_rate([x for x, _ in pairs[::-1]], [n for _, n in pairs[::-1]])
    assert backwards is not None
    assert backwards.interval == pytest.approx(estimate.interval, abs=1e-12)


def test_mean_pass_at_k__agrees_with_scipy_on_the_mean_and_its_error() -> None:
    counts = [(5, 0), (5, 2), (5, 5), (5, 1), (5, 4)]
    values = [1 - math.comb(5 - c, 2) / math.comb(5, 2) for _, c in counts]
    p = float(np.mean(values))
    effective = min(10, p * (1 - p) / stats.sem(values) ** 2)
    critical = stats.t.ppf(0.975, 4)
    expected = proportion_confint(
        p * effective, effective, alpha=2 * stats.norm.sf(critical), method="wilson"
    )
    estimate = mean_pass_at_k(counts, 2)
    assert estimate is not None
    assert estimate.value == pytest.approx(p, abs=1e-12)
    assert estimate.interval == pytest.approx(expected, abs=1e-9)


def test_mean_pass_at_k__of_one_is_the_pass_rate() -> None:
    counts = [(5, 0), (5, 2), (5, 5)]
    at_one, hat_one = mean_pass_at_k(counts, 1), mean_pass_hat_k(counts, 1)
    rate = cluster_rate([0, 2, 5], [5, 5, 5])
    assert at_one == hat_one
    assert at_one is not None
    assert rate is not None
    assert at_one.value == pytest.approx(rate.value)
    assert at_one.interval == pytest.approx(rate.interval)


def test_mean_pass_at_k__leaves_out_tasks_with_too_few_attempts() -> None:
    full = mean_pass_at_k([(3, 1), (3, 3)], 3)
    assert mean_pass_at_k([(3, 1), (2, 2), (3, 3)], 3) == full
    assert mean_pass_at_k([(2, 2)], 3) is None
    assert mean_pass_hat_k([], 1) is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
def test_mean_pass_at_k__grows_with_k_and_pass_hat_k_falls(passed: list[int]) -> None:
    counts = [(5, c) for c in passed]
    at = [mean_pass_at_k(counts, k) for k in range(1, 6)]
    hat = [mean_pass_hat_k(counts, k) for k in range(1, 6)]
    values = [e.value for e in at if e], [e.value for e in hat if e]
    assert [len(v) for v in values] == [5, 5]
    assert values[0] == sorted(values[0])
    assert values[1] == sorted(values[1], reverse=True)
