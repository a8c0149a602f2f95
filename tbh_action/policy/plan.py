"""What a run would take, before anything is paid: what can't run, how long, how many legs, USD.

All of it follows from the tasks' own files, or from the results of an earlier run. Low and high
are bounds of a schedule, not of chance: see `_makespan`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tbh_action.policy.concurrency import BEARABLE
from tbh_action.policy.schedule import CLOSING, OVERHEAD, agent_limit, worst_seconds

if TYPE_CHECKING:
    from tbh_action.harbor.tasks import TaskInfo
    from tbh_action.policy.hardware import Flavor
    from tbh_action.spec import RunSpec

# The Hub ends a sandbox after a day, whatever it does.
SANDBOX_LIFE: Final = 86_400.0
# What a GitHub-hosted job has (6 h) less a margin for checkout, installation and upload.
HOSTED_LEG: Final = 5.5 * 3600
# Without an earlier run: between a quarter of each agent's limit and all of it.
LOW_SHARE: Final = 0.25
# An earlier run's times, and the chance that the next one is slower and repeats more.
HISTORY_SLACK: Final = 1.5
LOAD_GUESS: Final = 600.0
_NAMES_SHOWN: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A low and a high figure."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TooLong:
    """A task whose worst case (seconds, overhead included) fits no leg or no sandbox. `limit` is
    what there is: a sandbox's life, or a leg less the server's start and the closing."""

    task: str
    worst: float
    limit: float
    where: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The answer of `tbh plan`. `cost` is None when a price is unknown (or nothing is paid for),
    `max_agent_time` the largest cap that makes every task fit, None when all fit already."""

    n_tasks: int
    n_trials: int
    basis: str
    cannot_run: tuple[str, ...]
    too_long: tuple[TooLong, ...]
    max_agent_time: float | None
    leg: float
    seconds: Range
    servers: Range
    legs: Range
    cost: Range | None
    warnings: tuple[str, ...] = ()


def problems(spec: RunSpec, tasks: Iterable[TaskInfo], flavors: Mapping[str, Flavor]) -> list[str]:
    """Why some tasks can't run in this spec's environment; one line for each cause, [] when all
    can. Harbor's other environments judge for themselves."""
    if spec.environment.type != "hf-sandbox":
        return []
    tasks = list(tasks)
    flavor = flavors.get(spec.environment.flavor)
    causes = [
        ("no prebuilt docker_image in task.toml", [t for t in tasks if not t.docker_image]),
        ("needs docker compose", [t for t in tasks if t.compose]),
        ("needs a GPU", [t for t in tasks if t.gpus > 0]),
        (
            "wants its internet access off or limited",
            [t for t in tasks if t.network_mode != "public"],
        ),
    ]
    lines = [
        f"hf-sandbox can't run {_named(found)}: {cause}. Leave out with --exclude-task."
        for cause, found in causes
        if found
    ]
    return lines + (_too_small(tasks, flavor) if flavor else [])


def _too_small(tasks: Sequence[TaskInfo], flavor: Flavor) -> list[str]:
    lines = []
    cpus, memory = flavor.cpus, flavor.memory_mb
    big = [task for task in tasks if cpus is not None and (task.cpus or 0) > cpus]
    if big:
        need = max(task.cpus or 0 for task in big)
        lines.append(
            f"The sandbox flavor {flavor.name} has {cpus:g} CPUs, too few for {_named(big)} "
            f"(up to {need:g}). Choose a larger one: --ek flavor=…"
        )
    big = [task for task in tasks if memory is not None and (task.memory_mb or 0) > memory]
    if big:
        need = max(task.memory_mb or 0 for task in big)
        lines.append(
            f"The sandbox flavor {flavor.name} has {(memory or 0) / 1024:g} GB of memory, too "
            f"little for {_named(big)} (up to {need / 1024:g} GB). "
            "Choose a larger one: --ek flavor=…"
        )
    return lines


def _named(tasks: Sequence[TaskInfo]) -> str:
    names = [task.name for task in tasks[:_NAMES_SHOWN]]
    more = len(tasks) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def make_plan(
    spec: RunSpec,
    tasks: Sequence[TaskInfo],
    flavors: Mapping[str, Flavor],
    *,
    history: Mapping[str, Any] | None = None,
    time_budget: float | None = None,
) -> Plan:
    """The plan of `spec` over `tasks`. `history` is the results.json of an earlier run."""
    leg = time_budget or HOSTED_LEG
    low, high, basis = _trial_seconds(spec, tasks, history)
    seconds = Range(
        low=_makespan(low, spec.n_concurrent, loose=False) + _load(spec, 0.5),
        high=_makespan(high, min(BEARABLE, spec.n_concurrent), loose=True) + _load(spec, 1.0),
    )
    usable = _usable(spec, leg)
    too_long = _too_long(spec, tasks, usable)
    return Plan(
        n_tasks=len(tasks),
        n_trials=len(low),
        basis=basis,
        cannot_run=tuple(problems(spec, tasks, flavors)),
        too_long=too_long,
        max_agent_time=_helpful_cap(spec, tasks, usable) if too_long else None,
        leg=leg,
        seconds=seconds,
        servers=_servers(spec, seconds),
        legs=Range(low=math.ceil(seconds.low / usable), high=math.ceil(seconds.high / usable)),
        cost=_cost(spec, flavors, seconds, Range(low=sum(low), high=sum(high))),
        warnings=_unknown_prices(spec, flavors),
    )


