"""Makes the sample results documents beside this file: `python tests/data/make_samples.py`.

`results-sample.json` has the shape and the counts of a real full run (89 tasks, 53 passed, 16
failed, 20 errored after four passes); `results-sample-baseline.json` is an earlier one of the
same model line; `results-hostile.json` has texts that want to break out of every format.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tbh_action.scoring.failures import Interval, judge
from tbh_action.harbor.trial import Phase, Tokens, Trial, TrialError
from tbh_action.scoring.ledger import Attempt, attempt_of
from tbh_action.scoring.outcomes import plan_of
from tbh_action.scoring.results import RunFacts, build, write

HERE = Path(__file__).parent
NAMES = (HERE / "terminal-bench-2.1-tasks.txt").read_text(encoding="utf-8").split()
TASKS = [f"terminal-bench/{name}" for name in NAMES]
START = datetime(2026, 8, 1, 9, 0, tzinfo=UTC)
FIELDS = {
    "agent.kwargs.reasoning_effort": "low",
    "agent.name": "terminus-2",
    "agent_timeout_multiplier": 4.0,
    "benchmark.repo": "https://huggingface.co/datasets/harborframework/terminal-bench-2.1",
    "benchmark.revision": "8f2b6a1d9c0e47f3a5b1c2d3e4f5061728394a5b",
    "environment.kwargs.flavor": "cpu-upgrade",
    "environment.type": "hf-sandbox",
    "model.name": "Qwen/Qwen3.8-27B-FP8",
    "model.revision": "1f3c9d2",
    "n_attempts": 1,
    "server.flavor": "h200",
    "server.image": "lmsysorg/sglang:latest",
}
MESSAGES = {
    "AgentTimeoutError": "Agent execution timed out after 3600.0 seconds",
    "SandboxError": "connection lost while running command",
    "InternalServerError": "litellm.InternalServerError: Error code: 500",
    "ReadTimeout": "The read operation timed out",
    "RemoteProtocolError": "Server disconnected without sending a response.",
}


class Maker:
    """Trials one after the other on three slots of time, as a run has them."""

    def __init__(self, seed: int, start: datetime) -> None:
        self.random = random.Random(seed)
        self.slots = [start] * 3

    def attempt(
        self,
        task: str,
        number: int,
        *,
        reward: float | None = None,
        error: str | None = None,
        message: str | None = None,
        outages: tuple[Interval, ...] = (),
    ) -> Attempt:
        base = task.rpartition("/")[2].replace("\n", " ")[:32]
        name = f"{base}__{self.random.randrange(16**7):07x}"
        seconds = self.random.lognormvariate(6.6, 0.8)
        if error == "AgentTimeoutError":
            seconds = 3600.0
        elif error is not None:
            seconds = self.random.uniform(20, 900)
        place = self.slots.index(min(self.slots))
        start = self.slots[place]
        agent_start = start + timedelta(seconds=self.random.uniform(8, 25))
        agent_end = agent_start + timedelta(seconds=seconds)
        end = agent_end + timedelta(seconds=self.random.uniform(5, 60))
        self.slots[place] = end
        output = int(seconds * self.random.uniform(60, 120))
        given = output * self.random.randrange(6, 14)
        trial = Trial(
            directory=name,
            task=task,
            started_at=start,
            finished_at=end,
            reward=reward,
            reward_problem=None if reward is not None else "the verifier gave no result",
            verified=reward is not None,
            errors=(
                (
                    TrialError(
                        type=error,
                        message=message if message is not None else MESSAGES.get(error, error),
                        where="trial",
                        occurred_at=agent_end,
                    ),
                )
                if error
                else ()
            ),
            tokens=(
                Tokens(input=given, cached=given * 3 // 5, output=output, cost_usd=None)
                if self.random.random() < 0.97
                else None
            ),
            agent_execution=Phase(started_at=agent_start, finished_at=agent_end),
            checksum=f"{self.random.randrange(16**64):064x}",
            agent="terminus-2",
            model="Qwen/Qwen3.8-27B-FP8",
        )
        return attempt_of(trial, judge(trial, outages=outages), pass_number=number)


def iso(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def full_run(
    seed: int, *, start: datetime, passed: int, failed: int, timeouts: int, broken: list[str]
) -> tuple[list[Attempt], list[dict[str, Any]]]:
    """Trials and passes of a run whose last outcomes are as given."""
    maker = Maker(seed, start)
    fates: list[tuple[float | None, str | None]] = [(1.0, None)] * passed
    fates += [(0.0, None)] * (failed - 2) + [(0.0, "AgentTimeoutError")] * 2
    fates += [(None, "AgentTimeoutError")] * timeouts + [(None, error) for error in broken]
    fixed = random.Random(7)  # the same order of tasks in both runs, so that most fates agree
    order = list(range(len(TASKS)))
    fixed.shuffle(order)
    by_task = {TASKS[place]: fate for place, fate in zip(order, fates, strict=True)}
    left, attempts, passes = list(TASKS), [], []
    rates = (0.28, 0.4, 0.5, 0.0)
    for number, rate in enumerate(rates, start=1):
        begun, again, repaired = min(maker.slots), [], 0
        for task in left:
            reward, error = by_task[task]
            infrastructure = error is not None and error != "AgentTimeoutError"
            if infrastructure and number < len(rates):
                attempts.append(maker.attempt(task, number, error=maker.random.choice(broken)))
                again.append(task)
            elif maker.random.random() < rate and not infrastructure:
                kind = maker.random.choice(["SandboxError", "ReadTimeout", "InternalServerError"])
                attempts.append(maker.attempt(task, number, error=kind))
                again.append(task)
            else:
                attempts.append(maker.attempt(task, number, reward=reward, error=error))
                repaired += number > 1 and not infrastructure
        passes.append(
            {
                "number": number,
                "kind": "run" if number == 1 else "resume",
                "started_at": iso(begun),
                "finished_at": iso(max(maker.slots)),
                "trials": len(left),
                "repeated": 0 if number == 1 else len(left),
                "repaired": repaired,
                "exit_code": 0,
                "reason": "the first pass" if number == 1 else f"{len(left)} trials to repeat",
            }
        )
        maker.slots = [max(maker.slots) + timedelta(seconds=30)] * 3
        left = again
    return attempts, passes


def facts(
    name: str, passes: list[dict[str, Any]], *, revision: str, spent: float, **more: Any
) -> RunFacts:
    start = datetime.fromisoformat(passes[0]["started_at"])
    hours = (datetime.fromisoformat(passes[-1]["finished_at"]) - start).total_seconds() / 3600
    fields = FIELDS | {"model.revision": revision}
    return RunFacts(
        name=name,
        started_at=passes[0]["started_at"],
        finished_at=passes[-1]["finished_at"],
        complete=True,
        stop_reason="the last pass repaired nothing",
        model={"name": "Qwen/Qwen3.8-27B-FP8", "revision": revision},
        benchmark={
            "name": "terminal-bench-2.1",
            "source": FIELDS["benchmark.repo"],
            "revision": FIELDS["benchmark.revision"],
        },
        agent={"name": "terminus-2", "kwargs": {"reasoning_effort": "low"}},
        fingerprint=f"{random.Random(revision).randrange(16**64):064x}",
        fingerprint_fields=fields,
        passes=passes,
        outages=[
            {
                "started_at": iso(start + timedelta(hours=3, minutes=52)),
                "finished_at": iso(start + timedelta(hours=4, minutes=1)),
                "reason": "the server's job reached its timeout and was replaced",
            }
        ],
        concurrency=[
            {"at": iso(start), "limit": 3, "reason": "as asked"},
            {
                "at": iso(start + timedelta(hours=1)),
                "limit": 2,
                "reason": "2 of the last 4 trials failed in the sandbox",
            },
            {
                "at": iso(start + timedelta(hours=2)),
                "limit": 3,
                "reason": "8 trials ended without infrastructure failures",
            },
        ],
        cost={
            "server_usd": round(hours * spent, 2),
            "sandbox_usd": round(hours * 3 * 0.03, 2),
            "total_usd": round(hours * (spent + 0.09), 2),
            "items": [
                {
                    "kind": "server",
                    "job_id": "68a1b2c3d4e5f60718293a4b",
                    "flavor": "h200",
                    "seconds": round(hours * 3600, 1),
                    "usd": round(hours * spent, 2),
                }
            ],
        },
        provenance={
            "tbh_action": "0.1.0",
            "harbor": "0.26.0",
            "huggingface_hub": "2.4.0",
            "server_image": "lmsysorg/sglang:latest",
            "ci_run": "https://github.com/acme/models/actions/runs/1234567890",
            "commit": "4f0d1c2b3a49586776655443322110ffeeddccbb",
        },
        **more,
    )


def sample() -> dict[str, Any]:
    attempts, passes = full_run(
        11,
        start=START,
        passed=53,
        failed=16,
        timeouts=16,
        broken=["SandboxError", "SandboxError", "SandboxError", "RemoteProtocolError"],
    )
    tails = {
        attempt.trial: "FAILED test_outputs.py::test_result - AssertionError\n1 failed in 2.1s\n"
        for attempt in attempts
        if attempt.scored and not attempt.passed
    }
    return build(
        facts("qwen3.8-27b-fp8-tb21", passes, revision="1f3c9d2", spent=5.0),
        plan_of(TASKS, 1),
        attempts,
        log_tails=tails,
    )


def baseline() -> dict[str, Any]:
    attempts, passes = full_run(
        23,
        start=START - timedelta(days=21),
        passed=57,
        failed=16,
        timeouts=14,
        broken=["SandboxError", "ReadTimeout"],
    )
    return build(
        facts("qwen3.8-27b-fp8-tb21-july", passes, revision="0a7be51", spent=5.0),
        plan_of(TASKS, 1),
        attempts,
    )


HOSTILE = [
    "demo/a|b",
    "demo/tick`tock",
    "demo/</table><h1>x</h1><script>alert(1)</script>",
    "demo/@octocat",
    "demo/#1",
    "demo/foo__bar **bold** [link](javascript:alert(1))",
    "demo/line\nbreak\r\n::error::injected",
    "demo/\u202egnp.exe",
    "demo/\x1b[31mred\x1b[0m\x07",
    "demo/naïve-Ünïcode-任务",
    "demo/\x00null\ufeff\u2028separator",
    "demo/" + "long-" * 180,
    "=cmd|' /C calc'!A0",
    "demo/]]>--><![CDATA[",
    "demo/{{ 7*7 }}{% raw %}${{ github.token }}",
    "demo/<!-- tbh-action -->",
]


def hostile() -> dict[str, Any]:
    maker = Maker(5, START)
    message = (
        "\n::error::x\n::set-output name=passed::99\n::stop-commands::t\n</td></tr></table>"
        "<h1>x</h1><script>alert(1)</script> @octocat #1 |a|`b`\n```\n# heading\n"
        "\x1b[2J\x1b]0;t\x07"
        "\u202etxt.exe 😀 " + "x" * 10_000
    )
    attempts = []
    for place, task in enumerate(HOSTILE):
        if place % 4 == 0:
            attempts.append(maker.attempt(task, 1, reward=1.0))
        elif place % 4 == 1:
            attempts.append(maker.attempt(task, 1, error="ReadTimeout", message=message))
            attempts.append(maker.attempt(task, 2, error="<b>Type|`x`\n::error::", message=message))
        elif place % 4 == 2:
            attempts.append(maker.attempt(task, 1, reward=0.0, error="AgentTimeoutError"))
        else:
            attempts.append(maker.attempt(task, 1, reward=0.5))
    tails = {attempt.trial: message for attempt in attempts}
    known = facts("<b>run</b>|`x`\n::error::", [_pass(attempts)], revision="<i>", spent=1.0)
    return build(known, plan_of([*HOSTILE, "demo/never-ran"], 1), attempts, log_tails=tails)


def _pass(attempts: list[Attempt]) -> dict[str, Any]:
    ends = [attempt.finished_at for attempt in attempts if attempt.finished_at]
    return {
        "number": 1,
        "kind": "run",
        "started_at": iso(START),
        "finished_at": iso(max(ends)),
        "trials": len(attempts),
        "repeated": 0,
        "repaired": 0,
        "exit_code": 1,
        "reason": "::error::<script>",
    }


if __name__ == "__main__":
    write(HERE / "results-sample.json", sample())
    write(HERE / "results-sample-baseline.json", baseline())
    write(HERE / "results-hostile.json", hostile())
