"""Which failure is whose: the model's, the infrastructure's, the set-up's.

Harbor records exceptions by the name of their type, so names are all there is: no subclass is
known to be one. The type gives the first answer; a status in the message, the phase in which it
happened and what the server was doing at that time can correct it, always away from the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final, Literal

from tbh_action.harbor.trial import Trial, TrialError
from tbh_action.scoring.failure_types import (
    AGENT_TIMEOUT,
    AGENT_TYPES,
    AUTHENTICATION,
    HUB,
    INFRASTRUCTURE_TYPES,
    INTERRUPTED_TYPES,
    MODEL,
    REQUEST,
    SEED_FILTER_TYPES,
    SETUP_TYPES,
    STATUS_CAUSES,
    STATUS_TYPES,
    TASK,
    UNUSABLE_TYPES,
    VERIFIER_TYPES,
    error_policy_overrides,
)

__all__ = [
    "AGENT_TIMEOUT",
    "DEFAULT_REPEAT",
    "OUTAGE_SHARE",
    "SEED_FILTER_TYPES",
    "FailureClass",
    "Interval",
    "Judgement",
    "RepeatPolicy",
    "error_policy_overrides",
    "judge",
    "overlap",
    "setup_burst",
    "status_in",
]

type FailureClass = Literal[
    "none",
    "timeout",
    "agent",
    "infrastructure",
    "setup",
    "verifier",
    "interrupted",
    "unclassified",
    "unreadable",
    "missing",
]

# A timeout during which the server was away for more than this share of the agent's time says
# nothing about the model.
OUTAGE_SHARE: Final = 0.1

_NAMED_STATUS: Final = re.compile(r"\b(?:error|code|status)\b\W{0,4}([1-5]\d\d)\b", re.IGNORECASE)
# huggingface_hub's whoami says it so, without the status (hf_api.py).
_REFUSED_TOKEN: Final = re.compile(r"Invalid user token|Invalid username or password")
_BARE_STATUS: Final = re.compile(r"(?<![\w/.:-])([45]\d\d) (?=[A-Za-z])")
_PHRASES: Final = {status.value: status.phrase.lower() for status in HTTPStatus}
_TOO_LONG: Final = re.compile(
    r"context[_ ](?:length|window)|longer than the model|maximum (?:model|input|sequence) len"
    r"|exceeds? the (?:model|maximum)",
    re.IGNORECASE,
)
_NO_SPACE: Final = "no space left on device"
_NO_TOKEN: Final = "token is required"  # noqa: S105 (a message, not a token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A time in which the run's server could not answer, as gateway and supervisor saw it."""

    start: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatPolicy:
    """What else may be repeated, beyond infrastructure and interruptions."""

    verifier: bool = False
    unclassified: bool = False


DEFAULT_REPEAT: Final = RepeatPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one trial's evidence says. `cause` groups set-up failures; `reason` is for people."""

    failure_class: FailureClass
    scored: bool
    retryable: bool
    reason: str
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class _Finding:
    failure_class: FailureClass
    reason: str
    cause: str | None = None


# When a trial and its steps carry several exceptions, the first of these classes counts.
_GRAVITY: Final[tuple[FailureClass, ...]] = (
    "interrupted",
    "setup",
    "infrastructure",
    "unclassified",
    "verifier",
    "agent",
    "timeout",
)


def judge(
    trial: Trial,
    *,
    outages: Sequence[Interval] = (),
    repeat: RepeatPolicy = DEFAULT_REPEAT,
    share: float = OUTAGE_SHARE,
    ended: str | None = None,
) -> Judgement:
    """Whose failure this trial is, whether it is scored, and whether it may run again.

    Args:
        trial: the trial as its directory tells it.
        outages: times in which the server could not answer.
        repeat: which classes may be repeated beyond infrastructure and interruptions.
        share: of the agent's time (0..1); a timeout with more of it lost is infrastructure.
        ended: why we ended the trial ourselves, when we did: its interruption is then the
            infrastructure's fault.
    """
    judgement = _judge(trial, outages, repeat, share)
    if ended is not None and judgement.failure_class == "interrupted":
        reason = f"ended by the watchdog: {ended}"
        return replace(judgement, failure_class="infrastructure", reason=reason)
    return judgement