def _trial_seconds(
    spec: RunSpec, tasks: Sequence[TaskInfo], history: Mapping[str, Any] | None
) -> tuple[list[float], list[float], str]:
    """Low and high seconds of each planned trial, and where they come from."""
    earlier, repeats = earlier_seconds(history or {})
    low, high, known = [], [], 0
    for task in tasks:
        limit = agent_limit(task, multiplier=spec.agent_timeout_multiplier, cap=spec.agent.max_time)
        worst = worst_seconds(
            task, multiplier=spec.agent_timeout_multiplier, cap=spec.agent.max_time
        )
        if task.name in earlier:
            known += 1
            low.append(min(worst, earlier[task.name]))
            high.append(min(worst, earlier[task.name] * HISTORY_SLACK) * (1 + repeats))
        else:
            low.append(limit * LOW_SHARE + OVERHEAD)
            high.append(limit + OVERHEAD)
    basis = "the tasks' own timeouts"
    if known:
        basis = f"an earlier run for {known} of {len(tasks)} tasks, timeouts for the rest"
    if known == len(tasks):
        basis = "an earlier run"
    return low * spec.n_attempts, high * spec.n_attempts, basis


def earlier_seconds(results: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """Mean seconds of a scored trial of each task in a results.json, and the share of trials that
    were repeated. Unknown or odd values are left out."""
    times: dict[str, list[float]] = {}
    superseded = 0
    rows = results.get("tasks") or []
    for row in rows:
        seconds = row.get("seconds")
        if row.get("status") in ("passed", "failed") and _is_positive(seconds):
            times.setdefault(str(row["task"]), []).append(float(seconds))
        superseded += int(row.get("superseded") or 0)
    means = {task: sum(values) / len(values) for task, values in times.items()}
    return means, superseded / len(rows) if rows else 0.0


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _makespan(seconds: Sequence[float], concurrency: int, *, loose: bool) -> float:
    """Bounds for any order of starting (Graham, 1966): at least the longest trial and an even
    share, at most the even share and the longest after it."""
    if not seconds:
        return 0.0
    share, longest = sum(seconds) / concurrency, max(seconds)
    return share + longest * (1 - 1 / concurrency) if loose else max(share, longest)


def _load(spec: RunSpec, share: float) -> float:
    """A server's start; its own limit bounds the guess."""
    return share * min(LOAD_GUESS, spec.server.load_timeout) if spec.server else 0.0


def _servers(spec: RunSpec, seconds: Range) -> Range:
    if spec.server is None:
        return Range(low=0, high=0)
    life = spec.server.timeout
    return Range(
        low=spec.server.replicas * math.ceil(seconds.low / life),
        high=spec.server.replicas * math.ceil(seconds.high / life),
    )


def _usable(spec: RunSpec, leg: float) -> float:
    """What a leg has for trials: its time less the server's start and the closing."""
    return max(1.0, leg - min(CLOSING, leg * 0.1) - _load(spec, 1.0))


def _too_long(spec: RunSpec, tasks: Sequence[TaskInfo], usable: float) -> tuple[TooLong, ...]:
    found = []
    for task in tasks:
        worst = worst_seconds(
            task, multiplier=spec.agent_timeout_multiplier, cap=spec.agent.max_time
        )
        if spec.environment.type == "hf-sandbox" and worst > SANDBOX_LIFE:
            found.append(
                TooLong(task=task.name, worst=worst, limit=SANDBOX_LIFE, where="a sandbox's life")
            )
        elif worst > usable:
            found.append(
                TooLong(task=task.name, worst=worst, limit=usable, where="what a leg has for it")
            )
    return tuple(sorted(found, key=lambda item: (-item.worst, item.task)))


def _helpful_cap(spec: RunSpec, tasks: Sequence[TaskInfo], usable: float) -> float | None:
    """The largest --max-agent-time (before the multiplier, whole minutes) with which all fit."""
    longest_check = max((task.verifier_timeout or 0.0) for task in tasks)
    agent = (usable - longest_check - OVERHEAD) / spec.agent_timeout_multiplier
    return math.floor(agent / 60) * 60.0 if agent >= 60 else None


def _cost(
    spec: RunSpec, flavors: Mapping[str, Flavor], seconds: Range, work: Range
) -> Range | None:
    server = 0.0
    if spec.server is not None:
        price = _price(flavors, spec.server.flavor)
        if price is None:
            return None
        server = price * spec.server.replicas
    sandbox: float | None = 0.0
    if spec.environment.type == "hf-sandbox":
        sandbox = _price(flavors, spec.environment.flavor)
    if sandbox is None:
        return None
    return Range(
        low=(seconds.low * server + work.low * sandbox) / 60,
        high=(seconds.high * server + work.high * sandbox) / 60,
    )


def _price(flavors: Mapping[str, Flavor], name: str) -> float | None:
    flavor = flavors.get(name)
    return flavor.usd_per_minute if flavor else None


def _unknown_prices(spec: RunSpec, flavors: Mapping[str, Flavor]) -> tuple[str, ...]:
    wanted = [spec.server.flavor] if spec.server else []
    if spec.environment.type == "hf-sandbox":
        wanted.append(spec.environment.flavor)
    return tuple(
        f"The price of {name} is unknown, so the cost is too."
        for name in wanted
        if _price(flavors, name) is None
    )
