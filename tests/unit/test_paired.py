from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from tbh_action.comparison import paired
from tbh_action.comparison.paired import (
    Pairs,
    detectable_drop,
    detectable_mean_drop,
    mcnemar_exact,
    mean_difference,
    newcombe_difference,
    sign_flip_test,
)

TABLES = [
    *itertools.product([0, 1, 3, 40], [0, 1, 12], [0, 1, 7], [0, 2, 30]),
    (1, 1, 7, 12),
    (14, 5, 0, 22),
]


def pairs_of(both: int, fixed: int, broken: int, neither: int) -> Pairs:
    return Pairs(both_passed=both, fixed=fixed, broken=broken, both_failed=neither)


@pytest.mark.parametrize("broken", [0, 1, 2, 7, 30, 400])
@pytest.mark.parametrize("fixed", [0, 1, 3, 7, 29, 380])
def test_mcnemar_exact__agrees_with_statsmodels(broken: int, fixed: int) -> None:
    expected = mcnemar([[5, fixed], [broken, 5]], exact=True).pvalue
    assert mcnemar_exact(broken, fixed) == pytest.approx(min(1.0, expected), abs=1e-9)


def test_mcnemar_exact__without_change_is_one() -> None:
    assert mcnemar_exact(0, 0) == 1.0


def newcombe_with_statsmodels(
    both: int, fixed: int, broken: int, neither: int, alpha: float
) -> tuple[float, float]:
    """Method 10 once more, from raw outcomes: Wilson by statsmodels, phi by numpy."""
    ours = np.array([1] * both + [1] * fixed + [0] * broken + [0] * neither)
    theirs = np.array([1] * both + [0] * fixed + [1] * broken + [0] * neither)
    n, p1, p2 = len(ours), ours.mean(), theirs.mean()
    l1, u1 = proportion_confint(ours.sum(), n, alpha=alpha, method="wilson")
    l2, u2 = proportion_confint(theirs.sum(), n, alpha=alpha, method="wilson")
    phi = 0.0
    if 0 < p1 < 1 and 0 < p2 < 1:
        covariance = n * (ours * theirs).sum() - ours.sum() * theirs.sum()
        if covariance > 0:
            covariance = max(covariance - n / 2, 0)
        phi = covariance / (n**2 * ours.std() * theirs.std())
    low = np.sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    high = np.sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    return float(max(-1.0, p1 - p2 - low)), float(min(1.0, p1 - p2 + high))


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_newcombe_difference__agrees_with_statsmodels_and_numpy(alpha: float) -> None:
    for table in TABLES:
        if sum(table) == 0:
            continue
        estimate = newcombe_difference(pairs_of(*table), 1 - alpha)
        assert estimate is not None
        expected = newcombe_with_statsmodels(*table, alpha)
        assert estimate.interval == pytest.approx(expected, abs=1e-9), table


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # Fagerland, Lydersen and Laake 2014, Stat. Med. 33:2850-2875, airway hyper-responsiveness.
        ((1, 1, 7, 12), -0.507, -0.026),
        # Altman et al. 2000, "Statistics with confidence", table 6.2.
        ((14, 5, 0, 22), 0.011, 0.226),
    ],
)
def test_newcombe_difference__of_published_examples(
    table: tuple[int, int, int, int], low: float, high: float
) -> None:
    estimate = newcombe_difference(pairs_of(*table))
    assert estimate is not None
    assert estimate.interval == pytest.approx((low, high), abs=6e-4)


def test_newcombe_difference__without_pairs() -> None:
    assert newcombe_difference(pairs_of(0, 0, 0, 0)) is None


@settings(deadline=None)
@given(st.tuples(*[st.integers(0, 60)] * 4).filter(any))
def test_newcombe_difference__invariants(table: tuple[int, int, int, int]) -> None:
    both, fixed, broken, neither = table
    estimate = newcombe_difference(pairs_of(*table))
    mirrored = newcombe_difference(pairs_of(both, broken, fixed, neither))
    assert estimate is not None
    assert mirrored is not None
    low, high = estimate.interval
    assert -1.0 <= low <= estimate.value <= high <= 1.0
    assert low < high
    assert mirrored.interval == pytest.approx((-high, -low), abs=1e-12)


