from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.harbor.tasks import TaskInfo
from tbh_action.policy.schedule import (
    OVERHEAD,
    UNKNOWN_AGENT_TIME,
    Admission,
    Now,
    admit,
    agent_limit,
    drained,
    expected_seconds,
    fits,
    leg_deadline,
    order,
    worst_seconds,
)


def task(
    name: str = "demo/a", agent: float | None = 900.0, verifier: float | None = 600.0
) -> TaskInfo:
    return TaskInfo(name=name, directory="", agent_timeout=agent, verifier_timeout=verifier)


@pytest.mark.parametrize(
    ("now", "expected", "go", "final", "reason"),
    [
        (Now(at=0, running=0, limit=3), 10, True, False, "1 of 3"),
        (Now(at=0, running=2, limit=3), 10, True, False, "3 of 3"),
        (Now(at=0, running=3, limit=3), 10, False, False, "3 running, limit 3"),
        (Now(at=0, running=9, limit=3), 10, False, False, "9 running, limit 3"),
        (Now(at=0, running=0, limit=3, server_up=False), 10, False, False,
         "waiting for the model server"),
        (Now(at=0, running=0, limit=3, stop="burst"), 10, False, True, "burst"),
        (Now(at=0, running=0, limit=3, stop="burst", server_up=False), 10, False, True, "burst"),
        (Now(at=0, running=0, limit=3, deadline=10.0), 10, True, False, "1 of 3"),
        (Now(at=1, running=0, limit=3, deadline=10.0), 10, False, True,
         "expected to take 10s, 9.0s left in this leg"),
        (Now(at=99, running=0, limit=3, deadline=10.0), 10, False, True,
         "expected to take 10s, 0.0s left in this leg"),
    ],
)  # fmt: skip
def test_admit__table(now: Now, expected: float, go: bool, final: bool, reason: str) -> None:
    assert admit(now, expected=expected) == Admission(go=go, final=final, reason=reason)


@given(
    st.builds(
        Now,
        at=st.floats(0, 1e6),
        running=st.integers(0, 20),
        limit=st.integers(1, 20),
        server_up=st.booleans(),
        stop=st.none() | st.just("no"),
        deadline=st.none() | st.floats(0, 1e6),
    ),
    st.floats(0, 1e6),
)
def test_admit__only_when_all_allow_it(now: Now, expected: float) -> None:
    admission = admit(now, expected=expected)
    if admission.go:
        assert now.running < now.limit
        assert now.server_up
        assert now.stop is None
        assert now.deadline is None or now.at + expected <= now.deadline
        assert not admission.final
    assert admission.reason


NO = Admission(go=False, reason="full")
NEVER = Admission(go=False, reason="late", final=True)


@pytest.mark.parametrize(
    ("running", "waiting", "over"),
    [(0, [NEVER], True), (1, [NEVER], False), (0, [NEVER, NO], False), (0, [], True)],
)
def test_drained__table(running: int, waiting: list[Admission], over: bool) -> None:
    assert drained(running, waiting) is over


def test_leg_deadline__none_without_budget() -> None:
    assert leg_deadline(100.0, None) is None
    assert leg_deadline(100.0, 1000.0, closing=300.0) == 800.0
    assert leg_deadline(100.0, 10.0, closing=300.0) == 100.0
    assert fits(1e9, at=0.0, deadline=None)


@pytest.mark.parametrize(
    ("own", "multiplier", "cap", "limit"),
    [
        (900.0, 4.0, None, 3600.0),
        (12_000.0, 4.0, 3600.0, 14_400.0),  # the cap comes before the multiplier, as in Harbor
        (900.0, 1.0, 3600.0, 900.0),
        (None, 1.0, None, UNKNOWN_AGENT_TIME),
        (None, 2.0, 60.0, 120.0),
    ],
)
def test_agent_limit__table(
    own: float | None, multiplier: float, cap: float | None, limit: float
) -> None:
    assert agent_limit(task(agent=own), multiplier=multiplier, cap=cap) == limit


def test_worst_seconds__verifier_and_overhead() -> None:
    assert worst_seconds(task(), multiplier=4.0) == 3600 + 600 + OVERHEAD


def test_expected_seconds__earlier_run_first() -> None:
    found = expected_seconds([task("a"), task("b")], earlier={"a": 12.0, "z": 1.0}, multiplier=2.0)
    assert found == {"a": 12.0, "b": 1800.0 + OVERHEAD}


def test_order__longest_first_ties_keep_their_order_unknown_last() -> None:
    assert order(["u", "a", "b", "c"], {"a": 1, "b": 5, "c": 5}) == ["b", "c", "a", "u"]


@given(st.lists(st.text(max_size=3)), st.dictionaries(st.text(max_size=3), st.floats(0, 1e9)))
def test_order__is_a_permutation(names: list[str], expected: dict[str, float]) -> None:
    ordered = order(names, expected)
    assert sorted(ordered) == sorted(names)
    lengths = [expected.get(name, 0.0) for name in ordered]
    assert lengths == sorted(lengths, reverse=True)
    assert order(ordered, expected) == ordered
