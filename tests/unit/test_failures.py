"""Whose failure a trial is."""

from __future__ import annotations

import pytest
from trials import at, error, outage, trial

from tbh_action.harbor.trial import Phase
from tbh_action.scoring.failure_types import (
    AGENT_TIMEOUT,
    AGENT_TYPES,
    HARBOR_KNOWS,
    INFRASTRUCTURE_TYPES,
    INTERRUPTED_TYPES,
    SETUP_TYPES,
    STATUS_TYPES,
    VERIFIER_TYPES,
    error_policy_overrides,
)
from tbh_action.scoring.failures import (
    Judgement,
    RepeatPolicy,
    judge,
    overlap,
    setup_burst,
    status_in,
)


def test_judge__no_exception_and_a_reward_is_scored() -> None:
    judgement = judge(trial(reward=0.0))
    assert (judgement.failure_class, judgement.scored, judgement.retryable) == ("none", True, False)


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [(AGENT_TIMEOUT, "timeout"), *((kind, "agent") for kind in sorted(AGENT_TYPES))],
)
def test_judge__the_agents_own_end(kind: str, failure_class: str) -> None:
    rewarded = judge(trial(error(kind), reward=1.0))
    bare = judge(trial(error(kind)))
    assert (rewarded.failure_class, rewarded.scored) == (failure_class, True)
    assert rewarded.reason.startswith("scored after")
    assert (bare.failure_class, bare.scored) == (failure_class, False)
    assert not rewarded.retryable
    assert not bare.retryable


def test_judge__a_reward_that_is_no_number_after_a_timeout_is_the_verifiers() -> None:
    spoiled = trial(error(AGENT_TIMEOUT), verified=True, reward_problem="no finite number (NaN)")
    assert judge(spoiled).failure_class == "verifier"


@pytest.mark.parametrize("kind", sorted(INFRASTRUCTURE_TYPES))
@pytest.mark.parametrize("where", ["trial", "step s1"])
@pytest.mark.parametrize("reward", [None, 1.0])
def test_judge__infrastructure_counts_for_nothing(
    kind: str, where: str, reward: float | None
) -> None:
    judgement = judge(trial(error(kind, where=where), reward=reward))
    assert judgement.failure_class == "infrastructure"
    assert (judgement.scored, judgement.retryable) == (False, True)


@pytest.mark.parametrize(
    ("message", "failure_class"),
    [
        ("Client error '401 Unauthorized' for url 'https://x'", "setup"),
        ("Client error '402 Payment Required' for url 'https://x'", "setup"),
        ("403 Forbidden: no access.\nCannot access content at: https://x", "setup"),
        ("429 Too Many Requests for url: https://x/api/jobs/401", "infrastructure"),
        ("Server error '500 Internal Server Error' for url 'https://x'", "infrastructure"),
        ("Server error 503 Service Unavailable for url", "infrastructure"),
        ("Client error '408 Request Timeout' for url 'https://x'", "infrastructure"),
        ("something about /api/jobs/500 without a status", "unclassified"),
    ],
)
def test_judge__hub_errors_go_by_their_status(message: str, failure_class: str) -> None:
    judgement = judge(trial(error("HfHubHTTPError", message), reward=1.0))
    assert judgement.failure_class == failure_class
    assert not judgement.scored
    assert judgement.retryable == (failure_class == "infrastructure")


def test_judge__404_is_the_set_up_before_the_agent_and_infrastructure_after_it() -> None:
    gone = error("HfHubHTTPError", "404 Client Error.\n\nJob Not Found for url: https://x")
    assert judge(trial(gone)).failure_class == "infrastructure"
    assert judge(trial(gone, agent_execution=None)).failure_class == "setup"


@pytest.mark.parametrize("kind", sorted(SETUP_TYPES))
def test_judge__set_up_is_never_repeated(kind: str) -> None:
    judgement = judge(trial(error(kind), reward=0.0), repeat=RepeatPolicy(unclassified=True))
    assert judgement.failure_class == "setup"
    assert judgement.cause == SETUP_TYPES[kind]
    assert (judgement.scored, judgement.retryable) == (False, False)


def test_judge__a_conversation_that_outgrew_the_context_is_the_agents_end() -> None:
    long = error("BadRequestError", "The input (40000 tokens) is longer than the model's context")
    template = error("BadRequestError", "Error code: 400 - chat template: unknown role")
    assert judge(trial(long, reward=0.0)).failure_class == "agent"
    assert judge(trial(template, reward=0.0)).failure_class == "setup"


