"""Trials stay on their server; only those of a lost one move."""

from __future__ import annotations

from collections import Counter

import pytest

from tbh_action.gateway.balance import Upstream, choose, trial_of

SERVERS = [Upstream(name=f"job-{n}", url=f"http://host-{n}/v1") for n in range(4)]
TRIALS = [f"task-{n}__abc" for n in range(400)]


def placed(servers: list[Upstream], down: set[str]) -> dict[str, str]:
    return {t: choose(servers, t, down=down, in_flight={}).name for t in TRIALS}


def test_choose__same_server_for_one_trial_whatever_the_order() -> None:
    assert placed(SERVERS, set()) == placed(SERVERS[::-1], set())


def test_choose__trials_are_spread() -> None:
    shares = Counter(placed(SERVERS, set()).values())
    assert set(shares) == {server.name for server in SERVERS}
    assert all(60 < share < 140 for share in shares.values())


def test_choose__only_the_lost_servers_trials_move() -> None:
    before, after = placed(SERVERS, set()), placed(SERVERS, {"job-2"})
    for trial in TRIALS:
        if before[trial] == "job-2":
            assert after[trial] != "job-2"
        else:
            assert after[trial] == before[trial]


def test_choose__a_down_server_is_better_than_none() -> None:
    assert choose(SERVERS[:1], "t", down={"job-0"}, in_flight={}).name == "job-0"


def test_choose__without_trial_the_least_busy() -> None:
    busy = {"job-0": 2, "job-1": 1, "job-3": 5}
    assert choose(SERVERS, "", down=set(), in_flight=busy).name == "job-2"
    assert choose(SERVERS, "", down={"job-2"}, in_flight=busy).name == "job-1"


def test_choose__no_server() -> None:
    with pytest.raises(ValueError, match="empty"):
        choose([], "t", down=set(), in_flight={})


@pytest.mark.parametrize(
    ("session", "trial"),
    [
        ("fix-git__Ab3__agent", "fix-git__Ab3"),
        ("fix-git__Ab3__agent-summarization-1-summary", "fix-git__Ab3"),
        ("an__agent__x__agent", "an__agent__x"),
        ("something-else", "something-else"),
        ("", ""),
    ],
)
def test_trial_of(session: str, trial: str) -> None:
    assert trial_of(session) == trial
