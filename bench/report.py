"""Time and memory of counting and reporting a job, beside Harbor's own reading of the same files.

    python bench/report.py [--sizes 100,1000,10000,100000] [--harbor-up-to 10000]

Each size is a Harbor job directory of five attempts a task, with result.json files and a lock.json
as large as Harbor 0.26 writes them. Every figure is a whole process: its start, imports and output
included; memory is its peak resident size. Harbor's side reads each file with its own model and
counts nothing.

Goals are about processor time: each process has one thread, so this is its time on a machine with
nothing else to do, and the wall clock of a busy one says little.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tbh_action.scoring.failures import error_policy_overrides

ATTEMPTS = 5
START = datetime(2026, 8, 1, 9, 0, tzinfo=UTC)
# From the job to results.json and the five files of the report, as a run does it at its end.
TOGETHER = """
import sys
from pathlib import Path
from tbh_action.report.write import write_all
from tbh_action.scoring.directory import score_directory
from tbh_action.scoring.results import write
results = score_directory(Path(sys.argv[1]), with_logs=True)
write(Path(sys.argv[2]) / "results.json", results)
write_all(results, Path(sys.argv[2]))
"""
HARBOR_READS = """
import sys
from pathlib import Path
from harbor.models.trial.result import TrialResult
kept = [
    TrialResult.model_validate_json((path / "result.json").read_text())
    for path in Path(sys.argv[1]).iterdir()
    if path.is_dir()
]
print(len(kept))
"""


def make_job(job: Path, trials: int) -> None:
    """A job directory of `trials` trials that Harbor's own model accepts."""
    rng = random.Random(trials)
    config = _trial_config()
    entry = {"schema_version": 2, "task": {}, **{k: v for k, v in config.items() if k != "task"}}
    job.mkdir(parents=True)
    with (job / "lock.json").open("w", encoding="utf-8") as lock:
        lock.write('{\n    "schema_version": 3,\n    "harbor": {"version": "0.26.0"},\n')
        lock.write('    "n_concurrent_trials": 3,\n    "trials": [\n')
        for number in range(trials):
            task = f"task-{number // ATTEMPTS:05d}"
            name = f"{task}__{rng.randrange(16**7):07x}"
            (job / name).mkdir()
            (job / name / "result.json").write_text(
                json.dumps(_result(task, name, config, rng), indent=4), encoding="utf-8"
            )
            entry["task"] = {"name": task, "type": "git", "digest": f"sha256:{0:064x}"}
            lock.write(json.dumps(entry, indent=4) + (",\n" if number < trials - 1 else "\n"))
        lock.write("    ]\n}\n")
    asked = {"n_attempts": ATTEMPTS, "agents": [config["agent"]], "datasets": []}
    (job / "config.json").write_text(json.dumps(asked), encoding="utf-8")


def _trial_config() -> dict[str, Any]:
    unset = dict.fromkeys(("should_retry", "should_grade", "has_valid_reward"))
    policies = {name: unset | policy for name, policy in error_policy_overrides().items()}
    return {
        "task": {"path": "tasks/t"},
        "agent": {
            "name": "terminus-2",
            "model_name": "openai/Qwen/Qwen3.8-27B-FP8",
            "kwargs": {"reasoning_effort": "low", "llm_call_kwargs": {"timeout": 1860}},
        },
        "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-upgrade"}},
        "agent_timeout_multiplier": 4.0,
        "override_error_policy": policies,
        "artifacts": [f"/logs/artifacts/{number:040d}" for number in range(40)],
    }


