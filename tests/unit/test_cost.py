from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.policy.cost import Budget, Rates, budget, projected, rates, running_seconds, spend
from tbh_action.server.hf_job import PaidJob

START = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = {"h200": 0.1, "cpu-upgrade": 0.001}


def job(**changes: Any) -> PaidJob:
    values: dict[str, Any] = {
        "kind": "server", "nonce": "n", "flavor": "h200", "job_id": "j1", "stage": "RUNNING",
        "started_at": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    return PaidJob(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 600.0),
        ({"started_at": None, "stage": "SCHEDULING"}, 0.0),
        ({"stage": "COMPLETED", "seconds": 42.0}, 42.0),
        ({"seconds": 700.0}, 700.0),  # the Hub's clock is ahead of ours
        ({"timeout": 300.0}, 300.0),  # it has ended, but nobody has seen it
        ({"started_at": "2026-01-01T02:00:00.000+01:00"}, 0.0),  # from the future
    ],
)
def test_running_seconds__table(changes: dict[str, Any], seconds: float) -> None:
    assert running_seconds(job(**changes), START + timedelta(minutes=10)) == seconds


def test_spend__by_kind() -> None:
    jobs = [
        job(stage="COMPLETED", seconds=3600.0),
        job(kind="sandbox", job_id="s", flavor="cpu-upgrade", stage="CANCELED", seconds=600.0),
        job(job_id="", stage="RUNNING"),  # announced, never created
    ]
    found = spend(jobs, PRICES, START)
    assert found.server_usd == pytest.approx(6.0)
    assert found.sandbox_usd == pytest.approx(0.01)
    assert found.to_json(passed=4) == {
        "server_usd": 6.0,
        "sandbox_usd": 0.01,
        "total_usd": 6.01,
        "per_passed_usd": 1.5025,
        "items": [
            {"kind": "server", "job_id": "j1", "flavor": "h200", "seconds": 3600.0, "usd": 6.0},
            {"kind": "sandbox", "job_id": "s", "flavor": "cpu-upgrade", "seconds": 600.0,
             "usd": 0.01},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("passed", [0, None])
def test_spend__nothing_passed(passed: int | None) -> None:
    assert spend([], PRICES, START).to_json(passed)["per_passed_usd"] is None


def test_spend__an_unknown_price_is_not_zero() -> None:
    found = spend([job(flavor="new"), job(job_id="j2")], PRICES, START)
    assert found.server_usd is None
    assert found.total_usd is None
    assert found.to_json()["items"][0]["usd"] is None
    assert found.to_json()["items"][1]["usd"] == 0.0


@given(
    st.lists(
        st.builds(
            job,
            kind=st.sampled_from(["server", "sandbox"]),
            flavor=st.sampled_from(list(PRICES)),
            stage=st.sampled_from(["SCHEDULING", "RUNNING", "COMPLETED", "CANCELED"]),
            seconds=st.floats(0, 1e6),
            started_at=st.none() | st.just("2026-01-01T00:00:00Z"),
            timeout=st.none() | st.floats(1, 1e6),
        )
    ),
    st.floats(-1e5, 1e6),
    st.floats(0, 1e6),
)
def test_spend__never_negative_and_only_grows(
    jobs: list[PaidJob], offset: float, later: float
) -> None:
    now = START + timedelta(seconds=offset)
    first, second = spend(jobs, PRICES, now), spend(jobs, PRICES, now + timedelta(seconds=later))
    assert first.total_usd is not None
    assert second.total_usd is not None
    assert 0 <= first.total_usd <= second.total_usd


def test_rates__servers_together_and_one_sandbox() -> None:
    found = rates(PRICES, server_flavor="h200", replicas=2, sandbox_flavor="cpu-upgrade")
    assert found is not None
    assert (found.servers, found.sandbox) == pytest.approx((12.0, 0.06))


@pytest.mark.parametrize(
    ("server", "sandbox", "known"),
    [(None, "cpu-upgrade", True), ("new", "cpu-upgrade", False), ("h200", "new", False)],
)
def test_rates__unknown_price(server: str | None, sandbox: str, known: bool) -> None:
    found = rates(PRICES, server_flavor=server, replicas=1, sandbox_flavor=sandbox)
    assert (found is not None) is known


RATE = Rates(servers=6.0, sandbox=0.06)


@pytest.mark.parametrize(
    ("seconds", "concurrency", "usd"),
    [
        ([], 3, 0.0),
        ([3600.0], 3, 6.06),
        ([3600.0] * 3, 3, 6.18),
        ([3600.0] * 3, 1, 18.18),
        ([7200.0, 3600.0], 8, 12.18),
    ],
)
def test_projected__longest_or_even_share(
    seconds: list[float], concurrency: int, usd: float
) -> None:
    assert projected(RATE, seconds=seconds, concurrency=concurrency) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("spent", "ceiling", "running", "candidate", "state"),
    [
        (99.0, None, [3600.0], 3600.0, "open"),
        (None, None, [], 3600.0, "open"),
        (None, 10.0, [], 3600.0, "no_new_trials"),
        (0.0, 10.0, [], 3600.0, "open"),
        (3.0, 10.0, [3600.0], 3600.0, "open"),
        (4.0, 10.0, [], 3600.0, "no_new_trials"),
        (4.0, 10.0, [7200.0], 60.0, "no_new_trials"),
        (9.9, 10.0, [], None, "open"),
        (10.0, 10.0, [3600.0], 3600.0, "drain"),
        (11.0, 10.0, [], None, "drain"),
    ],
)
def test_budget__table(
    spent: float | None,
    ceiling: float | None,
    running: list[float],
    candidate: float | None,
    state: str,
) -> None:
    found = budget(spent, ceiling, rate=RATE, running=running, candidate=candidate)
    assert found.state == state
    assert found.reason


def test_budget__reason_says_what_it_would_come_to() -> None:
    assert budget(4.0, 10.0, rate=RATE, running=[600.0], candidate=3600.0) == Budget(
        state="no_new_trials",
        reason="spent $4.00; to end 2 trials (up to 1h) would bring it to $10.07, "
        "above $10.00 (--max-cost)",
    )


@given(
    st.floats(0, 100),
    st.floats(0.01, 100),
    st.lists(st.floats(0, 1e5), max_size=8),
    st.floats(0, 1e5),
)
def test_budget__what_is_started_stays_within_the_ceiling(
    spent: float, ceiling: float, running: list[float], candidate: float
) -> None:
    found = budget(spent, ceiling, rate=RATE, running=running, candidate=candidate)
    if found.state == "open":
        seconds = [*running, candidate]
        assert spent + projected(RATE, seconds=seconds, concurrency=len(seconds)) <= ceiling
