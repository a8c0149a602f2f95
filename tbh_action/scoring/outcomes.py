"""What counts: each planned slot of a task gets one trial, or is missing.

Pure and independent of the order of its input; calling it again with its own result changes
nothing. Counts come from here, never from Harbor's totals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from tbh_action.scoring.failures import FailureClass
from tbh_action.scoring.ledger import Attempt

type Status = Literal["passed", "failed", "errored"]

# Harbor cuts the task's part of a trial directory's name here.
HARBOR_NAME_LENGTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One slot of one task. `attempt` counts from 1; `winner` is None when nothing ran."""

    task: str
    attempt: int
    winner: Attempt | None
    superseded: tuple[Attempt, ...] = ()

    @property
    def status(self) -> Status:
        if self.winner is None or not self.winner.scored:
            return "errored"
        return "passed" if self.winner.passed else "failed"

    @property
    def failure_class(self) -> FailureClass:
        return self.winner.failure_class if self.winner else "missing"

    @property
    def reason(self) -> str:
        return self.winner.reason if self.winner else "planned, but no trial of it was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many slots each task has. `sure` is false when only the trials themselves say so."""

    slots: Mapping[str, int]
    sure: bool


def plan_of(names: Iterable[str], n_attempts: int) -> Plan:
    """A plan whose tasks are known by the names that results carry."""
    return Plan(slots=dict.fromkeys(names, n_attempts), sure=True)


def plan_from_lock(
    planned: Sequence[tuple[str, str | None]] | None, attempts: Iterable[Attempt], n_attempts: int
) -> Plan:
    """The plan of a job whose lock has one (name, source) for each planned trial.

    A lock leaves out the organisation that task names in results have: the trials say it, and a
    task that left no trial gets the one that all others share. Without a lock, the tasks that
    left trials are all that is known.
    """
    named = [attempt for attempt in attempts if attempt.task_from == "result.json"]
    if planned is None:
        return Plan(slots=dict.fromkeys((a.task for a in named), n_attempts), sure=False)
    seen: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    for attempt in named:
        for name in {attempt.lock_name, attempt.task}:
            if name:
                seen[name].add((attempt.task, attempt.source))
    organisations = {a.task.rpartition("/")[0] for a in named if a.lock_name}
    prefix = (
        f"{organisations.pop()}/" if len(organisations) == 1 and "" not in organisations else ""
    )
    slots: Counter[str] = Counter()
    for (name, source), number in sorted(Counter(planned).items(), key=repr):
        both = sorted(task for task, origin in seen[name] if origin == source)
        tasks = both or sorted(task for task, _ in seen[name])
        if not tasks:
            tasks = [name if "/" in name else f"{prefix}{name}"]
        for place, task in enumerate(tasks):
            if part := number // len(tasks) + (place < number % len(tasks)):
                slots[task] += part
    return Plan(slots=dict(slots), sure=True)


def name_tasks(attempts: Iterable[Attempt], plan: Plan) -> list[Attempt]:
    """Gives trials without a usable result the full name of their task.

    Their directory tells 32 characters of it, their config a name without the organisation. Where
    two tasks fit, the one that misses more trials is meant.
    """
    result: list[Attempt] = []
    unnamed: list[Attempt] = []
    for attempt in attempts:
        (result if attempt.task_from == "result.json" else unnamed).append(attempt)
    have = Counter(attempt.task for attempt in result)
    short: dict[str, list[str]] = defaultdict(list)
    for task in sorted({*plan.slots, *have}):
        base = task.rpartition("/")[2]
        for key in {task, base, base[:HARBOR_NAME_LENGTH]}:
            short[key].append(task)
    for attempt in sorted(unnamed, key=lambda attempt: attempt.trial):
        fits = short.get(attempt.task) or [attempt.task]
        task = min(fits, key=lambda name: (have[name] - plan.slots.get(name, 0), name))
        have[task] += 1
        result.append(replace(attempt, task=task))
    return result


def outcomes(plan: Plan, attempts: Iterable[Attempt]) -> tuple[Outcome, ...]:
    """One outcome for each planned slot, by task and attempt.

    A scored trial outranks an unscored one, then the latest end wins (instants; none is the
    oldest), then the name, so that ties don't depend on the order. A task that nobody planned is
    left out when the plan is sure (see `unplanned`), else it gets the slots of one task.
    """
    by_task: dict[str, dict[str, Attempt]] = defaultdict(dict)
    for attempt in attempts:
        known = by_task[attempt.task].get(attempt.trial)
        if known is None or _rank(attempt) > _rank(known):
            by_task[attempt.task][attempt.trial] = attempt
    slots = dict(plan.slots)
    if not plan.sure:
        for task in by_task:
            slots.setdefault(task, max(plan.slots.values(), default=1))
    return tuple(
        outcome
        for task in sorted(slots)
        for outcome in _slots_of(task, slots[task], list(by_task.get(task, {}).values()))
    )


def unplanned(plan: Plan, attempts: Iterable[Attempt]) -> list[str]:
    """Tasks with trials that a sure plan does not have."""
    if not plan.sure:
        return []
    return sorted({attempt.task for attempt in attempts} - set(plan.slots))


def first_pass(plan: Plan, attempts: Iterable[Attempt]) -> int:
    """How many slots were passed by the first trials of each task: the score without repeats.

    A trial that was interrupted is no first try: it was stopped, not broken.
    """
    by_task: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.failure_class != "interrupted":
            by_task[attempt.task].append(attempt)
    most = max(plan.slots.values(), default=1)
    passed = 0
    for task, tries in by_task.items():
        slots = plan.slots.get(task, 0 if plan.sure else most)
        passed += sum(attempt.passed for attempt in sorted(tries, key=_by_end)[:slots])
    return passed


def _slots_of(task: str, slots: int, tries: list[Attempt]) -> list[Outcome]:
    """The best `slots` of a task's trials, oldest first, and whom each of them superseded."""
    ranked = sorted(tries, key=_rank, reverse=True)
    winners = sorted(ranked[:slots], key=_by_end)
    rest = sorted(ranked[slots:], key=_by_end)
    # A repeat takes the slot of the trial that it repeats, and ends later than it: the latest
    # winners get the superseded ones.
    superseded: list[list[Attempt]] = [[] for _ in range(slots)]
    for place, attempt in enumerate(rest):
        superseded[slots - 1 - place % slots].append(attempt)
    return [
        Outcome(
            task=task,
            attempt=number + 1,
            winner=winners[number] if number < len(winners) else None,
            superseded=tuple(superseded[number]),
        )
        for number in range(slots)
    ]


def _rank(attempt: Attempt) -> tuple[bool, tuple[float, str, str]]:
    return (attempt.scored, _by_end(attempt))


def _by_end(attempt: Attempt) -> tuple[float, str, str]:
    """By instant of the end, none first. The reason settles what two records of one trial say."""
    end = attempt.finished_at.timestamp() if attempt.finished_at else float("-inf")
    return (end, attempt.trial, attempt.reason)