def _judge(
    trial: Trial, outages: Sequence[Interval], repeat: RepeatPolicy, share: float
) -> Judgement:
    if trial.unreadable is not None:
        # Harbor runs the task of an unreadable result again; one of another version would be
        # unreadable again.
        again = trial.schema_version == 1
        return _unscored(_Finding("unreadable", trial.unreadable), retryable=again)
    if trial.unfinished:
        return _unscored(_Finding("interrupted", "the trial left no result"), retryable=True)
    if not trial.errors:
        return _without_error(trial, repeat)
    findings = [_finding(error, trial, outages, share) for error in trial.errors]
    worst = min(findings, key=lambda finding: _GRAVITY.index(finding.failure_class))
    if worst.failure_class in ("timeout", "agent"):
        return _own_end(trial, worst, repeat)
    return _unscored(worst, retryable=_may_repeat(worst.failure_class, repeat))


def _without_error(trial: Trial, repeat: RepeatPolicy) -> Judgement:
    if trial.reward is not None:
        return Judgement(failure_class="none", scored=True, retryable=False, reason="")
    if _was_cut_off(trial):
        cut = _Finding("interrupted", "the trial was cut off before its work was verified")
        return _unscored(cut, retryable=True)
    finding = _Finding("verifier", trial.reward_problem or "there is no reward")
    return _unscored(finding, retryable=repeat.verifier)


def _was_cut_off(trial: Trial) -> bool:
    """Killed in the middle, Harbor still writes a result: no error, and no verification done."""
    began = trial.environment_setup or trial.agent_setup or trial.agent_execution
    checked = trial.verifier is not None and trial.verifier.finished_at is not None
    return began is not None and not (checked or trial.verified or trial.verifier_off)


def _own_end(trial: Trial, finding: _Finding, repeat: RepeatPolicy) -> Judgement:
    """The agent's own end: scored when the verifier gave a valid reward."""
    if trial.reward is not None:
        return Judgement(
            failure_class=finding.failure_class,
            scored=True,
            retryable=False,
            reason=f"scored after {_after(finding)}: {finding.reason}",
            cause=finding.cause,
        )
    if trial.verified:
        broken = _Finding("verifier", f"{finding.reason}; {trial.reward_problem}")
        return _unscored(broken, retryable=repeat.verifier)
    unverified = _Finding(finding.failure_class, f"{finding.reason}; {trial.reward_problem}")
    return _unscored(unverified, retryable=False)


def _after(finding: _Finding) -> str:
    return "timeout" if finding.failure_class == "timeout" else "the agent's own end"


def _unscored(finding: _Finding, *, retryable: bool) -> Judgement:
    return Judgement(
        failure_class=finding.failure_class,
        scored=False,
        retryable=retryable,
        reason=finding.reason,
        cause=finding.cause,
    )


def _may_repeat(failure_class: FailureClass, repeat: RepeatPolicy) -> bool:
    if failure_class in ("infrastructure", "interrupted"):
        return True
    if failure_class == "verifier":
        return repeat.verifier
    return failure_class == "unclassified" and repeat.unclassified


def _finding(  # noqa: PLR0911 (one return a class)
    error: TrialError, trial: Trial, outages: Sequence[Interval], share: float
) -> _Finding:
    where = "" if error.where == "trial" else f" on {error.where}"
    name = f"{error.type}{where}"
    if error.type == AGENT_TIMEOUT:
        return _timeout(trial, name, outages, share)
    if error.type in INTERRUPTED_TYPES:
        return _Finding("interrupted", f"{name}: the trial was interrupted")
    if error.type in AGENT_TYPES:
        return _Finding("agent", f"{name}: the agent's own end")
    if error.type in VERIFIER_TYPES:
        return _Finding("verifier", f"{name}: the verifier gave no usable reward")
    if error.type in INFRASTRUCTURE_TYPES:
        return _infrastructure(error, name)
    if error.type in STATUS_TYPES:
        return _by_status(error, name, agent_started=trial.agent_execution is not None)
    if error.type in SETUP_TYPES:
        return _setup(error, name, SETUP_TYPES[error.type], outages)
    return _unknown(error, trial, name)


def _infrastructure(error: TrialError, name: str) -> _Finding:
    if error.type.startswith("Sandbox") and _NO_TOKEN in error.message.lower():
        return _Finding("setup", f"{name}: {AUTHENTICATION}", AUTHENTICATION)
    if error.type == "APIError" and (cause := STATUS_CAUSES.get(status_in(error.message) or 0)):
        return _Finding("setup", f"{name}: {cause}", cause)
    return _Finding("infrastructure", f"{name}: infrastructure, not the model")


