"""Compares ways to run the whole benchmark, on the product's own decisions.

    python bench/policy.py [--seeds 200] [--quick]

A discrete-event simulation (the world is in `policy_model.py`, with its assumptions) in which
`concurrency`, `schedule`, `passes` and `failures` of the product decide, exactly as they do in a
run. Compared are

- hand: the first public run's procedure. Pass 1 at 8, then three repair passes at 3, each begun by
  a person who first has to notice that the last one ended (the server idles meanwhile, until its
  4 h are over). A server that reaches its 4 h takes the running trials with it; the person starts
  another and resumes, each task at most once a pass. Kind to the hand: queues never burn while the
  server is away, edits of config and lock never fail, no pass is forgotten over night.
- fixed 3: the product without adaptive concurrency and without an order: `--n-concurrent 3`, the
  same passes, the same server handover. (Not a straw man: the handover alone saves it most.)
- ours: the product, `--n-concurrent 8`.
- ours, n 3: the product with the recipe's own limit.

The goals: GPU-hours of ours at most 0.6 of hand and below fixed 3; unscored infrastructure trials
at most a quarter of hand.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from policy_model import (
    HOUR,
    MULTIPLIER,
    N_TASKS,
    TIMEOUTS,
    Ended,
    Sandboxes,
    Task,
    World,
    draw_tasks,
    fit,
    variants,
)

from tbh_action import failures
from tbh_action.concurrency import Limit, first_limit, on_pass_start, on_trial_end
from tbh_action.harbor.tasks import TaskInfo
from tbh_action.harbor.trial import Phase, Trial, TrialError
from tbh_action.passes import Remaining, next_step
from tbh_action.schedule import Now, admit, expected_seconds, order
from tbh_action.state import PassRecord

# Between two Harbor processes: archive, start, imports, the first sandboxes.
PASS_GAP: Final = 1 / 60
# How long before a server's end the next one is started, beyond its load.
HANDOVER_SPARE: Final = 5 / 60
HAND_REPAIRS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One simulated run. Hours; `unscored` counts trials that infrastructure kept unscored."""

    makespan: float
    gpu: float
    sandbox: float
    unscored: float
    timeouts: float
    passes: float
    attempts: float


