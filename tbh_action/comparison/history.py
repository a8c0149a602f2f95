"""The results of many runs as a trend: one point a run, comparable ones in one series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tbh_action.comparison.baseline import conditions_of
from tbh_action.comparison.changes import tally
from tbh_action.comparison.earlier import EarlierRun
from tbh_action.comparison.stats import cluster_rate, wilson
from tbh_action.harbor.documents import amount, mapping
from tbh_action.scoring.fingerprint import fingerprint_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One run. Rates and bounds are fractions; `rate_all` counts unscored trials as not passed."""

    date: str | None
    name: str
    model: str
    revision: str
    source: str
    complete: bool
    planned: int
    scored: int
    passed: int
    rate_all: float | None
    interval_all: tuple[float, float]
    rate_scored: float | None
    interval_scored: tuple[float, float]
    total_usd: float | None

    def document(self) -> dict[str, Any]:
        return {
            "date": self.date,
            "name": self.name,
            "model": self.model,
            "revision": self.revision,
            "source": self.source,
            "complete": self.complete,
            "counts": {"planned": self.planned, "scored": self.scored, "passed": self.passed},
            "rates": {"all": self.rate_all, "scored": self.rate_scored},
            "intervals": {"all": list(self.interval_all), "scored": list(self.interval_scored)},
            "total_usd": self.total_usd,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Runs that were measured alike, the oldest first. Points of two series can't be compared."""

    conditions: str
    benchmark: str
    points: tuple[Point, ...]

    def document(self) -> dict[str, Any]:
        return {
            "conditions": self.conditions,
            "benchmark": self.benchmark,
            "points": [point.document() for point in self.points],
        }


def trend(runs: Iterable[EarlierRun], *, model: str | None = None) -> list[Series]:
    """The runs (of `model`, if given) by measurement conditions; the series last used is last."""
    groups: dict[str, list[EarlierRun]] = {}
    for run in sorted(runs, key=lambda run: (run.instant, run.name, run.source)):
        if model is None or run.model == model:
            groups.setdefault(conditions_of(run.results), []).append(run)
    ordered = sorted(groups.items(), key=lambda item: item[1][-1].instant)
    return [
        Series(
            conditions=conditions,
            benchmark=_benchmark(members[-1].results),
            points=tuple(_point(run) for run in members),
        )
        for conditions, members in ordered
    ]


def _benchmark(results: Mapping[str, Any]) -> str:
    return str(mapping(results.get("benchmark")).get("name") or "")


def _point(run: EarlierRun) -> Point:
    """Counts and rates from the rows of the tasks, never from totals that a file claims."""
    tallies = tally(run.results).values()
    planned = sum(item.planned for item in tallies)
    scored = sum(item.scored for item in tallies)
    passed = sum(item.passed for item in tallies)
    passes = [item.passed for item in tallies]
    return Point(
        date=run.date,
        name=run.name,
        model=run.model,
        revision=run.revision,
        source=run.source,
        complete=run.complete,
        planned=planned,
        scored=scored,
        passed=passed,
        rate_all=passed / planned if planned else None,
        interval_all=_interval(passes, [item.planned for item in tallies]),
        rate_scored=passed / scored if scored else None,
        interval_scored=_interval(passes, [item.scored for item in tallies]),
        total_usd=_total_usd(run.results),
    )


def _interval(passes: Sequence[int], sizes: Sequence[int]) -> tuple[float, float]:
    """Wilson's for one attempt a task, else with tasks as clusters; 0 to 1 without trials."""
    if all(size <= 1 for size in sizes):
        return wilson(sum(passes), sum(sizes))
    estimate = cluster_rate(passes, sizes)
    return estimate.interval if estimate else (0.0, 1.0)


def _total_usd(results: Mapping[str, Any]) -> float | None:
    return amount(mapping(results.get("cost")).get("total_usd"))


def flaky_tasks(runs: Iterable[EarlierRun]) -> list[dict[str, Any]]:
    """Tasks that both passed and failed with everything the same: `{"task", "passed", "failed"}`.

    "The same" is the whole fingerprint, model and serving included: a task that a new release
    fixed is not flaky. Attempts of one run count as well. Sorted by name.
    """
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for run in runs:
        fields = run.results.get("fingerprint_fields")
        if not fields:
            continue
        same = fingerprint_of(fields)
        for task, item in tally(run.results).items():
            passed, failed = totals.get((task, same), (0, 0))
            totals[task, same] = (passed + item.passed, failed + item.scored - item.passed)
    mixed: dict[str, tuple[int, int]] = {}
    for (task, _), (passed, failed) in totals.items():
        if passed and failed:
            before = mixed.get(task, (0, 0))
            mixed[task] = (before[0] + passed, before[1] + failed)
    return [
        {"task": task, "passed": passed, "failed": failed}
        for task, (passed, failed) in sorted(mixed.items())
    ]