def test_judge__a_model_not_found_during_an_outage_is_infrastructure() -> None:
    lost = trial(error("NotFoundError", minute=30))
    assert judge(lost).failure_class == "setup"
    assert judge(lost, outages=[outage(20, 40)]).failure_class == "infrastructure"
    assert judge(lost, outages=[outage(31, 40)]).failure_class == "setup"


@pytest.mark.parametrize("kind", sorted(VERIFIER_TYPES))
def test_judge__the_verifier_is_repeated_only_when_asked(kind: str) -> None:
    assert judge(trial(error(kind))).failure_class == "verifier"
    assert not judge(trial(error(kind))).retryable
    assert judge(trial(error(kind)), repeat=RepeatPolicy(verifier=True)).retryable


def test_judge__no_reward_and_no_exception_is_the_verifiers() -> None:
    ran = Phase(started_at=at(60), finished_at=at(61))
    judgement = judge(trial(reward_problem="the verifier gave no reward", verifier=ran))
    assert (judgement.failure_class, judgement.reason) == (
        "verifier",
        "the verifier gave no reward",
    )


def test_judge__a_trial_that_was_cut_off_runs_again() -> None:
    """What Harbor leaves when its process is killed in the middle of the agent's work."""
    cut = judge(trial())
    assert (cut.failure_class, cut.scored, cut.retryable) == ("interrupted", False, True)
    checking = Phase(started_at=at(60), finished_at=None)
    assert judge(trial(verifier=checking)).failure_class == "interrupted"
    assert judge(trial(verifier_off=True)).failure_class == "verifier"
    bare = trial(environment_setup=None, agent_execution=None)
    assert judge(bare).failure_class == "verifier", "a file without phases says nothing"


def test_judge__an_unknown_type_is_loud() -> None:
    odd = trial(error("FlibbertigibbetError"), reward=1.0)
    assert judge(odd).failure_class == "unclassified"
    assert not judge(odd).retryable
    assert judge(odd, repeat=RepeatPolicy(unclassified=True)).retryable


def test_judge__an_unknown_type_before_the_agent_is_the_environment() -> None:
    early = {"agent_execution": None}
    assert judge(trial(error("OddError"), **early)).failure_class == "infrastructure"
    assert judge(trial(error("ValueError"), **early)).failure_class == "setup"


def test_judge__a_full_disk_is_infrastructure() -> None:
    full = error("OSError", "[Errno 28] No space left on device: '/x'")
    assert judge(trial(full)).failure_class == "infrastructure"


def test_judge__interrupted_and_unreadable_run_again() -> None:
    assert judge(trial(error("CancelledError"), reward=1.0)).retryable
    unfinished = judge(trial(unfinished=True))
    assert (unfinished.failure_class, unfinished.retryable) == ("interrupted", True)
    assert judge(trial(unreadable="result.json is empty")).retryable
    assert not judge(trial(unreadable="version 2", schema_version=2)).retryable


def test_judge__what_the_watchdog_ended_is_infrastructure() -> None:
    cancelled = judge(trial(error("CancelledError")), ended="no progress for 2 h")
    assert (cancelled.failure_class, cancelled.retryable) == ("infrastructure", True)
    assert "no progress for 2 h" in cancelled.reason
    assert judge(trial(reward=1.0), ended="too late").scored, "it had ended by itself"


def test_judge__the_gravest_of_several_exceptions_counts() -> None:
    mixed = trial(error(AGENT_TIMEOUT), error("SandboxError", where="step s2"), reward=1.0)
    assert judge(mixed).failure_class == "infrastructure"
    assert "step s2" in judge(mixed).reason


@pytest.mark.parametrize(
    ("outages", "failure_class"),
    [
        ([outage(0, 5)], "timeout"),
        ([outage(0, 6)], "timeout"),  # exactly the share is not more than the share
        ([outage(0, 7)], "infrastructure"),
        ([outage(0, 4), outage(2, 6)], "timeout"),  # what overlaps is counted once
        ([outage(0, 4), outage(50, 54)], "infrastructure"),
        ([outage(-60, -1), outage(60, 90)], "timeout"),
        ([outage(-60, 90)], "infrastructure"),
    ],
)
def test_judge__a_timeout_during_outages(outages: list[object], failure_class: str) -> None:
    judgement = judge(trial(error(AGENT_TIMEOUT), reward=0.0), outages=outages)  # type: ignore[arg-type]
    assert judgement.failure_class == failure_class
    assert judgement.scored == (failure_class == "timeout")
    if failure_class == "infrastructure":
        assert "server replaced" in judgement.reason


