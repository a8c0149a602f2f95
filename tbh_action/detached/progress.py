"""The short story of a detached run: `status.json` in its store, and the words for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tbh_action.controller import state as run_state
from tbh_action.controller.preflight import known_tasks
from tbh_action.controller.spec_file import Asked, read_asked
from tbh_action.durations import format_duration
from tbh_action.escape import one_line, terminal
from tbh_action.policy import cost
from tbh_action.policy.shard import tasks_of_shard
from tbh_action.rundir import RunDir, read_lines, utc_now
from tbh_action.scoring import ledger
from tbh_action.scoring.outcomes import outcomes, plan_of

if TYPE_CHECKING:
    from tbh_action.server.hf_job import PaidJob

FILE: Final = "status.json"
# With these codes `tbh run` ended by itself; others say that it was stopped.
_OWN_END: Final = frozenset({0, 1, 2, 3, 4})


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a run stood at `at`. `exit_code` is that of `tbh run`, None while it runs; counts are
    of trials. `tail` are the last lines of its output."""

    at: str
    exit_code: int | None = None
    status: str = "new"
    stop_reason: str | None = None
    passes: int = 0
    planned: int | None = None
    scored: int = 0
    passed: int = 0
    spend_usd: float | None = None
    last: str = ""
    tail: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """`tbh run` came to its own end."""
        return self.exit_code in _OWN_END

    @property
    def complete(self) -> bool:
        """Nothing is left to run."""
        return self.finished and self.status == "complete"

    @property
    def error(self) -> str:
        """What the run said last, as a reason in one line; an error's list belongs to it."""
        said = list(self.tail) or ["it said nothing"]
        errors = [at for at, line in enumerate(said) if line.startswith("Error: ")]
        if not errors:
            return said[-1]
        first, *more = said[errors[-1] :]
        points = [line.strip() for line in more if line.startswith("  - ")]
        return " ".join([first.removeprefix("Error: "), *points])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Progress:
        """Keys of other versions are left out."""
        known = {field.name for field in fields(cls)}
        values = {key: value for key, value in document.items() if key in known}
        return cls(**{"at": "", **values, "tail": tuple(values.get("tail", ()))})


def progress(run_dir: RunDir, *, exit_code: int | None, tail: Sequence[str] = ()) -> Progress:
    """What the files of a run say; all zero before the first of them is there."""
    asked = read_asked(run_dir)
    state = run_state.load(run_dir)
    if asked is None or state is None:
        return Progress(at=utc_now(), exit_code=exit_code, tail=tuple(tail))
    plan = plan_of(planned_tasks(run_dir, asked), asked.spec.n_attempts)
    winners = [row.winner for row in outcomes(plan, ledger.read_attempts(run_dir.attempts))]
    spent = cost.spend(state.paid, state.prices, datetime.now(UTC)) if state.prices else None
    said = [line for line in read_lines(run_dir.events) if line.get("event") == "said"]
    return Progress(
        at=utc_now(),
        exit_code=exit_code,
        status=state.status,
        stop_reason=state.stop_reason,
        passes=len(state.passes),
        planned=len(winners),
        scored=sum(winner is not None and winner.scored for winner in winners),
        passed=sum(winner is not None and winner.passed for winner in winners),
        spend_usd=spent.total_usd if spent else None,
        last=f"{said[-1].get('at')} {said[-1].get('text')}" if said else "",
        tail=tuple(tail),
    )


def planned_tasks(run_dir: RunDir, asked: Asked) -> list[str]:
    """The tasks of this run (of its shard), as results name them."""
    tasks = known_tasks(run_dir)
    names = [task.name for task in tasks.tasks] if tasks else []
    return tasks_of_shard(names, asked.shard) if asked.shard else names


def story(name: str, job: PaidJob | None, known: Progress | None, now: datetime) -> list[str]:
    """What `tbh status` prints."""
    lines = [f"{name}: {headline(name, job, known)}"]
    if job is not None:
        said = f" ({terminal(one_line(job.message))})" if job.message else ""
        lines.append(
            f"  controller {job.job_id} on {job.flavor}: {job.stage}{said}, "
            f"created {_ago(job.created_at, now)}"
        )
    if known is not None and known.planned is not None:
        spent = "unknown" if known.spend_usd is None else f"${known.spend_usd:.2f}"
        lines.append(
            f"  pass {known.passes}, {known.scored} of {known.planned} trials scored, "
            f"{known.passed} passed, spent {spent} (stored {_ago(known.at, now)})"
        )
    if known is not None and known.last:
        lines.append(f"  last: {terminal(one_line(known.last))}")
    return lines


def headline(name: str, job: PaidJob | None, known: Progress | None) -> str:
    """Where the run stands, and what to do about it."""
    if known is not None and known.complete:
        return f"complete. The answer: tbh collect {name}"
    if job is not None and not job.ended:
        return "running" if job.stage == "RUNNING" else "waiting for hardware"
    if known is not None and known.finished:
        reason = known.stop_reason or known.error
        return f"ended with exit code {known.exit_code}: {terminal(one_line(reason))}"
    return "its controller is gone; the same `tbh submit` goes on from what is stored"


def _ago(moment: str | None, now: datetime) -> str:
    if not moment:
        return "at an unknown time"
    seconds = (now - datetime.fromisoformat(moment)).total_seconds()
    return f"{format_duration(max(seconds, 1.0))} ago"