def flipped_p(differences: list[Fraction]) -> float:
    """The sign-flip p-value by trying every pattern."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(value >= observed for value in sums) / len(sums)


FIFTHS = st.integers(-5, 5).map(lambda n: Fraction(n, 5))
MIXED = st.tuples(st.integers(-12, 12), st.sampled_from([1, 3, 4, 12])).map(
    lambda pair: max(Fraction(-1), min(Fraction(1), Fraction(*pair)))
)


@settings(deadline=None)
@given(st.lists(st.one_of(FIFTHS, MIXED), min_size=1, max_size=9))
def test_sign_flip_test__is_the_share_of_all_patterns(differences: list[Fraction]) -> None:
    result = sign_flip_test(differences)
    assert result.exact
    assert result.p_value == pytest.approx(flipped_p(differences), abs=1e-12)


def test_sign_flip_test__agrees_with_scipy() -> None:
    differences = [Fraction(n, 5) for n in (-3, -1, 0, -2, 1, -4, 2, -1, -5, -1)]
    expected = stats.permutation_test(
        ([float(d) for d in differences],),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    ).pvalue
    assert sign_flip_test(differences).p_value == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
def test_sign_flip_test__of_single_attempts_is_mcnemar(broken: int, fixed: int, same: int) -> None:
    moves = [Fraction(-1)] * broken + [Fraction(1)] * fixed + [Fraction(0)] * same
    assert sign_flip_test(moves).p_value == pytest.approx(mcnemar_exact(broken, fixed), abs=1e-12)


def test_sign_flip_test__without_differences_is_one() -> None:
    assert sign_flip_test([]).p_value == 1.0
    assert sign_flip_test([Fraction(0)] * 4).p_value == 1.0


def test_sign_flip_test__samples_when_counting_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    differences = [Fraction(n, 60) for n in (-13, 7, -31, 2, -25, 11, -9, 4, -17, 3, -2, -8)]
    exact = sign_flip_test(differences)
    monkeypatch.setattr(paired, "_EXACT_STEPS", 0)
    sampled = sign_flip_test(differences)
    error = (exact.p_value * (1 - exact.p_value) / paired.SAMPLES) ** 0.5
    assert not sampled.exact
    assert sampled.p_value == pytest.approx(exact.p_value, abs=4 * error)
    assert sampled == sign_flip_test(differences)


def test_sign_flip_test__a_sampled_p_is_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "_EXACT_STEPS", -1)
    result = sign_flip_test([Fraction(-1)] * 200, samples=99)
    assert result.p_value == pytest.approx(0.01)


DIFFERENCES = [
    [Fraction(n, 5) for n in (-3, -1, 0, -2, 1, -4, 2, -1, -5, -1)],
    [Fraction(0)] * 6,
    [Fraction(1)] * 4,
    [Fraction(-2, 3)],
]


@pytest.mark.parametrize("differences", DIFFERENCES)
@pytest.mark.parametrize("attempts", [1, 5])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_mean_difference__agrees_with_statsmodels(
    differences: list[Fraction], attempts: int, confidence: float
) -> None:
    values = [float(d) for d in differences]
    adjusted = DescrStatsW([*values, 1 / attempts, -1 / attempts])
    low, high = adjusted.tconfint_mean(alpha=1 - confidence)
    estimate = mean_difference(differences, confidence, attempts=attempts)
    assert estimate is not None
    assert estimate.value == pytest.approx(np.mean(values), abs=1e-12)
    # Where the two tasks pull the interval past the estimate itself, it ends there.
    expected = (max(-1, min(low, estimate.value)), min(1, max(high, estimate.value)))
    assert estimate.interval == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("tasks", "attempts", "spread"), [(89, 5, 0.5), (20, 5, 0.5), (20, 3, 0.1)]
)
def test_mean_difference__covers_the_truth(tasks: int, attempts: int, spread: float) -> None:
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        rates = random.beta(spread, spread, tasks)
        moves = random.binomial(attempts, rates) - random.binomial(attempts, rates)
        differences = [Fraction(int(move), attempts) for move in moves]
        estimate = mean_difference(differences, attempts=attempts)
        assert estimate is not None
        covered += estimate.interval[0] <= 0 <= estimate.interval[1]
    assert covered >= 935  # 950 less two standard errors


@settings(deadline=None)
@given(st.lists(st.one_of(FIFTHS, MIXED), min_size=1, max_size=60), st.integers(1, 12))
def test_mean_difference__invariants(differences: list[Fraction], attempts: int) -> None:
    estimate = mean_difference(differences, attempts=attempts)
    assert estimate is not None
    low, high = estimate.interval
    assert -1.0 <= low <= estimate.value <= high <= 1.0
    assert low < high


def test_mean_difference__without_tasks() -> None:
    assert mean_difference([]) is None
    assert detectable_mean_drop([]) is None


def power_by_scipy(drop: float, n: int, background: float, alpha: float) -> float:
    """The chance of a significant drop, summed over every table of changed tasks."""
    changed = max(background, drop)
    total = 0.0
    for m in range(n + 1):
        broken = np.arange(m + 1)
        p = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(broken, m - broken), m, 0.5))
        hit = (p <= alpha * (1 + 1e-12)) & (2 * broken > m)
        weights = stats.binom.pmf(broken, m, min(1.0, (changed + drop) / (2 * changed)))
        total += stats.binom.pmf(m, n, changed) * weights[hit].sum()
    return float(total)


@pytest.mark.parametrize(
    ("n", "discordant", "alpha"),
    [(6, 0, 0.05), (20, 3, 0.05), (89, 0, 0.05), (89, 9, 0.05), (89, 30, 0.01), (150, 150, 0.1)],
)
def test_detectable_drop__agrees_with_scipy(n: int, discordant: int, alpha: float) -> None:
    expected = optimize.brentq(
        lambda drop: power_by_scipy(drop, n, discordant / n, alpha) - 0.8, 1e-6, 1.0, xtol=1e-13
    )
    assert detectable_drop(n, discordant, alpha=alpha) == pytest.approx(expected, abs=1e-9)


def test_detectable_drop__simulated() -> None:
    # 89 tasks, 9 change anyway: the drop found must be significant in 8 of 10 simulated runs.
    drop = detectable_drop(89, 9)
    assert drop is not None
    changed = max(9 / 89, drop)
    random = np.random.default_rng(1)
    tables = random.multinomial(
        89, [(changed + drop) / 2, (changed - drop) / 2, 1 - changed], size=20_000
    )
    found = [mcnemar_exact(int(b), int(f)) <= 0.05 and b > f for b, f, _ in tables]
    assert np.mean(found) == pytest.approx(0.8, abs=0.012)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_detectable_drop__too_few_tasks_for_any(n: int) -> None:
    assert detectable_drop(n, 0) is None


@settings(deadline=None)
@given(st.integers(6, 120).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_detectable_drop__invariants(case: tuple[int, int]) -> None:
    n, discordant = case
    drop = detectable_drop(n, discordant)
    assert drop is not None
    assert 6 / n * 0.8 < drop <= 1.0
    stricter = detectable_drop(n, discordant, alpha=0.04)
    surer = detectable_drop(n, discordant, power=0.9)
    assert stricter is not None
    assert surer is not None
    assert stricter >= drop
    assert surer > drop


def test_detectable_mean_drop__is_the_textbook_formula() -> None:
    differences = DIFFERENCES[0]
    values = [*map(float, differences), 0.2, -0.2]
    df = len(values) - 1
    factor = stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)
    expected = factor * stats.sem(values)
    assert detectable_mean_drop(differences, attempts=5) == pytest.approx(expected, abs=1e-9)


def test_detectable_mean_drop__none_when_no_drop_would_be_found() -> None:
    assert detectable_mean_drop([Fraction(0)] * 5) is None
    assert detectable_mean_drop([Fraction(0)] * 6) is not None
    assert detectable_mean_drop([Fraction(1), Fraction(-1)] * 3) is None
