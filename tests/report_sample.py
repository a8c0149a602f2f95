"""Results as results.json writes them, for the reports' tests: whole, poor, hostile, huge.

All values are made from the arguments alone, so that golden files stay the same.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

NAMES = Path(__file__).with_name("data") / "terminal-bench-2.1-tasks.txt"
START = datetime(2026, 8, 1, 9, 30, tzinfo=UTC)
FINGERPRINT = "9f2c5d1a7be04c3386d1f5a2c7e9b0d4412f8a6c35b7e1d09a8c6f4e2b1d3a57"
HOSTILE_NAMES = [
    "a|b",
    "tick`tock",
    "</table><h1>x</h1>",
    "@octocat",
    "#1",
    "foo__bar",
    "line\nbreak",
    "\u202egnp.exe",
    "naïve-Ünïcode-任务",
    "<img src=http://evil.example/x.png onerror=alert(1)>",
    "</script><script>window.hacked=1</script>",
    "=cmd|' /C calc'!A0",
    "[x](javascript:alert(1))",
    "a\\|b",
]
HOSTILE_MESSAGE = (
    "\n::error::x\n::set-output name=passed::99\n</td></tr></table><h1>x</h1>"
    "<script>window.hacked=1</script> @octocat #1 |a|`b` ``` \x1b[31mred\x1b[0m "
    "http://evil.example/ ![p](http://evil.example/p.png)\n```\n## heading\n</details>"
)


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat(timespec="seconds").replace("+00:00", "Z")


def task(name: str, **changes: Any) -> dict[str, Any]:
    """One row of `tasks`: passed after 12 minutes unless `changes` say otherwise."""
    trial = name.rsplit("/", 1)[-1][:32] + "__aaaaaaa"
    row: dict[str, Any] = {
        "task": name,
        "attempt": 1,
        "status": "passed",
        "class": "none",
        "exception": None,
        "reward": 1.0,
        "reason": "the verifier gave 1.0",
        "trial": trial,
        "pass": 1,
        "started_at": at(0),
        "finished_at": at(12),
        "superseded": 0,
        "superseded_trials": [],
        "seconds": 720.0,
        "agent_seconds": 600.0,
        "tokens": {"input": 120_000, "cached": 80_000, "output": 9_000},
        "log_tail": "$ pytest\n3 passed\n",
        "message": None,
    }
    return row | changes


def results(tasks: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Whole results around `tasks`: counts and rates are theirs, the rest is plain."""
    counts = {
        "planned": len(tasks),
        **{s: sum(row["status"] == s for row in tasks) for s in ("passed", "failed", "errored")},
    }
    scored = counts["passed"] + counts["failed"]
    errored = [row for row in tasks if row["status"] == "errored"]
    known = [row["tokens"] for row in tasks if row["tokens"]]
    document: dict[str, Any] = {
        "schema_version": 1,
        "run": {
            "name": "qwen3.8-27b-fp8-terminal-bench-2.1",
            "started_at": at(-6),
            "finished_at": at(1100),
            "complete": True,
            "stop_reason": None,
        },
        "model": {"name": "Qwen/Qwen3.8-27B-FP8", "revision": "4f1c2b7d90ab"},
        "benchmark": {
            "name": "terminal-bench-2.1",
            "source": "https://huggingface.co/datasets/harborframework/terminal-bench-2.1",
            "revision": "b7e4c1d2a3f4",
        },
        "agent": {"name": "terminus-2", "kwargs": {"reasoning_effort": "low"}},
        "fingerprint": FINGERPRINT,
        "fingerprint_fields": {
            "agent.kwargs.reasoning_effort": "low",
            "agent.name": "terminus-2",
            "agent_timeout_multiplier": 4.0,
            "benchmark.repo": "https://huggingface.co/datasets/harborframework/terminal-bench-2.1",
            "benchmark.revision": "b7e4c1d2a3f4",
            "environment.kwargs.flavor": "cpu-upgrade",
            "environment.type": "hf-sandbox",
            "model.name": "Qwen/Qwen3.8-27B-FP8",
            "n_attempts": 1,
            "server.flavor": "h200",
            "server.image": "lmsysorg/sglang:latest",
        },
        "counts": counts,
        "n_attempts": max((row["attempt"] for row in tasks), default=1),
        "n_tasks": len({row["task"] for row in tasks}),
        "rates": {
            "all": _rate(counts["passed"], len(tasks)),
            "scored": _rate(counts["passed"], scored),
            "coverage": _rate(scored, len(tasks)),
        },
        "intervals": {
            "all": _wilson(counts["passed"], len(tasks)),
            "scored": _wilson(counts["passed"], scored),
            "method": "wilson",
        },
        "mean_reward": {
            "all": _rate(counts["passed"], len(tasks)),
            "scored": _rate(counts["passed"], scored),
        },
        "exceptions_first": {
            **{key: counts[key] for key in ("passed", "failed", "errored")},
            "rate_scored": _rate(counts["passed"], scored),
        },
        "scored_after_exception": {},
        "errors": _count(errored, "exception"),
        "errors_by_class": _count(errored, "class"),
        "first_pass": {"passed": counts["passed"], "rate_all": _rate(counts["passed"], len(tasks))},
        "pass_at_k": {},
        "pass_hat_k": {},
        "tokens": {
            **{key: sum(row[key] for row in known) for key in ("input", "cached", "output")},
            "known_for": len(known),
            "of": len(tasks),
        },
        "seconds": {
            "agent_total": sum(row["agent_seconds"] or 0.0 for row in tasks),
            "trial_total": sum(row["seconds"] or 0.0 for row in tasks),
            "known_for": sum(row["seconds"] is not None for row in tasks),
            "of": len(tasks),
        },
        "cost": {
            "server_usd": None,
            "sandbox_usd": None,
            "total_usd": None,
            "per_passed_usd": None,
            "items": [],
        },
        "passes": [],
        "tasks": tasks,
        "timeline": {"trials": [], "outages": [], "concurrency": []},
        "comparison": None,
        "gate": None,
        "flaky": [],
        "provenance": {},
        "warnings": [],
    }
    return document | changes