def test_judge__an_outage_never_scores_anything() -> None:
    away = [outage(-60, 90)]
    assert not judge(trial(error("SandboxError"), reward=1.0), outages=away).scored
    assert judge(trial(reward=0.0), outages=away).scored


def test_overlap__counts_seconds_once_and_keeps_each_reason() -> None:
    seconds, reasons = overlap(at(0), at(10), [outage(5, 20, "b"), outage(1, 3, "a")])
    assert (seconds, reasons) == (420.0, ("a", "b"))


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Error code: 402 - {'error': 'x'}", 402),
        ("Sandbox API error (503): x", 503),
        ("litellm.APIError: APIError: OpenAIException - 502 Bad Gateway", 502),
        ("listening on port 8500 since 404 days", None),
        ("404 Client Error.\n\nJob Not Found for url: https://x", 404),
        ("job 500a1 on :500/", None),
        ("", None),
    ],
)
def test_status_in__finds_the_status(message: str, status: int | None) -> None:
    assert status_in(message) == status


def _judged(failure_class: str, cause: str | None = None) -> Judgement:
    scored = failure_class == "none"
    return Judgement(
        failure_class=failure_class,  # type: ignore[arg-type]
        scored=scored,
        retryable=False,
        reason="r",
        cause=cause,
    )


def test_setup_burst__three_of_one_cause_stop_the_run() -> None:
    refused = judge(trial(error("AuthenticationError")))
    also = judge(trial(error("HfHubHTTPError", "Client error '401 Unauthorized'")))
    assert setup_burst([refused, refused]) is None
    reason = setup_burst([refused, also, refused])
    assert reason is not None
    assert "token or key was refused" in reason


def test_setup_burst__infrastructure_between_them_says_nothing() -> None:
    refused, lost = _judged("setup", "c"), _judged("infrastructure")
    assert setup_burst([refused, lost, refused, lost, refused, lost]) is not None


def test_setup_burst__a_scored_trial_or_another_cause_ends_it() -> None:
    refused, scored = _judged("setup", "c"), _judged("none")
    assert setup_burst([refused, refused, scored, refused]) is None
    assert setup_burst([refused, _judged("setup", "d"), refused]) is None
    assert setup_burst([scored, refused, refused, refused]) is not None


def test_setup_burst__a_tasks_own_fault_is_no_burst() -> None:
    unusable = judge(trial(error("ValueError"), agent_execution=None))
    assert unusable.failure_class == "setup"
    assert setup_burst([unusable] * 5) is None


def test_error_policy_overrides__harbor_agrees_with_our_lists() -> None:
    from harbor.models.job.config import JobConfig
    from harbor.models.trial.error_policy import ERROR_POLICIES, policy_for

    config = JobConfig.model_validate({"override_error_policy": error_policy_overrides()})
    scored = AGENT_TYPES | {AGENT_TIMEOUT}
    ours = scored | INFRASTRUCTURE_TYPES | STATUS_TYPES | set(SETUP_TYPES)
    ours |= VERIFIER_TYPES | INTERRUPTED_TYPES
    assert set(ERROR_POLICIES) == HARBOR_KNOWS
    assert set(ERROR_POLICIES) <= ours, "Harbor knows types that no list of ours has"
    # Harbor's own classes of what it knows: what it retries is infrastructure to us, what it
    # scores is the agent's own end.
    for name, policy in ERROR_POLICIES.items():
        assert policy.has_valid_reward == (name in scored), name
        assert policy.should_retry == (name in INFRASTRUCTURE_TYPES), name
    for name in ours - {"ContentFilterFinishReasonError", "LengthFinishReasonError"}:
        told = policy_for(name, config.override_error_policy.get(name))
        assert told.has_valid_reward == (name in scored), name


def test_types__each_stands_in_one_list() -> None:
    lists = [AGENT_TYPES, INFRASTRUCTURE_TYPES, set(SETUP_TYPES), STATUS_TYPES, VERIFIER_TYPES]
    names = [name for names in lists for name in names]
    assert len(names) == len(set(names))
