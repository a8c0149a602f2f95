"""Everything of a leg that comes before something paid, and the repair of what a kill left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tbh_action.controller import preflight
from tbh_action.controller import state as run_state
from tbh_action.controller.journal import Journal
from tbh_action.controller.spec_file import Asked, read_asked, refuse_another, write_asked
from tbh_action.controller.state import RunState
from tbh_action.harbor.process import end_leftover
from tbh_action.harbor.tasks import TaskList
from tbh_action.policy.shard import Shard, tasks_of_shard
from tbh_action.rundir import RunDir, utc_now
from tbh_action.scoring import ledger
from tbh_action.server import hf_job
from tbh_action.server.borrow import borrow
from tbh_action.server.hub_errors import explain, hub_errors
from tbh_action.spec import RunSpec

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What one call of `tbh run` asks. `earlier`: seconds a trial took in an earlier run, by task.
    `time_budget` (seconds) and `max_cost` (USD) bound this leg and the whole run. `server_job` is
    the id of a running server of another run, to be used instead of one's own."""

    spec: RunSpec
    shard: Shard | None = None
    time_budget: float | None = None
    max_cost: float | None = None
    keep_server: bool = False
    server_job: str | None = None
    earlier: Mapping[str, float] = field(default_factory=dict)
    endpoint_key: str | None = field(default=None, repr=False)


@dataclass(kw_only=True, slots=True)
class Prepared:
    """A leg that may start."""

    request: Request
    run_dir: RunDir
    asked: Asked
    state: RunState
    tasks: TaskList
    api: HfApi
    journal: Journal
    warnings: tuple[str, ...]
    started: float
    borrowed: PaidJob | None = None

    @property
    def complete(self) -> bool:
        return self.state.status == "complete"


def prepare(request: Request, run_dir: RunDir, journal: Journal) -> Prepared:
    """Everything before something paid: the question on disk, machine, Hub and tasks looked at,
    and what a killed process of this run left behind repaired.

    Raises:
        SpecError: the directory holds another run.
        NotStartedError: preflight found problems, or the server job is of no use.
    """
    started = time.monotonic()
    asked = read_asked(run_dir)
    if asked is not None:
        refuse_another(run_dir, asked, request.spec, request.shard)
    state = run_state.load(run_dir) or run_state.new_state(run_dir.name)
    api = hf_job.hub_api()
    ready = preflight.preflight(api, request.spec, run_dir, journal.say)
    if asked is None:
        asked = write_asked(run_dir, request.spec, request.shard, ready.tasks)
    state.prices = ready.prices or state.prices
    state.benchmark_commit = state.benchmark_commit or ready.commit
    state.status, state.stop_reason, state.finished_at = "running", None, None
    _look_at_borrowed(api, state, journal)
    run_state.save(run_dir, state)
    job_id = request.server_job
    borrowed = borrow(api, request.spec, job_id) if job_id is not None else None
    _repair(run_dir, state, journal)
    stop_left_sandboxes(api, state, request.spec.namespace, journal)
    for warning in ready.warnings:
        journal.say(f"note: {warning}")
    return Prepared(
        request=request,
        run_dir=run_dir,
        asked=asked,
        state=state,
        tasks=_of_shard(ready.tasks, request.shard),
        api=api,
        journal=journal,
        warnings=ready.warnings,
        started=started,
        borrowed=borrowed,
    )


def _of_shard(tasks: TaskList, shard: Shard | None) -> TaskList:
    if shard is None:
        return tasks
    names = set(tasks_of_shard([task.name for task in tasks.tasks], shard))
    return TaskList(
        tasks=tuple(task for task in tasks.tasks if task.name in names), left_out=tasks.left_out
    )


def _look_at_borrowed(api: HfApi, state: RunState, journal: Journal) -> None:
    """A server that an earlier leg borrowed was stopped by its owner since: what it cost is known
    only now."""
    for job in [job for job in state.servers if job.borrowed and not job.ended]:
        try:
            state.record(hf_job.inspect(api, job))
        except hub_errors(ValueError, KeyError, TypeError) as error:
            journal.say(f"the Hub cannot be asked about the server {job.job_id}: {explain(error)}")


def _repair(run_dir: RunDir, state: RunState, journal: Journal) -> None:
    """After a kill -9: ends a Harbor that still runs, records the trials that nobody recorded."""
    if end_leftover(state.harbor_pid, str(run_dir.root)):
        journal.say(f"ended the Harbor process {state.harbor_pid} that an earlier leg left")
    state.harbor_pid = None
    for record in state.passes:
        if record.finished_at is None:
            record.finished_at, record.cut_short = utc_now(), True
            record.reason = record.reason or "the controller was killed"
    last = state.passes[-1].number if state.passes else None
    found = ledger.reconcile(run_dir, pass_number=last or 0)
    if found:
        journal.say(f"recorded {len(found)} trials that an earlier leg had not")
    run_state.save(run_dir, state)


def stop_left_sandboxes(
    api: HfApi, state: RunState, namespace: str | None, journal: Journal
) -> None:
    """For when no Harbor of this run is at work: a sandbox that runs then was left by a kill, or
    by a creation whose answer was lost. Servers are left alone, the supervisor adopts them."""
    if not state.passes:
        return
    try:
        jobs = hf_job.jobs_of_run(api, state.run_id, namespace)
    except hub_errors() as error:
        journal.say(f"the Hub cannot be asked what was left running: {explain(error)}")
        return
    for job in jobs:
        if job.kind == "sandbox" and not job.ended:
            hf_job.cancel(api, job)
            journal.say(f"cancelled the sandbox {job.job_id} that was left running")
