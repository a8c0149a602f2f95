"""One pass: Harbor over the run's job, from archiving what it repeats to repairing the ledger."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tbh_action.controller.leg import Leg
from tbh_action.controller.state import PassRecord
from tbh_action.errors import NotStartedError
from tbh_action.harbor import archive, command
from tbh_action.harbor.job_dir import trial_directories
from tbh_action.harbor.process import HarborProcess
from tbh_action.policy.passes import Remaining
from tbh_action.rundir import RunDir, utc_now
from tbh_action.scoring import ledger
from tbh_action.scoring.ledger import Attempt

_TICK = 1.0
_LOG_TAIL = 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class PassEnd:
    """How a pass ended. `refused` is Harbor's own last line when it started no trial at all."""

    record: PassRecord
    refused: str | None = None


def remaining(
    tasks: Iterable[str], n_attempts: int, attempts: Iterable[Attempt], present: Iterable[str]
) -> Remaining:
    """What a further pass would do: slots that no trial has used up, and trials to repeat.

    A trial that lies in the job without a score and may not be repeated uses up its slot.
    """
    here = set(present)
    scored: Counter[str] = Counter()
    spoilt: Counter[str] = Counter()
    repeatable: Counter[str] = Counter()
    for attempt in attempts:
        if attempt.scored:
            scored[attempt.task] += 1
        elif attempt.trial in here and attempt.failure_class != "interrupted":
            (repeatable if attempt.retryable else spoilt)[attempt.task] += 1
    unfinished = retryable = 0
    for task in tasks:
        free = max(0, n_attempts - scored[task] - spoilt[task])
        again = min(free, repeatable[task])
        retryable += again
        unfinished += free - again
    return Remaining(unfinished=unfinished, retryable=retryable)


def present_trials(run_dir: RunDir) -> list[str]:
    """The names of the trial directories in the run's Harbor job."""
    if not run_dir.harbor_job.is_dir():
        return []
    return [directory.name for directory in trial_directories(run_dir.harbor_job)]


async def run_pass(leg: Leg, kind: str, env: dict[str, str]) -> PassEnd:
    """Runs Harbor once and leaves ledger and state in step with what it did, however it ends.

    Raises:
        NotStartedError: there is no Harbor, or it cannot be started.
    """
    state, run_dir = leg.state, leg.run_dir
    resumes = (run_dir.harbor_job / "config.json").exists()
    argv = command.resume_argv(run_dir.harbor_job) if resumes else command.run_argv(run_dir)
    number = len(state.passes) + 1
    record = PassRecord(number=number, kind=kind, started_at=utc_now())
    state.passes.append(record)
    leg.new_pass(number)
    before = ledger.read_attempts(run_dir.attempts)
    moves = _archive(leg, before)
    record.repeated = len(moves)
    log_from = run_dir.harbor_log.stat().st_size if run_dir.harbor_log.exists() else 0
    started = time.monotonic()
    try:
        harbor = await HarborProcess.start(argv, env, run_dir.harbor_log)
    except OSError as error:
        archive.restore(moves)
        state.passes.remove(record)
        raise NotStartedError(f"Harbor cannot be started: {error.strerror}: {argv[0]}") from error
    state.harbor_pid = harbor.pid
    leg.save()
    leg.journal.event({"event": "pass_started", "pass": number, "kind": kind, "argv": argv})
    try:
        record.exit_code = await _watch(leg, harbor, record, started)
    except asyncio.CancelledError:
        record.reason, record.cut_short = "interrupted", True
        record.exit_code = await asyncio.shield(harbor.stop())
        raise
    finally:
        _close(leg, record, before)
    refused = None
    if record.exit_code not in (0, None) and not record.cut_short and record.trials == 0:
        refused = _last_line(run_dir, log_from)
        archive.restore(moves)
        record.reason, record.cut_short = f"Harbor refused to start: {refused}", True
        leg.save()
    return PassEnd(record=record, refused=refused)


def _archive(leg: Leg, attempts: list[Attempt]) -> list[archive.Move]:
    """Moves what this pass repeats out of Harbor's way, each trial to its own pass's archive."""
    here = present_trials(leg.run_dir)
    to_repeat = ledger.retryable(attempts, present=here, n_attempts=leg.spec.n_attempts)
    moves = []
    for attempt in to_repeat:
        moves += archive.archive_trials(leg.run_dir, attempt.pass_number or 0, [attempt.trial])
    if moves:
        leg.journal.event(
            {"event": "archived", "trials": [move.source.name for move in moves]},
        )
    return moves


async def _watch(leg: Leg, harbor: HarborProcess, record: PassRecord, started: float) -> int:
    """Harbor's exit code; it is stopped when the leg finds a reason."""
    waiting = asyncio.ensure_future(harbor.wait())
    while not waiting.done():
        await asyncio.wait([waiting], timeout=_TICK)
        if waiting.done():
            break
        reason = leg.tick(started)
        if reason is not None:
            record.reason, record.cut_short = reason, True
            leg.journal.say(f"stopping Harbor: {reason}")
            return await harbor.stop()
    return waiting.result()


def _close(leg: Leg, record: PassRecord, before: list[Attempt]) -> None:
    """Ledger and state after Harbor's end: trials that were only waiting leave no trace, those
    whose end was not reported are recorded now, timeouts are judged with all outages known."""
    run_dir = leg.run_dir
    for trial in leg.control.live.values():
        directory = run_dir.harbor_job / trial.trial
        if trial.phase == "waiting" and not (directory / "result.json").exists():
            shutil.rmtree(directory, ignore_errors=True)
    late = _reconcile(leg, record.number)
    known = {attempt.trial for attempt in before}
    broken = {attempt.task for attempt in before if not attempt.scored}
    new = [a for a in ledger.read_attempts(run_dir.attempts) if a.trial not in known]
    record.trials = len(new)
    record.repaired = len({a.task for a in new if a.scored and a.task in broken})
    record.finished_at = utc_now()
    if late:
        leg.journal.event({"event": "reconciled", "trials": [attempt.trial for attempt in late]})
    leg.state.harbor_pid = None
    leg.journal.event(
        {"event": "pass_ended", "pass": record.number, "exit_code": record.exit_code,
         "reason": record.reason, "trials": record.trials, "repaired": record.repaired}
    )  # fmt: skip
    leg.save()


def _reconcile(leg: Leg, number: int) -> list[Attempt]:
    """Brings the ledger in step. On a full disk the next leg does it."""
    outages = leg.outages()
    try:
        late = ledger.reconcile(leg.run_dir, pass_number=number, outages=outages)
        changed = ledger.rejudge(leg.run_dir, outages)
    except OSError as error:
        leg.journal.say(f"cannot write the ledger ({error.strerror}); it is repaired later")
        return []
    for attempt in changed:
        leg.journal.say(f"{attempt.trial} is judged anew: {attempt.reason}")
    return late


def _last_line(run_dir: RunDir, start: int) -> str:
    """The last thing that Harbor said in this pass."""
    with run_dir.harbor_log.open("rb") as log:
        log.seek(start)
        text = log.read()[-_LOG_TAIL:].decode("utf-8", errors="replace")
    lines = [line.strip(" │╭╰─╮╯") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no word")