def _judgements() -> dict[str, failures.Judgement]:
    """What the product makes of the three ways in which a simulated trial ends."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    ran = Phase(started_at=start, finished_at=start + timedelta(hours=1))

    def trial(error: str | None, reward: float | None) -> Trial:
        errors = (
            (TrialError(type=error, message="", where="trial", occurred_at=None),) if error else ()
        )
        return Trial(
            directory="t", task="t", errors=errors, reward=reward, verified=reward is not None,
            environment_setup=ran, agent_execution=ran,
        )  # fmt: skip

    return {
        "scored": failures.judge(trial(None, 1.0)),
        "timeout": failures.judge(trial("AgentTimeoutError", 0.0)),
        "infrastructure": failures.judge(trial("SandboxError", None)),
    }


JUDGED: Final = _judgements()


def product(
    tasks: list[Task], world: World, rng: random.Random, *, highest: int, adaptive: bool = True
) -> Outcome:
    """The product: its own order, gate, limit and passes; a seamless handover of servers."""
    by_name = {task.name: task for task in tasks}
    infos = [
        TaskInfo(name=task.name, directory="", agent_timeout=task.timeout * HOUR) for task in tasks
    ]
    expected = expected_seconds(infos, multiplier=MULTIPLIER)
    limit = first_limit(1, highest) if adaptive else first_limit(highest, highest)
    boxes = Sandboxes(world=world, rng=rng, now=world.load)
    left = [task.name for task in tasks]
    history: list[PassRecord] = []
    unfinished, timeouts, attempts = len(left), 0, 0
    while True:
        remaining = Remaining(unfinished=unfinished, retryable=len(left) - unfinished)
        step = next_step(history, remaining, max_passes=4)
        if step.kind == "stop":
            break
        if history:
            boxes.now += PASS_GAP
            if adaptive:
                limit = on_pass_start(limit, number=len(history) + 1)
        queue = order(left, expected) if adaptive else list(left)
        ended, limit = _one_pass(boxes, queue, by_name, expected, limit, adaptive=adaptive)
        again = [end.task.name for end in ended if JUDGED[end.outcome].retryable]
        timeouts += sum(end.outcome == "timeout" for end in ended)
        attempts += len(ended)
        record = PassRecord(number=len(history) + 1, kind=step.kind, started_at="")
        record.trials = len(ended)
        record.repaired = len(ended) - len(again) if history else 0
        history.append(record)
        left, unfinished = [name for name in left if name in set(again)], 0
    handovers = max(0, math.ceil(boxes.now / (world.server_life - world.load - HANDOVER_SPARE)) - 1)
    return Outcome(
        makespan=boxes.now,
        gpu=boxes.now + handovers * (world.load + HANDOVER_SPARE),
        sandbox=boxes.sandbox_hours,
        unscored=len(left),
        timeouts=timeouts,
        passes=len(history),
        attempts=attempts,
    )


def _one_pass(
    boxes: Sandboxes,
    queue: list[str],
    by_name: dict[str, Task],
    expected: dict[str, float],
    limit: Limit,
    *,
    adaptive: bool,
) -> tuple[list[Ended], Limit]:
    """One Harbor process: trials are admitted by the gate until the queue is empty."""
    done: list[Ended] = []
    queue = list(queue)
    while queue or boxes.running:
        while queue:
            now = Now(at=boxes.now * HOUR, running=len(boxes.running), limit=limit.value)
            if not admit(now, expected=expected[queue[0]]).go:
                break
            boxes.start(by_name[queue.pop(0)])
        running = len(boxes.running)
        end = boxes.step()
        if end is None:
            continue
        done.append(end)
        if adaptive:
            limit = on_trial_end(
                limit,
                JUDGED[end.outcome].failure_class,
                running=running,
                now=boxes.now * HOUR,
            )
    return done, limit


def hand(tasks: list[Task], world: World, rng: random.Random) -> Outcome:
    """The first public run's procedure, as this module's text says."""
    boxes = Sandboxes(world=world, rng=rng)
    server_start, server_end, gpu = 0.0, world.server_life, 0.0
    boxes.now = world.load
    left, timeouts, attempts, passes = list(tasks), 0, 0, 0

    def gap() -> float:
        if world.gap_median <= 0:
            return 0.0
        return world.gap_median * math.exp(rng.gauss(0, world.gap_sigma))

    while left and passes <= HAND_REPAIRS:
        highest = 8 if passes == 0 else 3
        passes += 1
        todo, failed, requeued = list(left), [], set()
        while todo or boxes.running:
            while todo and len(boxes.running) < highest:
                boxes.start(todo.pop(0))
            end = boxes.step(until=server_end)
            if end is not None:
                attempts += 1
                timeouts += end.outcome == "timeout"
                if JUDGED[end.outcome].retryable:
                    failed.append(end.task)
                continue
            if boxes.now < server_end:
                continue
            for task in boxes.kill_all():
                attempts += 1
                (failed if task.name in requeued else todo).append(task)
                requeued.add(task.name)
            if todo:
                gpu += server_end - server_start
                server_start = boxes.now + gap()
                server_end = server_start + world.server_life
                boxes.now = server_start + world.load
        left = [task for task in left if task in failed]
        noticed = boxes.now + gap()
        if not left or passes > HAND_REPAIRS:
            break
        if server_end - noticed < 1.0:  # too little of it is left for a pass: a new one
            gpu += min(noticed, server_end) - server_start
            server_start, server_end = noticed, noticed + world.server_life
            noticed += world.load
        boxes.now = noticed
    finished = boxes.now
    gpu += min(finished + gap(), server_end) - server_start
    return Outcome(
        makespan=finished,
        gpu=gpu,
        sandbox=boxes.sandbox_hours,
        unscored=len(left),
        timeouts=timeouts,
        passes=passes,
        attempts=attempts,
    )


POLICIES: Final[dict[str, Callable[[list[Task], World, random.Random], Outcome]]] = {
    "hand": hand,
    "fixed 3": lambda t, w, r: product(t, w, r, highest=3, adaptive=False),
    "ours": lambda t, w, r: product(t, w, r, highest=8),
    "ours, n 3": lambda t, w, r: product(t, w, r, highest=3),
}


def simulate(world: World, seeds: int) -> dict[str, list[Outcome]]:
    """Every policy on the same tasks, seed by seed; the luck of sandboxes is each policy's own."""
    results: dict[str, list[Outcome]] = {name: [] for name in POLICIES}
    for seed in range(seeds):
        tasks = draw_tasks(random.Random(f"tasks {seed}"), world)
        for name, policy in POLICIES.items():
            results[name].append(policy(tasks, world, random.Random(f"{name} {seed}")))
    return results


