"""A server for several runs: brought up, and left to them."""

from __future__ import annotations

import asyncio
import signal

from tbh_action.controller import state as run_state
from tbh_action.controller.prepare import Prepared
from tbh_action.controller.signals import Signals
from tbh_action.server.bring_up import ReadyServer
from tbh_action.server.hf_job import PaidJob
from tbh_action.server.supervisor import Supervisor
from tbh_action.spec import RunSpec


async def serve(prepared: Prepared) -> ReadyServer | int:
    """One server that answers, new or left by an earlier call; it goes on running. A signal that
    comes before is returned, and what was started is stopped.

    Raises:
        NotStartedError: it did not come up; what was started is stopped.
    """
    state = prepared.state
    signals = Signals()
    signals.install()

    def record(job: PaidJob) -> None:
        state.record(job)
        run_state.save(prepared.run_dir, state)

    supervisor = Supervisor(
        _one_server(prepared.request.spec),
        state.run_id,
        api=prepared.api,
        gateway=None,
        record=record,
        journal=prepared.journal.event,
        say=prepared.journal.say,
    )
    supervisor.start(adopt=state.running)
    ready = asyncio.ensure_future(supervisor.ready())
    alarm = asyncio.ensure_future(signals.wait())
    up = False
    try:
        await asyncio.wait({ready, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if signals.number is not None:
            name = signal.Signals(signals.number).name
            prepared.journal.say(f"{name}: stopping the server")
            return signals.number
        server = ready.result()
        up = True
        return server
    finally:
        ready.cancel()
        alarm.cancel()
        left = await supervisor.stop(keep_servers=up)
        for job in left:
            prepared.journal.say(f"MAY STILL RUN: {job.job_id}; stop it: tbh cleanup")


def _one_server(spec: RunSpec) -> RunSpec:
    """Replicas are a run's own: those who borrow a server are told of one."""
    assert spec.server is not None
    return spec.model_copy(update={"server": spec.server.model_copy(update={"replicas": 1})})