def seed_final() -> dict[str, Any]:
    """The hand-run day that this project replaces: 53 / 16 / 20 of 89 after 4 passes, and beside
    it what it did not have: a comparison, a gate, costs, a time line."""
    rows = _seed_tasks()
    document = results(rows)
    document["run"]["finished_at"] = at(1106)
    document["first_pass"] = {"passed": 39, "rate_all": 39 / 89}
    document["passes"] = [
        _pass(1, "run", 0, 610, 89, 0, 0),
        _pass(2, "resume", 612, 900, 31, 31, 21),
        _pass(3, "resume", 902, 1040, 10, 10, 5),
        _pass(4, "resume", 1042, 1100, 5, 5, 1),
    ]
    document["timeline"] = _timeline(rows)
    document["cost"] = {
        "server_usd": 92.17,
        "sandbox_usd": 5.94,
        "total_usd": 98.11,
        "per_passed_usd": 98.11 / 53,
        "items": [
            {
                "kind": "server",
                "job_id": f"687fb701029421ae5549d99{number}",
                "flavor": "h200",
                "seconds": 13_272.0,
                "usd": 18.434,
            }
            for number in range(5)
        ],
    }
    document["comparison"] = _comparison(rows)
    document["gate"] = {
        "fail_on": "regression",
        "failed": False,
        "exit_code": 0,
        "reasons": [document["comparison"]["reason"]],
    }
    document["flaky"] = ["terminal-bench/qemu-startup"]
    document["provenance"] = {
        "tbh_action": "0.1.0",
        "harbor": "0.26.0",
        "huggingface_hub": "2.4.0",
        "server_image": "lmsysorg/sglang:latest",
        "recipe": "qwen3.8-27b-fp8",
        "tasks": {f"task-{number}": {"digest": "sha256:0"} for number in range(89)},
    }
    document["warnings"] = [
        "The agent's time limits were multiplied by 4: not comparable with the public leaderboard."
    ]
    return document


def regression() -> dict[str, Any]:
    """`seed_final` with a comparison that fails the gate."""
    document = seed_final()
    changed = [row["task"] for row in document["tasks"] if row["status"] == "failed"][:13]
    comparison = document["comparison"]
    for row in comparison["tasks"]:
        if row["task"] in changed:
            row |= {"change": "broken", "theirs": "passed", "ours": "failed"}
    comparison["counts"] |= {"broken": 15, "fixed": 3, "still_failing": 1}
    comparison["verdict"] = "regression"
    comparison["reason"] = (
        "The pass rate fell by 13.5 points (95 % interval -23.2 to -3.8; exact McNemar test over "
        "69 tasks, p = 0.0075)."
    )
    comparison["test"] = {"name": "exact McNemar", "p_value": 0.0075, "n_pairs": 69}
    comparison["difference"] = {"value": -0.135, "interval": [-0.232, -0.038]}
    document["gate"] = {
        "fail_on": "regression",
        "failed": True,
        "exit_code": 1,
        "reasons": [comparison["reason"]],
    }
    return document


