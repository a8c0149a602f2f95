"""One leg of a run, from the question to the answer: preflight, server, passes, results.

Whatever happens, the way out is the same: paid things are stopped, the ledger is in step with
Harbor's directories, and state.json says where the run stands.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from typing import Any

from tbh_action.controller import preflight
from tbh_action.controller import state as run_state
from tbh_action.controller.harbor_pass import PassEnd, present_trials, remaining, run_pass
from tbh_action.controller.journal import Journal
from tbh_action.controller.leg import Leg, Limits
from tbh_action.controller.prepare import Prepared, stop_left_sandboxes
from tbh_action.controller.signals import Signals
from tbh_action.errors import NotStartedError
from tbh_action.gateway import Gateway, serve
from tbh_action.harbor import command
from tbh_action.harbor.adopt import set_concurrency
from tbh_action.harbor.mend import mend
from tbh_action.policy.passes import Remaining, Step, next_step
from tbh_action.policy.schedule import CLOSING, leg_deadline
from tbh_action.report.words import plural
from tbh_action.rundir import utc_now, write_json
from tbh_action.scoring import ledger
from tbh_action.server import hf_job
from tbh_action.server.hub_errors import explain, hub_errors
from tbh_action.server.supervisor import Supervisor
from tbh_action.spec import RunSpec


async def run_leg(prepared: Prepared) -> int | None:
    """Server, gateway, passes. Leaves state and ledger on disk. Returns the signal that ended it.

    Raises:
        NotStartedError: the server did not come up, or Harbor refused its job.
    """
    signals = Signals()
    signals.install()
    request, state = prepared.request, prepared.state
    leg = _leg(prepared)
    step = _next_step(prepared, leg)
    # A whole run asked for again, an empty shard, a leg that is too short: no server is started.
    nothing_to_do = step.reason if step.kind == "stop" else leg.too_short()
    if nothing_to_do is not None:
        _ended(prepared, leg, nothing_to_do)
        return None
    gateway = Gateway(
        leg.key,
        patience=request.spec.max_call,
        token=_server_token(prepared),
        extra_routes=leg.control.routes(),
        journal=prepared.journal.event,
    )
    async with serve(gateway) as gateway_url:
        supervisor = Supervisor(
            request.spec,
            state.run_id,
            api=prepared.api if request.spec.server else None,
            gateway=gateway if command.uses_gateway(request.spec.agent.name) else None,
            record=leg.record_paid,
            journal=prepared.journal.event,
            say=prepared.journal.say,
            endpoint_token=request.endpoint_key,
            borrowed=prepared.borrowed,
        )
        leg.follow(supervisor, gateway)
        if prepared.borrowed is not None:
            leg.record_paid(prepared.borrowed)
        supervisor.start(adopt=[job for job in state.servers if not (job.ended or job.borrowed)])
        work = asyncio.ensure_future(_work(prepared, leg, supervisor, gateway_url))
        alarm = asyncio.ensure_future(signals.wait())
        try:
            await asyncio.wait({work, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if signals.number is not None:
                await _interrupted(prepared, signals.number, supervisor, work)
        finally:
            alarm.cancel()
            keep = request.keep_server and state.status != "complete"
            await supervisor.stop(keep_servers=keep)
            leg.save()
        if signals.number is None:
            work.result()
    return signals.number


async def _interrupted(
    prepared: Prepared, number: int, supervisor: Supervisor, work: asyncio.Future[None]
) -> None:
    """First what is paid, then Harbor (which takes seconds to end), then the state."""
    name = signal.Signals(number).name
    prepared.journal.say(f"{name}: stopping what is paid, then Harbor")
    state = prepared.state
    stopping = [
        asyncio.ensure_future(supervisor.stop(keep_servers=prepared.request.keep_server)),
        *(
            asyncio.ensure_future(asyncio.to_thread(hf_job.cancel, prepared.api, job))
            for job in state.sandboxes
            if not job.ended
        ),
    ]
    # The calls above are on their way before Harbor hears of it.
    await asyncio.sleep(0.1)
    work.cancel()
    await asyncio.gather(*stopping, work, return_exceptions=True)
    state.status, state.stop_reason = "interrupted", f"interrupted by {name}"
    state.finished_at = utc_now()
    _save(prepared)


def _save(prepared: Prepared) -> None:
    """A full disk is said, and ends nothing that still has to be stopped."""
    try:
        run_state.save(prepared.run_dir, prepared.state)
    except OSError as error:
        prepared.journal.say(f"cannot write state.json: {error.strerror}")


def _leg(prepared: Prepared) -> Leg:
    request = prepared.request
    deadline = leg_deadline(
        prepared.started,
        request.time_budget,
        closing=min(CLOSING, (request.time_budget or 0.0) * 0.1),
    )
    return Leg(
        spec=request.spec,
        run_dir=prepared.run_dir,
        state=prepared.state,
        journal=prepared.journal,
        tasks={task.name: task for task in prepared.tasks.tasks},
        limits=Limits(deadline=deadline, max_cost=request.max_cost),
        earlier=request.earlier,
        key=secrets.token_urlsafe(24),
    )


def _server_token(prepared: Prepared) -> str | None:
    if prepared.request.spec.server is None:
        return prepared.request.endpoint_key
    return prepared.api.token if isinstance(prepared.api.token, str) else hf_job.hub_token()


async def _work(prepared: Prepared, leg: Leg, supervisor: Supervisor, gateway_url: str) -> None:
    """The passes; whatever ends them early is the state's last word too."""
    try:
        await _passes(prepared, leg, supervisor, gateway_url)
    except NotStartedError as error:
        _ended(prepared, leg, error.message)
        raise
    if supervisor.failed:
        raise NotStartedError(supervisor.failed)