def ratio_interval(
    ours: list[Outcome], theirs: list[Outcome], field: str
) -> tuple[float, float, float]:
    """Ratio of the means, with a 95 % bootstrap interval over seeds."""
    pairs = [(getattr(a, field), getattr(b, field)) for a, b in zip(ours, theirs, strict=True)]
    rng = random.Random(1)

    def ratio(sample: list[tuple[float, float]]) -> float:
        below = sum(b for _, b in sample)
        return sum(a for a, _ in sample) / below if below else math.nan

    draws = sorted(ratio(rng.choices(pairs, k=len(pairs))) for _ in range(500))
    return ratio(pairs), draws[12], draws[487]


def _spread(outcomes: list[Outcome], field: str) -> str:
    values = sorted(getattr(outcome, field) for outcome in outcomes)
    low, high = values[int(len(values) * 0.05)], values[min(len(values) - 1, int(len(values) * 0.95))]
    return f"{statistics.fmean(values):6.1f} [{low:.1f}, {high:.1f}]"


def show(results: dict[str, list[Outcome]]) -> None:
    """Means over seeds, and in which range 90 % of the seeds lie."""
    fields = ("makespan", "gpu", "sandbox", "unscored", "timeouts", "passes", "attempts")
    heads = ("makespan h", "GPU-hours", "sandbox-hours", "unscored", "timeouts", "passes", "trials")
    print(f"  {'':10s}" + "".join(f"{head:>22s}" for head in heads))
    for name, outcomes in results.items():
        print(f"  {name:10s}" + "".join(f"{_spread(outcomes, field):>22s}" for field in fields))


def goals(results: dict[str, list[Outcome]]) -> list[tuple[str, float, float, float, float]]:
    """Each goal: name, ratio, its interval, and the ratio wanted."""
    ours = results["ours"]
    return [
        ("GPU-hours, ours / hand", *ratio_interval(ours, results["hand"], "gpu"), 0.6),
        ("GPU-hours, ours / fixed 3", *ratio_interval(ours, results["fixed 3"], "gpu"), 1.0),
        ("unscored, ours / hand", *ratio_interval(ours, results["hand"], "unscored"), 0.25),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="only the base world")
    options = parser.parse_args()
    base = World()
    fitted = fit(base)
    print(
        f"{N_TASKS} tasks, agent timeouts {dict(TIMEOUTS)} s × {MULTIPLIER:g}; work: median "
        f"{fitted.median:.2f} h for a 1,800 s task, sigma {fitted.sigma:.2f}; infrastructure "
        f"failures per trial and hour: {fitted.hazard_3:.3f} at 3, {fitted.hazard_8:.2f} at 8\n"
    )
    print(f"Base world, {options.seeds} seeds: mean [5 %, 95 %]")
    results = simulate(base, options.seeds)
    show(results)
    print("\nGoals (ratio of means, 95 % bootstrap interval)")
    for name, ratio, low, high, wanted in goals(results):
        met = "met" if ratio <= wanted else "missed"
        print(f"  {name:28s} {ratio:.2f} [{low:.2f}, {high:.2f}]  wanted ≤ {wanted:g}: {met}")
    if options.quick:
        return
    print("\nOther worlds: the same three ratios, ours' unscored trials, and the hand's")
    for name, world in variants().items():
        other = simulate(world, max(20, options.seeds // 4))
        ratios = "  ".join(f"{ratio:.2f}" for _, ratio, *_ in goals(other))
        mine, theirs = (statistics.fmean(o.unscored for o in other[p]) for p in ("ours", "hand"))
        print(f"  {name:28s} {ratios}   {mine:.1f} / {theirs:.1f}")


if __name__ == "__main__":
    main()