def incomplete() -> dict[str, Any]:
    """A run that was stopped before anything was scored: every rate is unknown."""
    rows = [
        task(
            f"terminal-bench/task-{number}",
            status="errored",
            **{"class": "missing", "pass": None},
            reward=None,
            reason="no trial of this task ended",
            trial=None,
            started_at=None,
            finished_at=None,
            seconds=None,
            agent_seconds=None,
            tokens=None,
            log_tail=None,
        )
        for number in range(3)
    ]
    document = results(rows)
    document["run"] |= {"complete": False, "stop_reason": "the limit of 5.00 USD was reached"}
    document["rates"]["scored"] = None
    document["intervals"]["scored"] = [0.0, 1.0]
    document["first_pass"] = {"passed": 0, "rate_all": 0.0}
    return document


def hostile() -> dict[str, Any]:
    """Names, messages, logs and reasons that try to leave their place."""
    rows = []
    for number, name in enumerate(HOSTILE_NAMES):
        state = number % 3
        rows.append(
            task(
                name,
                status=("passed", "failed", "errored")[state],
                **{"class": ("none", "none", "infrastructure")[state]},
                exception=HOSTILE_NAMES[number] if state == 2 else None,
                reward=(1.0, 0.0, None)[state],
                reason=HOSTILE_MESSAGE,
                message=HOSTILE_MESSAGE,
                log_tail=HOSTILE_MESSAGE * 3,
                trial=f"{name}__x",
            )
        )
    document = results(rows)
    for part, key in (("run", "name"), ("model", "name"), ("benchmark", "name"), ("agent", "name")):
        document[part][key] = HOSTILE_MESSAGE
    document["run"] |= {"complete": False, "stop_reason": HOSTILE_MESSAGE}
    document["warnings"] = [HOSTILE_MESSAGE, "</details>"]
    document["provenance"] = {HOSTILE_NAMES[2]: HOSTILE_MESSAGE}
    document["fingerprint_fields"] = {HOSTILE_NAMES[0]: HOSTILE_MESSAGE}
    document["passes"] = [_pass(1, "run", 0, 10, len(rows), 0, 0) | {"reason": HOSTILE_MESSAGE}]
    document["flaky"] = HOSTILE_NAMES
    document["timeline"] = {
        "trials": [
            {
                "task": row["task"],
                "trial": row["trial"],
                "pass": 1,
                "started_at": at(0),
                "agent_started_at": at(1),
                "agent_finished_at": at(8),
                "finished_at": at(9),
                "status": row["status"],
                "class": row["class"],
            }
            for row in rows
        ],
        "outages": [{"started_at": at(2), "finished_at": at(3), "reason": HOSTILE_MESSAGE}],
        "concurrency": [{"at": at(0), "limit": 3, "reason": HOSTILE_MESSAGE}],
    }
    document["comparison"] = {
        "baseline": {
            "name": HOSTILE_MESSAGE,
            "source": HOSTILE_NAMES[2],
            "commit": HOSTILE_NAMES[0],
            "date": HOSTILE_NAMES[1],
            "fingerprint": "f" * 64,
            "why": HOSTILE_MESSAGE,
        },
        "comparable": False,
        "differing_fields": [
            {"field": HOSTILE_NAMES[0], "ours": HOSTILE_MESSAGE, "theirs": HOSTILE_NAMES[4]}
        ],
        "forced": True,
        "tasks": [
            {"task": name, "change": "broken", "ours": "failed", "theirs": "passed"}
            for name in HOSTILE_NAMES
        ],
        "counts": {"broken": len(HOSTILE_NAMES), "fixed": 0},
        "test": {"name": HOSTILE_NAMES[0], "p_value": 0.5, "n_pairs": 14},
        "difference": {"value": -0.5, "interval": [-0.9, 0.1]},
        "smallest_detectable_drop": 0.3,
        "verdict": "not_comparable",
        "reason": HOSTILE_MESSAGE,
    }
    document["gate"] = {
        "fail_on": "regression",
        "failed": True,
        "exit_code": 1,
        "reasons": [HOSTILE_MESSAGE],
    }
    return document


