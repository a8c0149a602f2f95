"""One table: what was seen of a server, and what is done about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.server.supervisor_rules import Limits, Seen, decide, handover_lead

HOUR = 3600.0
WELL = Seen(life_left=3 * HOUR, lifetime=4 * HOUR, load_time=400)
FAILING = replace(WELL, failed_probes=3, failing_for=30)
DEAD = replace(FAILING, failed_completions=1, completion_age=1)
SILENT = replace(WELL, silent_for=400)


@pytest.mark.parametrize(
    ("seen", "action", "words"),
    [
        pytest.param(WELL, "keep", "", id="well"),
        pytest.param(Seen(), "keep", "", id="nothing-known"),
        # Stages.
        pytest.param(replace(WELL, stage="ERROR"), "relaunch", "ended as ERROR", id="error"),
        pytest.param(replace(WELL, stage="COMPLETED"), "relaunch", "ended", id="completed"),
        pytest.param(replace(WELL, stage="CANCELED"), "relaunch", "ended", id="canceled"),
        pytest.param(replace(WELL, stage="DELETED"), "relaunch", "ended", id="deleted"),
        pytest.param(replace(WELL, stage="PAUSED-OR-SO"), "keep", "", id="unknown-stage-lives"),
        pytest.param(replace(WELL, stage=None), "keep", "", id="hub-away-alone"),
        pytest.param(
            replace(WELL, stage="ERROR", relaunches=4), "give_up", "after 4 relaunches", id="bound"
        ),
        # Probes.
        pytest.param(replace(WELL, failed_probes=2, failing_for=9), "keep", "", id="two-probes"),
        pytest.param(FAILING, "probe_completion", "3 health probes", id="doubt"),
        pytest.param(
            replace(FAILING, completion_age=5), "keep", "", id="conversation-worked-just-now"
        ),
        pytest.param(
            replace(FAILING, completion_age=61), "probe_completion", "", id="ask-again-later"
        ),
        pytest.param(
            replace(FAILING, answered_age=3), "keep", "", id="a-real-call-was-answered-since"
        ),
        pytest.param(
            replace(FAILING, failing_for=500, answered_age=61),
            "probe_completion",
            "",
            id="answered-but-long-ago",
        ),
        pytest.param(
            replace(FAILING, answered_age=31), "probe_completion", "", id="answered-before-that"
        ),
        pytest.param(DEAD, "relaunch", "a conversation failed", id="dead"),
        pytest.param(
            replace(DEAD, failed_probes=2), "keep", "", id="conversation-alone-is-not-enough"
        ),
        pytest.param(replace(DEAD, relaunches=4), "give_up", "4 relaunches", id="dead-too-often"),
        pytest.param(replace(DEAD, stage=None), "keep", "Hub can't", id="we-are-cut-off"),
        # The token.
        pytest.param(replace(WELL, refused_probes=5), "keep", "", id="refused-a-few-times"),
        pytest.param(replace(WELL, refused_probes=6), "give_up", "token", id="refused"),
        pytest.param(
            replace(WELL, refused_probes=6, answered_age=1, failing_for=30),
            "keep",
            "",
            id="refused-but-calls-pass",
        ),
        # Silence.
        pytest.param(replace(WELL, silent_for=299), "keep", "", id="a-long-call"),
        pytest.param(SILENT, "probe_completion", "no call was answered", id="silent"),
        pytest.param(
            replace(SILENT, failed_completions=1, completion_age=5), "keep", "", id="silent-once"
        ),
        pytest.param(
            replace(SILENT, failed_completions=1, completion_age=60),
            "probe_completion",
            "",
            id="silent-asked-twice",
        ),
        pytest.param(
            replace(SILENT, failed_completions=2, completion_age=1),
            "relaunch",
            "no call was answered for 6m 40s",
            id="silent-and-dead",
        ),
        pytest.param(
            replace(SILENT, failed_probes=3, failing_for=400, failed_completions=1),
            "relaunch",
            "",
            id="silent-and-failing",
        ),
        # Endpoints that are not ours.
        pytest.param(replace(DEAD, ours=False, stage=None), "keep", "", id="endpoint-may-return"),
        pytest.param(
            replace(DEAD, ours=False, stage=None, failing_for=900),
            "give_up",
            "away for 15m",
            id="endpoint-gone",
        ),
        pytest.param(
            Seen(ours=False, stage=None, failed_probes=3, failing_for=20),
            "probe_completion",
            "",
            id="endpoint-in-doubt",
        ),
        # Handover: 1.5 × 400 s + 600 s before the end.
        pytest.param(replace(WELL, life_left=1201), "keep", "", id="not-yet"),
        pytest.param(
            replace(WELL, life_left=1200), "handover_start", "20m away", id="time-to-start"
        ),
        pytest.param(
            replace(WELL, life_left=-5), "handover_start", "away", id="past-its-time-but-alive"
        ),
        pytest.param(
            replace(WELL, life_left=1200, successor="starting"), "keep", "", id="it-is-starting"
        ),
        pytest.param(
            replace(WELL, life_left=700, successor="ready"), "handover_switch", "ready", id="switch"
        ),
        pytest.param(
            replace(WELL, stage="ERROR", successor="ready"),
            "handover_switch",
            "",
            id="died-but-next-is-ready",
        ),
        pytest.param(
            replace(WELL, stage="ERROR", successor="starting", relaunches=4),
            "relaunch",
            "successor is starting",
            id="died-while-next-starts",
        ),
        pytest.param(
            replace(WELL, life_left=1200, relaunches=4), "keep", "", id="handovers-failed-too-often"
        ),
        pytest.param(
            replace(DEAD, life_left=100), "relaunch", "", id="dead-comes-before-end-of-life"
        ),
    ],
)
def test_decide(seen: Seen, action: str, words: str) -> None:
    decision = decide(seen)
    assert decision.action == action
    assert words in decision.reason


def test_handover_lead__a_short_life_is_still_of_use() -> None:
    assert handover_lead(load_time=400, lifetime=4 * HOUR, margin=600) == 1200
    assert handover_lead(load_time=400, lifetime=HOUR, margin=600) == 1200
    assert handover_lead(load_time=400, lifetime=600, margin=600) == 300


SEEN = st.builds(
    Seen,
    ours=st.booleans(),
    stage=st.sampled_from(["RUNNING", "SCHEDULING", "ERROR", "CANCELED", "WHATEVER", None]),
    failed_probes=st.integers(0, 9),
    failing_for=st.floats(0, 2000),
    refused_probes=st.integers(0, 9),
    failed_completions=st.integers(0, 4),
    completion_age=st.none() | st.floats(0, 200),
    answered_age=st.none() | st.floats(0, 2000),
    silent_for=st.floats(0, 2000),
    life_left=st.none() | st.floats(-100, 20_000),
    lifetime=st.none() | st.floats(1, 20_000),
    load_time=st.floats(0, 5000),
    successor=st.sampled_from(["none", "starting", "ready"]),
    relaunches=st.integers(0, 6),
)


@given(SEEN)
def test_decide__death_needs_evidence(seen: Seen) -> None:
    """A server that has not ended is replaced only after a conversation failed too."""
    if decide(seen).action == "relaunch" and seen.stage not in ("ERROR", "CANCELED"):
        assert seen.failed_completions >= 1
        assert seen.failed_probes >= 3 or (seen.silent_for >= 300 and seen.failed_completions >= 2)
        assert seen.stage is not None


@given(SEEN)
def test_decide__relaunches_are_bounded(seen: Seen) -> None:
    decision = decide(seen, Limits(relaunches=2))
    if seen.relaunches >= 2 and seen.successor == "none":
        assert decision.action not in ("relaunch", "handover_start")


@given(SEEN)
def test_decide__an_endpoint_of_others_is_never_relaunched_while_it_has_no_stage(
    seen: Seen,
) -> None:
    if not seen.ours and seen.stage is None and seen.life_left is None:
        assert decide(seen).action in ("keep", "probe_completion", "give_up", "handover_switch")
