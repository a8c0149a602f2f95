"""The world of `bench/policy.py`: tasks, sandboxes under strain, a server that ends after 4 hours.

What is known and what is assumed:

- 89 tasks (the public benchmark). Agent timeouts: those of 42 tasks that were read from public
  mirrors of terminal-bench-2.1, scaled to 89, the two singular long ones (7,200 s and 12,000 s)
  once each. The multiplier is 4, as in the first public run ("the seed").
- How long the agent works: log-normal around a median that grows with the task's own timeout to
  the power `alpha`; the median is set so that 16 of 89 tasks end in the agent's timeout (the
  seed's count). The spread is set so that half of the tasks take longer than their timeout × 1
  ("far too tight, widespread AgentTimeoutError"). A task's work is drawn once a seed: the same
  tasks for every policy, and for each repetition of a trial.
- Infrastructure failures: a hazard per running trial and hour that depends on how many run. It is
  fitted to the seed's two points (about 70 % of trials at 8; "few" at 3: 10 % assumed). Between
  and below, a power law (others: `shape`). `frailty` makes some tasks weaker than others, for good.
- The model answers somewhat slower when more trials share it (`slowdown` per further trial; the
  seed's rate was at 3). Decoding one stream at the smoke test's 61 tokens/s (681k in 3 h 6 min) is
  bound by memory bandwidth, so that a batch of 8 costs a little each.
- A server takes `load` hours from its first paid second to its first answer.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

# Agent timeouts in seconds → how many of the 89 tasks.
TIMEOUTS: Final = {750: 2, 900: 31, 1200: 4, 1800: 20, 2400: 4, 3600: 26, 7200: 1, 12000: 1}
N_TASKS: Final = sum(TIMEOUTS.values())
MULTIPLIER: Final = 4.0
TIMED_OUT: Final = 16 / 89
OVERHEAD: Final = 180 / 3600
HOUR: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class World:
    """The assumptions. Times are hours, shares are 0..1."""

    errors_at_3: float = 0.10
    errors_at_8: float = 0.70
    shape: str = "power"
    frailty: float = 0.0
    at_start: float = 0.0
    alpha: float = 0.5
    over_timeout: float = 0.5
    slowdown: float = 0.03
    load: float = 10 / 60
    server_life: float = 4.0
    gap_median: float = 0.5
    gap_sigma: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task as drawn: agent timeout (before the multiplier) and work, in hours at 3 trials at
    a time; `weakness` multiplies its hazard."""

    name: str
    timeout: float
    work: float
    weakness: float


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a world's parameters come to: the work's distribution and the strain's."""

    median: float
    sigma: float
    hazard_3: float
    hazard_8: float
    start_3: float
    start_8: float


def _phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses zero."""
    for _ in range(80):
        middle = (low + high) / 2
        if function(middle) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@lru_cache
def fit(world: World) -> Fit:
    """Median and spread of the work, then the hazards that give the wanted shares of errors."""

    def above(median: float, sigma: float, factor: float) -> float:
        """The share of tasks whose work exceeds `factor` of their own timeout."""
        total = 0.0
        for timeout, count in TIMEOUTS.items():
            hours = timeout / HOUR
            centre = median * (hours / 0.5) ** world.alpha
            total += count * (1 - _phi(math.log(hours * factor / centre) / sigma))
        return total / N_TASKS

    def median_for(sigma: float) -> float:
        return _bisect(lambda m: above(m, sigma, MULTIPLIER) - TIMED_OUT, 1e-3, 20.0)

    sigma = _bisect(lambda s: world.over_timeout - above(median_for(s), s, 1.0), 0.2, 4.0)
    median = median_for(sigma)
    rng = random.Random(0)
    sample = [task for _ in range(20) for task in _draw(rng, world, median, sigma)]

    def hazard_for(errors: float, running: int) -> tuple[float, float]:
        start = -math.log(1 - errors) * world.at_start
        times = [
            (OVERHEAD + min(t.work * slow(world, running), t.timeout * MULTIPLIER), t.weakness)
            for t in sample
        ]

        def share(hazard: float) -> float:
            return statistics.fmean(1 - math.exp(-w * (start + hazard * t)) for t, w in times)

        return start, _bisect(lambda hazard: share(hazard) - errors, 0.0, 200.0)

    start_3, hazard_3 = hazard_for(world.errors_at_3, 3)
    start_8, hazard_8 = hazard_for(world.errors_at_8, 8)
    return Fit(
        median=median,
        sigma=sigma,
        hazard_3=hazard_3,
        hazard_8=hazard_8,
        start_3=start_3,
        start_8=start_8,
    )


def slow(world: World, running: int) -> float:
    """How much longer the model takes with `running` trials than with 3."""
    return (1 + world.slowdown * (running - 1)) / (1 + world.slowdown * 2)


def _between(world: World, running: int, at_3: float, at_8: float) -> float:
    """The strain with `running` trials, through its values at 3 and 8."""
    if at_3 <= 0 or at_8 <= 0:
        return 0.0
    if world.shape == "power":
        return at_3 * math.exp(math.log(at_8 / at_3) * math.log(running / 3) / math.log(8 / 3))
    if world.shape == "exponential":
        return at_3 * math.exp(math.log(at_8 / at_3) * (running - 3) / 5)
    cliff = int(world.shape.removeprefix("cliff "))
    return at_8 if running >= cliff else at_3


def hazard(world: World, running: int) -> float:
    """Failures per hour of one trial."""
    fitted = fit(world)
    return _between(world, running, fitted.hazard_3, fitted.hazard_8)


def start_strain(world: World, running: int) -> float:
    """Minus the logarithm of the chance that a sandbox starts well."""
    fitted = fit(world)
    return _between(world, running, fitted.start_3, fitted.start_8)


def draw_tasks(rng: random.Random, world: World) -> list[Task]:
    """The benchmark for one seed, in the order in which Harbor has it (unrelated to length)."""
    fitted = fit(world)
    tasks = _draw(rng, world, fitted.median, fitted.sigma)
    rng.shuffle(tasks)
    return tasks


def _draw(rng: random.Random, world: World, median: float, sigma: float) -> list[Task]:
    tasks = []
    for timeout, count in TIMEOUTS.items():
        hours = timeout / HOUR
        centre = median * (hours / 0.5) ** world.alpha
        for number in range(count):
            weak = rng.gammavariate(1 / world.frailty, world.frailty) if world.frailty else 1.0
            work = centre * math.exp(rng.gauss(0, sigma))
            name = f"task-{timeout}-{number}"
            tasks.append(Task(name=name, timeout=hours, work=work, weakness=weak))
    return tasks


@dataclass(kw_only=True)
class Running:
    """A trial under way. `patience` is the strain that it will still bear."""

    task: Task
    started: float
    overhead: float
    work: float
    time: float
    patience: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A trial's end: "scored", "timeout" (scored too, as the verifier runs) or "infrastructure"."""

    task: Task
    outcome: str