def large(n_tasks: int, n_attempts: int = 1, *, log: int = 1500) -> dict[str, Any]:
    """Many tasks with long logs, times and a time line."""
    rows = []
    rng = random.Random(n_tasks)
    for number in range(n_tasks):
        for attempt in range(1, n_attempts + 1):
            state = rng.choices(("passed", "failed", "errored"), (5, 3, 2))[0]
            begin = rng.uniform(0, 5000)
            seconds = rng.lognormvariate(6.5, 0.8)
            rows.append(
                task(
                    f"big-benchmark/task-{number:05d}-ünïcode",
                    attempt=attempt,
                    status=state,
                    **{"class": "infrastructure" if state == "errored" else "none"},
                    exception="SandboxError" if state == "errored" else None,
                    reward={"passed": 1.0, "failed": 0.0, "errored": None}[state],
                    trial=f"task-{number:05d}__{attempt:07d}",
                    started_at=at(begin),
                    finished_at=at(begin + seconds / 60),
                    seconds=seconds,
                    agent_seconds=seconds * 0.9,
                    log_tail=("line of a log with a few words\n" * 100)[:log],
                )
            )
    document = results(rows)
    document["timeline"] = _timeline(rows)
    return document


def _seed_tasks() -> list[dict[str, Any]]:
    names = NAMES.read_text(encoding="utf-8").split()
    rng = random.Random(27)
    fates = (
        [("passed", "none", None)] * 53
        + [("failed", "none", None)] * 16
        + [("errored", "timeout", "AgentTimeoutError")] * 16
        + [("errored", "infrastructure", "SandboxError")] * 3
        + [("errored", "infrastructure", "RemoteProtocolError")]
    )
    rng.shuffle(fates)
    rows = []
    for number, (name, (status, kind, exception)) in enumerate(zip(names, fates, strict=True)):
        minutes = 61.0 if kind == "timeout" else min(rng.lognormvariate(3.0, 0.6), 58)
        number_of_pass = 1 if number % 4 else rng.choice((2, 3, 4))
        begin = {1: number * 6.2, 2: 612 + number, 3: 902 + number / 2, 4: 1042}[number_of_pass]
        earlier = [
            _superseded(name, earlier, begin_of_pass)
            for earlier, begin_of_pass in ((1, number * 6.2), (2, 612 + number), (3, 902))
            if earlier < number_of_pass
        ]
        output = int(rng.lognormvariate(10.5, 0.7))
        rows.append(
            task(
                f"terminal-bench/{name}",
                status=status,
                **{"class": kind, "pass": number_of_pass},
                exception=exception,
                reward={"passed": 1.0, "failed": 0.0, "errored": None}[status],
                reason=_reason(kind, status),
                trial=f"{name[:32]}__{number:07x}",
                started_at=at(begin),
                finished_at=at(begin + minutes + 2),
                superseded=len(earlier),
                superseded_trials=earlier,
                seconds=minutes * 60 + 120,
                agent_seconds=minutes * 60,
                tokens=None
                if kind == "infrastructure"
                else {"input": output * 11, "cached": output * 8, "output": output},
                log_tail=_log(status, kind, exception),
                message=f"{exception}: {_reason(kind, status)}" if exception else None,
            )
        )
    return rows


def _log(status: str, kind: str, exception: str | None) -> str:
    lines = [
        "root@sandbox:/app# python -m pytest tests/test_outputs.py -rA",
        "collected 4 items",
    ]
    if status == "passed":
        lines.append("4 passed in 3.61s")
    elif status == "failed":
        lines += [
            "E   AssertionError: expected 'Linux' in /app/out.txt, got ''",
            "FAILED tests/test_outputs.py::test_output - AssertionError",
            "1 failed, 3 passed in 4.02s",
        ]
    else:
        lines += ["Traceback (most recent call last):", f"{exception}: {_reason(kind, status)}"]
    return "\n".join(lines) + "\n"


def _reason(kind: str, status: str) -> str:
    if kind == "timeout":
        return "the agent was stopped after 3600 s and no reward was given"
    if kind == "infrastructure":
        return "the sandbox stopped answering"
    return f"the verifier gave {1.0 if status == 'passed' else 0.0}"


