"""Time and memory of counting a job: `tbh score` beside Harbor's own reading of the same files.

    python bench/report.py [--sizes 100,1000,10000,100000] [--harbor-up-to 10000]

Each size is a Harbor job directory of five attempts a task, with result.json files and a lock.json
as large as Harbor 0.26 writes them. Every figure is a whole process: its start, imports and output
included; memory is its peak resident size. Harbor's side reads each file with its own model and
counts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tbh_action.scoring.failures import error_policy_overrides

ATTEMPTS = 5
START = datetime(2026, 8, 1, 9, 0, tzinfo=UTC)
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
        return f"{self.wall:.2f} s {self.processor:.2f} cpu {self.megabytes:4.0f} MB"


def measure(argv: list[str], repeat: int) -> Measured:
    runs = []
    for _ in range(repeat):
        begin = time.perf_counter()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{argv[:3]} ended with {process.returncode}")
        unit = 1e6 if sys.platform == "darwin" else 1e3
        runs.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit))
    walls, processors, megabytes = zip(*runs, strict=True)
    return Measured(wall=min(walls), processor=min(processors), megabytes=max(megabytes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000,100000")
    parser.add_argument("--harbor-up-to", type=int, default=10_000)
    options = parser.parse_args()
    tbh = str(Path(sys.executable).parent / "tbh")
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}; best of 3 (1 above 10,000)"
    )
    print(f"tbh --help: {measure([tbh, '--help'], 3)}\n")
    columns = ("tbh score", "tbh score --json", "Harbor reads")
    print(f"{'trials':>8} {'on disk':>9} " + " ".join(f"{name:>26}" for name in columns))
    for trials in (int(size) for size in options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="tbh-bench-") as folder:
            job = Path(folder) / "job"
            make_job(job, trials)
            repeat = 3 if trials <= 10_000 else 1
            cells = [str(measure([tbh, "score", str(job)], repeat))]
            cells.append(str(measure([tbh, "score", "--json", str(job)], repeat)))
            if trials <= options.harbor_up_to:
                cells.append(str(measure([sys.executable, "-c", HARBOR_READS, str(job)], repeat)))
            size_mb = sum(path.stat().st_size for path in job.rglob("*.json")) / 1e6
            print(f"{trials:>8,} {size_mb:>6.0f} MB " + " ".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    main()