def _result(task: str, name: str, config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    start = START + timedelta(seconds=rng.random() * 1e5)
    phases = ("environment_setup", "agent_setup", "agent_execution", "verifier")
    times = [start + timedelta(seconds=step) for step in (9, 20, 900 + rng.random() * 2000, 2999)]
    error = rng.choices([None, "AgentTimeoutError", "SandboxError"], [80, 12, 8])[0]
    spans = zip((start, *times), times, phases, strict=False)
    return {
        "id": f"{rng.getrandbits(128):032x}",
        "task_name": f"org/{task}",
        "trial_name": name,
        "trial_uri": f"file:///jobs/j/{name}",
        "task_id": {"path": f"tasks/{task}"},
        "source": "bench",
        "task_checksum": f"{rng.getrandbits(256):064x}",
        "config": config | {"task": {"path": f"tasks/{task}"}, "trial_name": name},
        "agent_info": {
            "name": "terminus-2",
            "version": "2.0.0",
            "model_info": {"name": "Qwen/Qwen3.8-27B-FP8", "provider": "openai"},
        },
        "agent_result": {"n_input_tokens": 10**6, "n_cache_tokens": 10**5, "n_output_tokens": 9000},
        "verifier_result": None if error else {"rewards": {"reward": float(rng.random() < 0.6)}},
        "exception_info": error
        and {
            "exception_type": error,
            "exception_message": "m" * 200,
            "exception_traceback": "t" * 3000,
            "occurred_at": times[2].isoformat(),
        },
        "started_at": start.isoformat(),
        "finished_at": times[-1].isoformat(),
        **{
            phase: {"started_at": begin.isoformat(), "finished_at": end.isoformat()}
            for begin, end, phase in spans
        },
    }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The best of some whole processes: wall and processor seconds; their largest memory in MB."""

    wall: float
    processor: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.processor:7.2f} s {self.wall:7.2f} s {self.megabytes:6.0f} MB"


# A small process between: a child's largest size counts what its parent was before the exec.
_LAUNCHER: Final = """
import json, os, subprocess, sys, time
with open(sys.argv[1], "wb") as file:
    begin = time.perf_counter()
    process = subprocess.Popen(sys.argv[2:], stdout=file)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


def measure(argv: list[str], repeat: int, output: Path | None = None) -> Measured:
    """`repeat` processes of `argv`, their standard output in `output`."""
    runs = []
    for _ in range(repeat):
        launcher = [sys.executable, "-S", "-c", _LAUNCHER, str(output or os.devnull), *argv]
        said = subprocess.run(launcher, check=True, stdout=subprocess.PIPE).stdout
        code, wall, processor, size = json.loads(said)
        if code != 0:
            raise SystemExit(f"{argv[:3]} ended with {code}")
        unit = 1e6 if sys.platform == "darwin" else 1e3
        runs.append((wall, processor, size / unit))
    walls, processors, megabytes = zip(*runs, strict=True)
    return Measured(wall=min(walls), processor=min(processors), megabytes=max(megabytes))


def measure_size(tbh: str, trials: int, *, harbor: bool) -> dict[str, Measured]:
    """Each way to count or report a new job of so many trials."""
    repeat = 3 if trials <= 10_000 else 1
    with tempfile.TemporaryDirectory(prefix="tbh-bench-") as folder:
        job, results, out = (Path(folder) / name for name in ("job", "results.json", "report"))
        make_job(job, trials)
        size = sum(path.stat().st_size for path in job.rglob("*.json")) / 1e6
        print(f"\n{trials:,} trials, {size:,.0f} MB of JSON")
        commands = {
            "tbh score": [tbh, "score", str(job)],
            "tbh score --json": [tbh, "score", "--json", str(job)],
            "tbh report": [tbh, "report", str(results), "--out", str(out)],
            "both in one": [sys.executable, "-c", TOGETHER, str(job), str(out)],
        }
        if harbor:
            commands["Harbor reads"] = [sys.executable, "-c", HARBOR_READS, str(job)]
        measured = {}
        for name, argv in commands.items():
            output = results if name == "tbh score --json" else None
            measured[name] = measure(argv, repeat, output)
            print(f"  {name:<18}{measured[name]}", flush=True)
        for path in sorted(out.iterdir()):
            print(f"    {path.name:<16}{path.stat().st_size / 1e6:8.2f} MB")
    return measured


@dataclass(frozen=True, kw_only=True)
class Goal:
    """At most so much of what was measured; None is no limit."""

    trials: int
    name: str
    seconds: float | None
    megabytes: float | None


GOALS = (
    Goal(trials=0, name="tbh --help", seconds=0.3, megabytes=None),
    Goal(trials=1000, name="tbh score", seconds=1, megabytes=None),
    Goal(trials=10_000, name="tbh score", seconds=2, megabytes=300),
    Goal(trials=10_000, name="tbh score --json", seconds=2, megabytes=300),
    Goal(trials=10_000, name="tbh report", seconds=2, megabytes=300),
    Goal(trials=10_000, name="both in one", seconds=2, megabytes=300),
    Goal(trials=100_000, name="both in one", seconds=None, megabytes=1500),
)


def print_goals(measured: dict[tuple[int, str], Measured]) -> None:
    """Says of each goal that was measured whether it is met."""
    for goal in GOALS:
        found = measured.get((goal.trials, goal.name))
        if found is None:
            continue
        what = f"{goal.name}, {goal.trials:,} trials" if goal.trials else goal.name
        for limit, value, unit in (
            (goal.seconds, found.processor, "s"),
            (goal.megabytes, found.megabytes, "MB"),
        ):
            if limit is not None:
                print(f"  {_word(value < limit)} {what}: {value:.2f} of {limit:g} {unit}")
    few, many = (measured.get((trials, "both in one")) for trials in (10_000, 100_000))
    if few and many:
        times = many.processor / few.processor
        print(
            f"  {_word(times < 12)} linear: ten times as many trials take {times:.1f} times as long"
        )


def _word(met: bool) -> str:
    return "met   " if met else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000,100000")
    parser.add_argument("--harbor-up-to", type=int, default=10_000)
    options = parser.parse_args()
    tbh = str(Path(sys.executable).parent / "tbh")
    print(
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, Python "
        f"{sys.version.split()[0]}; best of 3 (1 above 10,000): processor, wall, peak memory"
    )
    measured = {(0, "tbh --help"): measure([tbh, "--help"], 3)}
    print(f"  {'tbh --help':<18}{measured[0, 'tbh --help']}")
    for trials in (int(size) for size in options.sizes.split(",")):
        ways = measure_size(tbh, trials, harbor=trials <= options.harbor_up_to)
        measured |= {(trials, name): figure for name, figure in ways.items()}
    print(f"\nGoals (load {os.getloadavg()[0]:.1f})")
    print_goals(measured)


if __name__ == "__main__":
    main()
