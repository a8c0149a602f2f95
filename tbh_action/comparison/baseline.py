"""Which earlier run ours is compared with, and why that one.

`PLACE` is a results.json, a directory of runs, or `hf://datasets/org/name`; `PLACE#latest`,
`PLACE#best` and `PLACE#REV` choose among several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tbh_action.comparison.changes import tally
from tbh_action.comparison.conditions import measurement_fingerprint
from tbh_action.comparison.earlier import Earlier, EarlierRun, read_earlier
from tbh_action.errors import SpecError, TbhError
from tbh_action.harbor.documents import mapping

LATEST: Final = "latest"
BEST: Final = "best"
_SHORTEST_REVISION: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The chosen run; None when there is none yet. `why` is a sentence in both cases.

    `unavailable` says that there may be one, but its place could not be read. `history` are the
    earlier runs that were measured as ours was, for flaky tasks; `problems` name files that could
    not be read.
    """

    run: EarlierRun | None
    why: str
    history: tuple[EarlierRun, ...] = ()
    problems: tuple[str, ...] = ()
    unavailable: bool = False

    def document(self) -> dict[str, Any]:
        """`comparison.baseline`: which run it is, in the words of its own file."""
        if self.run is None:
            raise ValueError("no baseline was found")
        return {
            "name": self.run.name,
            "source": self.run.source,
            "commit": commit_of(self.run.results),
            "date": self.run.date,
            "fingerprint": self.run.results.get("fingerprint"),
            "why": self.why,
        }


def commit_of(results: Mapping[str, Any]) -> str | None:
    """The model's revision, else the commit of the CI run that measured it."""
    revision = results["model"].get("revision")
    if revision:
        return str(revision)
    commit = mapping(results.get("provenance")).get("commit")
    return str(commit) if commit else None


def conditions_of(results: Mapping[str, Any]) -> str:
    """The fingerprint of how a run was measured; empty when its file does not say."""
    fields = results.get("fingerprint_fields")
    return measurement_fingerprint(fields) if fields else ""


def find_baseline(text: str, ours: Mapping[str, Any]) -> Baseline:
    """The run that `--baseline TEXT` means for the results `ours`.

    Raises:
        SpecError: no such place, a file that is no results.json, or a revision that is not there.
        NotStartedError: the Hub can't be reached.
    """
    place, _, wanted = text.partition("#")
    return choose(read_earlier(place), ours, wanted=wanted or LATEST, place=place)


def baseline_or_reason(text: str, ours: Mapping[str, Any]) -> Baseline:
    """`find_baseline` for the end of a run, where no problem may cost the results: it becomes
    the reason why nothing was compared, and the gate's doubt."""
    try:
        return find_baseline(text, ours)
    except TbhError as error:
        return Baseline(run=None, why=error.message, unavailable=True)


def check_baseline(text: str) -> None:
    """For before a run: raises what `find_baseline` would raise for the place itself."""
    read_earlier(text.partition("#")[0])


def choose(earlier: Earlier, ours: Mapping[str, Any], *, wanted: str, place: str) -> Baseline:
    """The run among `earlier` that is meant; ours itself is never its own baseline."""
    conditions = conditions_of(ours)
    others = [run for run in earlier.runs if not _is_same_run(run, ours)]
    alike = _alike(others, conditions)

    def answer(run: EarlierRun | None, why: str) -> Baseline:
        return Baseline(run=run, why=why, history=tuple(alike), problems=earlier.problems)

    if earlier.single:
        return answer(earlier.runs[0], "It is the file that was given.")
    if wanted not in (LATEST, BEST):
        return answer(*_by_revision(others, conditions, wanted, place))
    mine = EarlierRun(results=dict(ours), source="this run")
    model = mine.model
    before = [run for run in others if run.model == model and run.instant < mine.instant]
    if not before:
        return answer(None, f"{place} holds no earlier results of {model or 'this model'}.")
    return answer(*_preferred(before, conditions, wanted))


def _preferred(
    before: Sequence[EarlierRun], conditions: str, wanted: str
) -> tuple[EarlierRun, str]:
    """The latest or best of one model's earlier runs: measured alike and complete, if any is."""
    alike = _alike(before, conditions)
    if not alike:
        run = max(before, key=_by_date)
        return run, (
            f"It is the latest of {_count(before)} of this model; "
            "none was measured as this run was."
        )
    whole = [run for run in alike if run.complete]
    pool = whole or alike
    key = _by_score if wanted == BEST else _by_date
    kind = "complete and " if whole else "incomplete but "
    return max(pool, key=key), (
        f"It is the {wanted} of {_count(pool)} of this model that {_verb(pool)} {kind}"
        "measured as this run was."
    )


def _by_revision(
    runs: Sequence[EarlierRun], conditions: str, wanted: str, place: str
) -> tuple[EarlierRun, str]:
    long_enough = len(wanted) >= _SHORTEST_REVISION
    matches: list[EarlierRun] = []
    tests: list[Callable[[EarlierRun], bool]] = [
        lambda run: wanted in (run.name, run.revision),
        lambda run: long_enough and (commit_of(run.results) or "").startswith(wanted),
    ]
    for test in tests:
        matches = matches or [run for run in runs if test(run)]
    if not matches:
        known = sorted({run.revision or run.name for run in runs})[:5]
        raise SpecError(
            f"{place} holds no results of revision {wanted!r}; "
            f"it has {', '.join(known) if known else 'none at all'}."
        )
    matches = _alike(matches, conditions) or matches
    return max(matches, key=_by_date), f"It was asked for by name: {wanted}."


def _is_same_run(run: EarlierRun, ours: Mapping[str, Any]) -> bool:
    theirs, mine = run.results["run"], ours["run"]
    return bool(
        theirs.get("name") == mine.get("name")
        and theirs.get("started_at") == mine.get("started_at")
    )


def _alike(runs: Sequence[EarlierRun], conditions: str) -> list[EarlierRun]:
    """The runs with these measurement conditions; unknown conditions are like no others."""
    return [run for run in runs if conditions and conditions_of(run.results) == conditions]


def _by_date(run: EarlierRun) -> tuple[Any, ...]:
    return (run.instant, run.name, run.source)


def _by_score(run: EarlierRun) -> tuple[Any, ...]:
    tallies = tally(run.results).values()
    planned = sum(item.planned for item in tallies)
    rate = sum(item.passed for item in tallies) / planned if planned else 0.0
    return (rate, *_by_date(run))


def _count(runs: Sequence[EarlierRun]) -> str:
    return "1 earlier result" if len(runs) == 1 else f"{len(runs)} earlier results"


def _verb(runs: Sequence[EarlierRun]) -> str:
    return "is" if len(runs) == 1 else "are"
