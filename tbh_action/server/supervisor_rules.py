"""What to do about a server, given what was seen of it. Pure: no clock, no Hub, no network.

A server is never given up for one sign alone: a busy model server answers `/health` late, a proxy
has its bad minutes, and a wrong "dead" costs every running trial its cache and a load of the model.
Death needs an ended stage, or several failed probes and a conversation that failed as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tbh_action.durations import format_duration
from tbh_action.server.hf_job import ENDED_STAGES


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of the decisions; times in seconds.

    `margin` is how long an old server should live on after its successor has loaded, so that the
    calls that it works on can end there; a longer call is made again on the new one.
    """

    doubt_after_probes: int = 3
    doubt_after_silence: float = 300.0
    ask_again_after: float = 60.0
    dead_after_silent_completions: int = 2
    refusals: int = 6
    relaunches: int = 4
    margin: float = 600.0
    endpoint_patience: float = 900.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One server as it was last seen; times are seconds.

    `ours`: a job that we started, not an endpoint or another run's job. `stage` is the job's, None
    when the Hub could not be asked. `failed_probes` health probes failed in a row, over
    `failing_for`; `refused_probes` in a row were refused for the token. `failed_completions`
    conversations failed since the last sign of life, the last one was asked `completion_age` ago
    (None: none was).
    `answered_age`: since the gateway last passed on an answer. `silent_for`: for how long calls
    have been under way with no answer to any. `life_left` of `lifetime` remains until the job's
    timeout. `load_time` is what a start took, from its creation to its first answer. `successor` is
    the server that shall replace this one.
    """

    ours: bool = True
    stage: str | None = "RUNNING"
    failed_probes: int = 0
    failing_for: float = 0.0
    refused_probes: int = 0
    failed_completions: int = 0
    completion_age: float | None = None
    answered_age: float | None = None
    silent_for: float = 0.0
    life_left: float | None = None
    lifetime: float | None = None
    load_time: float = 600.0
    successor: Literal["none", "starting", "ready"] = "none"
    relaunches: int = 0


type Action = Literal[
    "keep", "probe_completion", "relaunch", "handover_start", "handover_switch", "give_up"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to do, and why (one clause, for the log and the report)."""

    action: Action
    reason: str = ""


KEEP = Decision(action="keep")


def decide(seen: Seen, limits: Limits | None = None) -> Decision:
    """The next step for one server."""
    limits = limits or Limits()
    if seen.stage in ENDED_STAGES:
        return _replace(seen, limits, f"the server job ended as {seen.stage}")
    if seen.successor == "ready":
        return Decision(action="handover_switch", reason="the next server is ready")
    if seen.refused_probes >= limits.refusals and not _answers(seen, limits):
        return Decision(
            action="give_up",
            reason="the server's address refuses the token; it says nothing about the server, "
            "and a new server would refuse it too",
        )
    return _unhealthy(seen, limits) or _end_of_life(seen, limits) or KEEP


def handover_lead(*, load_time: float, lifetime: float, margin: float) -> float:
    """How long before its end a server's successor is started: half as long again as a load took,
    and the margin; never more than half a life, so that servers with a short one are of use."""
    return min(1.5 * load_time + margin, 0.5 * lifetime)


def _unhealthy(seen: Seen, limits: Limits) -> Decision | None:
    """The decision that bad signs ask for; None when there is none to take."""
    by_probes = seen.failed_probes >= limits.doubt_after_probes
    by_silence = seen.silent_for >= limits.doubt_after_silence
    if not (by_probes or by_silence) or (by_probes and not by_silence and _answers(seen, limits)):
        return None
    sign = (
        f"{seen.failed_probes} health probes failed"
        if by_probes
        else f"no call was answered for {format_duration(seen.silent_for)}"
    )
    enough = 1 if by_probes else limits.dead_after_silent_completions
    if seen.failed_completions >= enough:
        return _judged_dead(seen, limits, f"{sign} and a conversation failed")
    if seen.completion_age is None or seen.completion_age >= limits.ask_again_after:
        return Decision(action="probe_completion", reason=sign)
    return None


def _judged_dead(seen: Seen, limits: Limits, words: str) -> Decision | None:
    if not seen.ours:
        if seen.failing_for < limits.endpoint_patience:
            return None  # Not ours to start again: it may come back by itself.
        return Decision(
            action="give_up",
            reason=f"the endpoint was away for {format_duration(seen.failing_for)}: {words}",
        )
    if seen.stage is None:
        # Neither the Hub nor the server answers: most likely it is this machine that is cut off,
        # and a relaunch would need the Hub anyway.
        return Decision(action="keep", reason=f"{words}, but the Hub can't be reached either")
    return _replace(seen, limits, words)


def _replace(seen: Seen, limits: Limits, words: str) -> Decision:
    if not seen.ours:
        return Decision(action="give_up", reason=f"{words}; it is not this run's to start again")
    if seen.successor == "ready":
        return Decision(action="handover_switch", reason=words)
    if seen.successor == "starting":
        return Decision(action="relaunch", reason=f"{words}; its successor is starting already")
    if seen.relaunches >= limits.relaunches:
        return Decision(
            action="give_up", reason=f"{words}, after {seen.relaunches} relaunches in this run"
        )
    return Decision(action="relaunch", reason=words)


def _end_of_life(seen: Seen, limits: Limits) -> Decision | None:
    if not seen.ours or seen.life_left is None or seen.lifetime is None or seen.successor != "none":
        return None
    lead = handover_lead(load_time=seen.load_time, lifetime=seen.lifetime, margin=limits.margin)
    if seen.life_left > lead or seen.relaunches >= limits.relaunches:
        return None
    return Decision(
        action="handover_start",
        reason=f"the server's timeout is {format_duration(max(1.0, seen.life_left))} away",
    )


def _answers(seen: Seen, limits: Limits) -> bool:
    """Did a real call get its answer after the probes had begun to fail, and not long ago?"""
    fresh = min(seen.failing_for, limits.ask_again_after)
    return seen.answered_age is not None and seen.answered_age < fresh