@dataclass(kw_only=True)
class Sandboxes:
    """All running trials, and time. Between events every rate is constant, so that the next event
    is computed, not searched."""

    world: World
    rng: random.Random
    now: float = 0.0
    running: list[Running] = field(default_factory=list)
    sandbox_hours: float = 0.0
    busy_hours: float = 0.0
    doomed: list[Running] = field(default_factory=list)

    def start(self, task: Task) -> None:
        strain = start_strain(self.world, len(self.running) + 1)
        trial = Running(
            task=task,
            started=self.now,
            overhead=OVERHEAD,
            work=task.work,
            time=task.timeout * MULTIPLIER,
            patience=self.rng.expovariate(1.0) / task.weakness - strain,
        )
        if trial.patience <= 0:  # the sandbox breaks while it starts, after a minute
            trial.overhead, trial.patience = 1 / 60, math.inf
            self.doomed.append(trial)
        self.running.append(trial)

    def step(self, until: float = math.inf) -> Ended | None:
        """Runs to the next trial's end, or to `until` (None)."""
        while self.running:
            count = len(self.running)
            rate = hazard(self.world, count)
            pace = slow(self.world, count)
            leap = min(self._next(trial, rate, pace) for trial in self.running)
            if self.now + leap > until:
                self._advance(until - self.now, rate, pace)
                return None
            self._advance(leap, rate, pace)
            for trial in self.running:
                outcome = self._outcome(trial)
                if outcome:
                    self.running.remove(trial)
                    self.sandbox_hours += self.now - trial.started
                    return Ended(task=trial.task, outcome=outcome)
        if until < math.inf:
            self.now = max(self.now, until)
        return None

    def kill_all(self) -> list[Task]:
        """The server is gone (or Harbor was stopped): every running trial is lost."""
        lost = [trial.task for trial in self.running]
        self.sandbox_hours += sum(self.now - trial.started for trial in self.running)
        self.running.clear()
        self.doomed.clear()
        return lost

    def _next(self, trial: Running, rate: float, pace: float) -> float:
        broken = trial.patience / rate if rate else math.inf
        if trial.overhead > 0:
            return min(trial.overhead, broken)
        return min(trial.work * pace, trial.time, broken)

    def _advance(self, hours: float, rate: float, pace: float) -> None:
        self.now += hours
        if any(trial.overhead <= 0 for trial in self.running):
            self.busy_hours += hours
        for trial in self.running:
            trial.patience -= hours * rate
            if trial.overhead > 0:
                trial.overhead -= hours
                if trial.overhead < 1e-12:
                    trial.overhead = 0.0
            else:
                trial.work -= hours / pace
                trial.time -= hours

    def _outcome(self, trial: Running) -> str:
        if trial in self.doomed and trial.overhead <= 0:
            self.doomed.remove(trial)
            return "infrastructure"
        if trial.patience < 1e-12:
            return "infrastructure"
        if trial.overhead > 0:
            return ""
        if trial.work < 1e-12:
            return "scored"
        return "timeout" if trial.time < 1e-12 else ""


def variants() -> dict[str, World]:
    """The base world, and others that differ in one assumption."""
    base = World()
    return {
        "base": base,
        "no human gaps": replace(base, gap_median=0.0),
        "server life 24 h": replace(base, server_life=24.0),
        "5 % errors at 3": replace(base, errors_at_3=0.05),
        "20 % errors at 3": replace(base, errors_at_3=0.20),
        "strain exponential": replace(base, shape="exponential"),
        "cliff at 4": replace(base, shape="cliff 4"),
        "cliff at 5": replace(base, shape="cliff 5"),
        "cliff at 7": replace(base, shape="cliff 7"),
        "half break at start": replace(base, at_start=0.5),
        "weak tasks stay weak": replace(base, frailty=0.5),
        "work grows with timeout": replace(base, alpha=1.0),
        "work unrelated to timeout": replace(base, alpha=0.0),
        "model slows twice as much": replace(base, slowdown=0.06),
    }
