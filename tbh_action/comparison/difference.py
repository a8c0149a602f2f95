"""The paired difference of two runs' pass rates: the test, the interval and what it could see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tbh_action.comparison.changes import Tally
from tbh_action.comparison.paired import (
    Pairs,
    detectable_drop,
    detectable_mean_drop,
    mcnemar_exact,
    mean_difference,
    newcombe_difference,
    sign_flip_test,
)
from tbh_action.comparison.stats import Estimate

POWER: Final = 0.8
# Above this many tasks the exact power takes long, and the one by Student's t is as good.
_EXACT_POWER_TASKS: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Ours minus theirs over the tasks that both runs scored; the interval has level 1 - alpha."""

    n_pairs: int
    test: str
    p_value: float
    estimate: Estimate | None
    method: str
    detectable: float | None

    def is_drop(self, *, alpha: float, min_effect: float) -> bool:
        """Whether the pass rate fell significantly and by at least `min_effect`."""
        if self.estimate is None or self.estimate.value >= 0 or self.p_value > alpha:
            return False
        # The drop is a ratio of small whole numbers; 1e-12 only undoes its rounding.
        return -self.estimate.value >= min_effect - 1e-12

    def document(self) -> dict[str, Any]:
        """The keys `test`, `difference` and `smallest_detectable_drop` of a comparison."""
        estimate = self.estimate
        return {
            "test": {"name": self.test, "p_value": self.p_value, "n_pairs": self.n_pairs},
            "difference": {
                "value": estimate.value if estimate else None,
                "interval": list(estimate.interval) if estimate else None,
                "method": self.method,
            },
            "smallest_detectable_drop": self.detectable,
        }


def paired_difference(
    ours: Mapping[str, Tally], theirs: Mapping[str, Tally], *, alpha: float
) -> Difference:
    """The difference over the tasks scored in both; the test fits the number of attempts."""
    paired = [
        (ours[task], theirs[task])
        for task in ours
        if task in theirs and ours[task].scored and theirs[task].scored
    ]
    if all(a.scored == b.scored == 1 for a, b in paired):
        return _of_one_attempt(paired, alpha)
    return _of_several_attempts(paired, alpha)


def _of_one_attempt(paired: Sequence[tuple[Tally, Tally]], alpha: float) -> Difference:
    count = Counter((a.passed, b.passed) for a, b in paired)
    pairs = Pairs(
        both_passed=count[1, 1], fixed=count[1, 0], broken=count[0, 1], both_failed=count[0, 0]
    )
    if pairs.n <= _EXACT_POWER_TASKS:
        discordant = pairs.broken + pairs.fixed
        detectable = detectable_drop(pairs.n, discordant, alpha=alpha, power=POWER)
    else:
        moves = [Fraction(a.passed - b.passed) for a, b in paired]
        detectable = detectable_mean_drop(moves, alpha=alpha, power=POWER)
    return Difference(
        n_pairs=pairs.n,
        test="exact McNemar",
        p_value=mcnemar_exact(pairs.broken, pairs.fixed),
        estimate=newcombe_difference(pairs, 1.0 - alpha),
        method="Newcombe 1998, method 10",
        detectable=detectable,
    )


def _of_several_attempts(paired: Sequence[tuple[Tally, Tally]], alpha: float) -> Difference:
    moves = [Fraction(a.passed, a.scored) - Fraction(b.passed, b.scored) for a, b in paired]
    attempts = max(max(a.scored, b.scored) for a, b in paired)
    permutation = sign_flip_test(moves)
    return Difference(
        n_pairs=len(paired),
        test="paired permutation" if permutation.exact else "paired permutation (sampled)",
        p_value=permutation.p_value,
        estimate=mean_difference(moves, 1.0 - alpha, attempts=attempts),
        method="t over tasks, Bonett and Price 2012",
        detectable=detectable_mean_drop(moves, attempts=attempts, alpha=alpha, power=POWER),
    )
