from __future__ import annotations

from typing import Any

import pytest

from tbh_action.errors import SpecError
from tbh_action.loopback.demo import demo_faults
from tbh_action.loopback.faults import Call, Faults, interpolate

EXEC = Call(name="sandbox.exec", task="fix-git", job="a", kind="sandbox", command="ls -la")


def hits(rule: dict[str, Any], calls: list[Call], *, seed: int = 0) -> list[bool]:
    faults = Faults(seed=seed)
    faults.set([{"action": {"status": 500}, **rule}], now=0.0)
    return [faults.decide(call, now=1.0) is not None for call in calls]


def with_(**changes: Any) -> Call:
    return Call(**{field: getattr(EXEC, field) for field in EXEC.__slots__} | changes)


def test_decide__without_rules_nothing_fails() -> None:
    assert Faults().decide(EXEC, now=0.0) is None


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        ({}, True),
        ({"call": "sandbox.exec"}, True),
        ({"call": "sandbox.*"}, True),
        ({"call": ["jobs.create", "sandbox.exec"]}, True),
        ({"call": "jobs.create"}, False),
        ({"match": {"task": "fix-*"}}, True),
        ({"match": {"task": ["hello", "fix-git"]}}, True),
        ({"match": {"task": "other"}}, False),
        ({"match": {"kind": "sandbox", "task": "other"}}, False),
        ({"match": {"command": "ls"}}, True),
        ({"match": {"command": "^rm"}}, False),
        ({"match": {"attempt": 0}}, True),
        ({"match": {"attempt": [1, 2]}}, False),
        ({"match": {"label": {"run": "*"}}}, True),
        ({"match": {"label": {"run": "r1"}}}, False),
        ({"when": {"concurrency_at_least": 1}}, False),
        ({"when": {"after": 2}}, False),
        ({"when": {"until": 1}}, False),
        ({"when": {"after": 1, "until": 2}}, True),
        ({"when": {"probability": 0}}, False),
    ],
)
def test_decide__match(rule: dict[str, Any], hit: bool) -> None:
    assert hits(rule, [EXEC]) == [hit]


def test_decide__from_and_times_count_matching_calls_only() -> None:
    other = with_(task="other")
    calls = [EXEC, other, EXEC, other, EXEC, EXEC]
    rule = {"match": {"task": "fix-git"}, "from": 2, "times": 2}
    assert hits(rule, calls) == [False, False, True, False, True, False]


def test_decide__per_job_counts_each_job_by_itself() -> None:
    calls = [with_(job="a"), with_(job="b"), with_(job="a"), with_(job="b")]
    assert hits({"per": "job", "from": 2}, calls) == [False, False, True, True]


def test_decide__per_job_throws_the_dice_once() -> None:
    calls = [with_(job=str(number % 50)) for number in range(200)]
    thrown = hits({"per": "job", "when": {"probability": 0.5}}, calls)
    assert thrown[:50] == thrown[50:100] == thrown[150:]
    assert 10 < sum(thrown[:50]) < 40


def test_decide__the_same_seed_gives_the_same_dice_another_seed_others() -> None:
    rule = {"when": {"probability": 0.5}}
    first = hits(rule, [EXEC] * 40)
    assert first == hits(rule, [EXEC] * 40)
    assert first != hits(rule, [EXEC] * 40, seed=1)


def test_decide__failures_grow_with_concurrency() -> None:
    rule = {"when": {"by_concurrency": {"3": 0.03, "8": 0.7}}}
    few, many = [with_(concurrency=3)] * 1000, [with_(concurrency=8)] * 1000
    assert sum(hits(rule, few)) == pytest.approx(30, abs=20)
    assert sum(hits(rule, many)) == pytest.approx(700, abs=50)


def test_decide__the_first_rule_that_hits_decides() -> None:
    faults = Faults()
    faults.set([{"name": "one", "times": 1, "action": {"drop": True}}], now=0.0)
    faults.add([{"name": "two", "action": {"status": 429, "retry_after": 3}}], now=0.0)
    first, second = faults.decide(EXEC, now=0.0), faults.decide(EXEC, now=0.0)
    assert first is not None
    assert (first.rule, first.drop) == ("one", "before")
    assert second is not None
    assert (second.rule, second.status, second.headers) == ("two", 429, {"Retry-After": "3"})


@pytest.mark.parametrize(
    ("at", "probability"),
    [(0, 0.0), (1.5, 0.015), (3, 0.03), (5.5, 0.365), (8, 0.7), (20, 0.7)],
)
def test_interpolate__between_below_and_above(at: float, probability: float) -> None:
    assert interpolate({"8": 0.7, "3": 0.03}, at) == pytest.approx(probability)


def test_interpolate__empty_table_never() -> None:
    assert interpolate({}, 3) == 0.0


@pytest.mark.parametrize(
    "rule",
    [
        {"call": "jobs.create"},
        {"action": {"explode": True}},
        {"action": {"drop": "sideways"}},
        {"action": {"job": "dance"}},
        {"action": {"status": 500}, "cal": "jobs.create"},
        {"action": {"status": 500}, "call": "JOBS CREATE"},
        {"action": {"status": 500}, "match": {"tsk": "x"}},
    ],
)
def test_set__a_rule_that_is_not_understood_leaves_the_old_ones(rule: dict[str, Any]) -> None:
    faults = Faults()
    faults.set([{"action": {"status": 500}}], now=0.0)
    with pytest.raises(SpecError):
        faults.set([rule], now=0.0)
    assert faults.decide(EXEC, now=0.0) is not None


def test_demo_faults__are_understood() -> None:
    faults = Faults()
    faults.set(demo_faults(), now=0.0)
    assert faults.to_json() == demo_faults()