def _by_status(error: TrialError, name: str, *, agent_started: bool) -> _Finding:
    status = status_in(error.message)
    if status is None and error.type == "JobNotFoundError":
        status = 404
    if status is None:
        return _Finding("unclassified", f"{name} without a status that is known")
    shown = f"{name} (status {status})"
    if status in (408, 425, 429) or status >= 500:
        return _Finding("infrastructure", f"{shown}: infrastructure, not the model")
    if status in STATUS_CAUSES:
        cause = STATUS_CAUSES[status]
        return _Finding("setup", f"{shown}: {cause}", cause)
    if agent_started:
        # The same calls worked minutes before, so what they ask for has gone away since.
        return _Finding("infrastructure", f"{shown} after the agent had started: infrastructure")
    return _Finding("setup", f"{shown}: {HUB}", HUB)


def _setup(error: TrialError, name: str, cause: str, outages: Sequence[Interval]) -> _Finding:
    if cause == REQUEST and _TOO_LONG.search(error.message):
        return _Finding("agent", f"{name}: the conversation outgrew the model's context")
    if cause == MODEL and (outage := _outage_at(error.occurred_at, outages)):
        # A server that is gone is "not found" too.
        return _Finding("infrastructure", f"{name} during an outage ({outage.reason})")
    return _Finding("setup", f"{name}: {cause}", cause)


def _unknown(error: TrialError, trial: Trial, name: str) -> _Finding:
    if _NO_SPACE in error.message.lower() and error.type in ("OSError", "IOError"):
        return _Finding("infrastructure", f"{name}: no space left on a disk")
    if trial.agent_execution is None and trial.environment_setup is not None:
        if error.type in UNUSABLE_TYPES:
            return _Finding("setup", f"{name} before the agent started: {TASK}", TASK)
        return _Finding("infrastructure", f"{name} while the environment was set up")
    return _Finding("unclassified", f"{name} is in no list: whose failure it is, is not known")


def _timeout(trial: Trial, name: str, outages: Sequence[Interval], share: float) -> _Finding:
    phase = trial.agent_execution
    start = (phase and phase.started_at) or trial.started_at
    end = (phase and phase.finished_at) or trial.finished_at
    if outages and start is not None and end is not None and end > start:
        lost, reasons = overlap(start, end, outages)
        part = lost / (end - start).total_seconds()
        if part > share:
            return _Finding(
                "infrastructure",
                f"{name}, but the server was away for {lost:.0f} s of the agent's time "
                f"({part:.0%}): {'; '.join(reasons)}",
            )
    return _Finding("timeout", f"{name}: the agent ran out of time")


def overlap(
    start: datetime, end: datetime, outages: Iterable[Interval]
) -> tuple[float, tuple[str, ...]]:
    """Seconds of [start, end] that lie in any outage (counted once), and the outages' reasons."""
    hits = sorted(
        (max(start, outage.start), min(end, outage.end), outage.reason)
        for outage in outages
        if outage.start < end and outage.end > start and outage.start < outage.end
    )
    seconds, covered = 0.0, start
    for hit_start, hit_end, _ in hits:
        if hit_end > covered:
            seconds += (hit_end - max(hit_start, covered)).total_seconds()
            covered = hit_end
    return seconds, tuple(dict.fromkeys(reason for _, _, reason in hits))


def _outage_at(instant: datetime | None, outages: Iterable[Interval]) -> Interval | None:
    if instant is None:
        return None
    return next((outage for outage in outages if outage.start <= instant <= outage.end), None)


def status_in(message: str) -> int | None:
    """The HTTP status that an error's message names, or means in the Hub client's own words for a
    refused token, else None."""
    if _REFUSED_TOKEN.search(message):
        return 401
    if found := _NAMED_STATUS.search(message):
        return int(found.group(1))
    for found in _BARE_STATUS.finditer(message):
        status = int(found.group(1))
        phrases = ("client error", "server error", _PHRASES.get(status, "client error"))
        if message[found.end() :].lower().startswith(phrases):
            return status
    return None


def setup_burst(judgements: Sequence[Judgement], limit: int = 3) -> str | None:
    """Why the run must stop now, or None.

    The latest `limit` trials (in the order of their ends) that say anything about the set-up all
    failed for one cause. Infrastructure and interruptions say nothing; a task's own fault is no
    burst, since the next task can be well.
    """
    telling = [
        judgement
        for judgement in judgements
        if judgement.scored or judgement.failure_class in ("setup", "timeout", "agent", "verifier")
    ]
    latest = telling[-limit:]
    causes = {judgement.cause for judgement in latest if judgement.failure_class == "setup"}
    if len(latest) < limit or len(causes) != 1 or latest[0].cause not in causes:
        return None
    if any(judgement.failure_class != "setup" for judgement in latest) or causes == {TASK}:
        return None
    return f"{limit} trials in a row failed for one cause, {causes.pop()}: {latest[-1].reason}"