async def _passes(prepared: Prepared, leg: Leg, supervisor: Supervisor, gateway_url: str) -> None:
    """Pass after pass until `next_step` says stop."""
    state, run_dir, spec = prepared.state, prepared.run_dir, prepared.request.spec
    while True:
        step = _next_step(prepared, leg, stop=leg.stop or supervisor.failed)
        if step.kind == "stop":
            _ended(prepared, leg, step.reason)
            return
        prepared.journal.say(f"pass {len(state.passes) + 1}: {step.reason}")
        await _freeze_config(prepared, supervisor)
        end = await run_pass(
            leg, step.kind, await _environment(prepared, leg, supervisor, gateway_url)
        )
        _tell(prepared.journal, end)
        if preflight.on_the_hub(spec):
            await asyncio.to_thread(
                stop_left_sandboxes, prepared.api, state, spec.namespace, prepared.journal
            )
        if end.refused is not None:
            raise NotStartedError(
                f"Harbor refused its job: {end.refused} (its words: {run_dir.harbor_log})"
            )


def _next_step(prepared: Prepared, leg: Leg, *, stop: str | None = None) -> Step:
    spec = prepared.request.spec
    return next_step(
        prepared.state.passes,
        _left(prepared, leg),
        max_passes=spec.max_passes,
        stop=stop,
        earlier=leg.earlier_passes,
    )


def _left(prepared: Prepared, leg: Leg) -> Remaining:
    return remaining(
        leg.tasks,
        prepared.request.spec.n_attempts,
        ledger.read_attempts(prepared.run_dir.attempts),
        present_trials(prepared.run_dir),
    )


async def _freeze_config(prepared: Prepared, supervisor: Supervisor) -> None:
    """Writes the job's config before the first pass. It needs the model's window: where the
    recipe does not say it, the server is waited for; else Harbor starts while the model loads."""
    run_dir, state, spec = prepared.run_dir, prepared.state, prepared.request.spec
    mended = mend(run_dir.harbor_job, run_dir.harbor_config)
    if mended:
        prepared.journal.say(f"put right what was torn in Harbor's files: {', '.join(mended)}")
    if (run_dir.harbor_job / "config.json").exists():
        if set_concurrency(run_dir.harbor_job, spec.n_concurrent):
            prepared.journal.say(f"the Harbor job now allows {spec.n_concurrent} trials at a time")
        return
    if run_dir.harbor_config.exists():
        return
    if spec.model.context_length is None and state.context_length is None:
        ready = await supervisor.ready()
        state.context_length = ready.context_length
    config = command.job_config(
        spec,
        run_dir,
        commit=state.benchmark_commit if spec.benchmark.repo else None,
        model_info=_model_info(spec, state.context_length),
        only=[task.name for task in prepared.tasks.tasks] if prepared.request.shard else None,
    )
    write_json(run_dir.harbor_config, config)


def _model_info(spec: RunSpec, learned: int | None) -> dict[str, Any] | None:
    """What the agent must know so that it assumes no window of a million tokens."""
    window = spec.model.context_length or learned
    if window is None:
        return None
    return {
        "max_input_tokens": window,
        "max_output_tokens": spec.model.max_output_tokens or window,
        "input_cost_per_token": 0.0,
        "output_cost_per_token": 0.0,
    }


async def _environment(
    prepared: Prepared, leg: Leg, supervisor: Supervisor, gateway_url: str
) -> dict[str, str]:
    """Host agents talk to the gateway with the run's key; those inside a sandbox need the server's
    own address and token."""
    base_url, key = gateway_url, leg.key
    if not command.uses_gateway(prepared.request.spec.agent.name):
        base_url, key = (await supervisor.ready()).base_url, _server_token(prepared) or ""
    return command.harbor_environment(
        base_url=base_url,
        api_key=key,
        control_url=gateway_url.removesuffix("/v1"),
        control_key=leg.key,
        run_id=prepared.state.run_id,
    )


def _tell(journal: Journal, end: PassEnd) -> None:
    record = end.record
    why = f", {record.reason}" if record.reason else ""
    journal.say(
        f"pass {record.number} ended: {plural(record.trials, 'trial')}, "
        f"{record.repeated} repeated, {record.repaired} repaired{why}"
    )


def _ended(prepared: Prepared, leg: Leg, reason: str) -> None:
    """The run, or this leg of it, is over: says why, and whether the answer is whole."""
    state, left = prepared.state, _left(prepared, leg)
    last = state.passes[-1] if state.passes else None
    tried = last is not None and not last.cut_short and last.kind == "resume" and last.repaired == 0
    whole = left.total == 0 or (left.unfinished == 0 and tried and leg.stop is None)
    state.status = "complete" if whole else "incomplete"
    state.stop_reason = reason
    state.finished_at = utc_now()
    prepared.journal.say(f"{state.status}: {reason.splitlines()[0]}")
    leg.save()


def settle(prepared: Prepared) -> list[str]:
    """The last look at the Hub: what of this run still runs is cancelled (a server that is kept
    excepted), and the durations are the Hub's own. Returns what may still be running."""
    state, keep = prepared.state, prepared.request.keep_server and not prepared.complete
    if not preflight.on_the_hub(prepared.request.spec):
        return []
    try:
        jobs = hf_job.jobs_of_run(prepared.api, state.run_id, prepared.request.spec.namespace)
    except hub_errors() as error:
        prepared.journal.say(f"the Hub cannot be asked what still runs: {explain(error)}")
        return [job.job_id for job in state.running]
    left = []
    for job in jobs:
        state.record(job)
        kept = keep and job.kind == "server"
        if not job.ended and not kept and not hf_job.cancel(prepared.api, job):
            left.append(job.job_id)
    _save(prepared)
    return left