def _superseded(name: str, number_of_pass: int, begin: float) -> dict[str, Any]:
    return {
        "trial": f"{name[:32]}__old{number_of_pass:04x}",
        "pass": number_of_pass,
        "status": "errored",
        "class": "infrastructure",
        "exception": "SandboxError",
        "reward": None,
        "reason": "the sandbox stopped answering",
        "started_at": at(begin),
        "finished_at": at(begin + 9),
    }


def _timeline(rows: list[dict[str, Any]]) -> dict[str, Any]:
    trials = []
    for row in rows:
        for trial in [*row["superseded_trials"], row]:
            trials.append(
                {
                    "task": row["task"],
                    "trial": trial["trial"],
                    "pass": trial["pass"],
                    "started_at": trial["started_at"],
                    "agent_started_at": trial["started_at"],
                    "agent_finished_at": trial["finished_at"],
                    "finished_at": trial["finished_at"],
                    "status": trial["status"],
                    "class": trial["class"],
                }
            )
    return {
        "trials": trials,
        "outages": [
            {"started_at": at(236), "finished_at": at(251), "reason": "the server was replaced"},
            {"started_at": at(700), "finished_at": at(706), "reason": "503 from the server"},
        ],
        "concurrency": [
            {"at": at(0), "limit": 8, "reason": "start"},
            {"at": at(42), "limit": 4, "reason": "5 of 8 trials failed in the sandbox"},
            {"at": at(180), "limit": 5, "reason": "20 trials without a failure"},
            {"at": at(260), "limit": 3, "reason": "the server was replaced"},
            {"at": at(612), "limit": 3, "reason": "pass 2"},
        ],
    }


def _comparison(rows: list[dict[str, Any]]) -> dict[str, Any]:
    passed = [row["task"] for row in rows if row["status"] == "passed"]
    failed = [row["task"] for row in rows if row["status"] == "failed"]
    errored = [row["task"] for row in rows if row["status"] == "errored"]
    fixed, broken, newly = set(passed[:6]), set(failed[:4]), set(errored[:3])
    tasks = []
    for row in rows:
        name, ours = row["task"], row["status"]
        if name in fixed:
            change, theirs = "fixed", "failed"
        elif name in broken:
            change, theirs = "broken", "passed"
        elif name in newly:
            change, theirs = "newly_unscored", "passed"
        else:
            change = {"passed": "same_pass", "failed": "still_failing", "errored": "unscored"}[ours]
            theirs = ours
        tasks.append({"task": name, "change": change, "ours": ours, "theirs": theirs})
    return {
        "baseline": {
            "name": "v3.7",
            "source": "runs/2026-07-12/results.json",
            "commit": "51cc0ffee0ddba11",
            "date": "2026-07-12T18:04:00Z",
            "fingerprint": FINGERPRINT,
            "why": "the latest complete run with the same fingerprint",
        },
        "comparable": True,
        "differing_fields": [],
        "model_changes": [
            {"field": "model.revision", "ours": "4f1c2b7d90ab", "theirs": "77aa01c3e9f2"}
        ],
        "forced": False,
        "tasks": tasks,
        "counts": _count(tasks, "change"),
        "test": {"name": "exact McNemar", "p_value": 0.754, "n_pairs": 69},
        "difference": {"value": 0.029, "interval": [-0.07, 0.125]},
        "smallest_detectable_drop": 0.116,
        "verdict": "pass",
        "reason": (
            "The pass rate rose by 2.9 points (95 % interval -7.0 to +12.5; exact McNemar test "
            "over 69 tasks, p = 0.75); a drop of less than 11.6 points could have been missed."
        ),
    }


def _pass(
    number: int, kind: str, begin: float, end: float, trials: int, repeated: int, repaired: int
) -> dict[str, Any]:
    return {
        "number": number,
        "kind": kind,
        "started_at": at(begin),
        "finished_at": at(end),
        "trials": trials,
        "repeated": repeated,
        "repaired": repaired,
        "exit_code": 0,
        "reason": "all planned tasks" if kind == "run" else f"{repeated} infrastructure failures",
    }


def _count(rows: list[dict[str, Any]], key: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        if row[key] is None:
            continue
        counts[str(row[key])] = counts.get(str(row[key]), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _wilson(k: int, n: int) -> list[float]:
    if not n:
        return [0.0, 1.0]
    z = 1.959963984540054
    centre = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * (k * (n - k) / n + z * z / 4) ** 0.5
    return [max(0.0, centre - half), min(1.0, centre + half)]
