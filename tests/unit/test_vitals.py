"""What a server's signs of life add up to."""

from __future__ import annotations

from typing import Any

from tbh_action.server.health import Probe
from tbh_action.server.hf_job import PaidJob
from tbh_action.server.supervisor_rules import Seen
from tbh_action.server.vitals import Vitals

GOOD = Probe(ok=True, detail="ok")
BAD = Probe(ok=False, detail="/health: broken")
REFUSED = Probe(ok=False, refused=True, detail="401")
JOB = PaidJob(
    kind="server", nonce="n", flavor="f", job_id="j", stage="RUNNING", timeout=100.0, seconds=30.0
)


def vitals() -> Vitals:
    return Vitals(ours=True, since=1000.0, load_time=60.0)


def seen(signs: Vitals, now: float, **more: Any) -> Seen:
    given: dict[str, Any] = {
        "job": JOB,
        "away": False,
        "answered_ago": None,
        "silent_for": 0.0,
        "successor": "none",
        "relaunches": 0,
    }
    return signs.seen(now, **{**given, **more})


def test_vitals__failures_in_a_row() -> None:
    signs = vitals()
    for now in (1010, 1020, 1030):
        signs.probed(BAD, now, silent=False)
    assert (seen(signs, 1035).failed_probes, seen(signs, 1035).failing_for) == (3, 25)
    signs.probed(GOOD, 1040, silent=False)
    assert (seen(signs, 1045).failed_probes, seen(signs, 1045).failing_for) == (0, 0)


def test_vitals__a_refused_token_is_no_failure() -> None:
    signs = vitals()
    for now in (1010, 1020):
        signs.probed(REFUSED, now, silent=False)
    assert (seen(signs, 1020).failed_probes, seen(signs, 1020).refused_probes) == (0, 2)
    signs.asked(REFUSED, 1020)
    assert seen(signs, 1020).failed_completions == 0
    signs.probed(BAD, 1030, silent=False)
    assert seen(signs, 1030).refused_probes == 0


def test_vitals__an_old_failed_conversation_is_forgotten() -> None:
    signs = vitals()
    signs.asked(BAD, 1010)
    assert seen(signs, 1015).failed_completions == 1
    assert seen(signs, 1015).completion_age == 5
    signs.probed(GOOD, 1020, silent=False)
    assert seen(signs, 1020).failed_completions == 0
    assert seen(signs, 1020).completion_age is None


def test_vitals__good_health_does_not_undo_silence() -> None:
    """A server whose engine hangs still answers /health."""
    signs = vitals()
    signs.asked(BAD, 1010)
    signs.probed(GOOD, 1020, silent=True)
    signs.asked(BAD, 1070)
    assert seen(signs, 1070).failed_completions == 2
    signs.asked(GOOD, 1080)
    assert seen(signs, 1080).failed_completions == 0


def test_vitals__while_a_conversation_lasts_no_other_is_due() -> None:
    signs = vitals()
    signs.asking = True
    assert seen(signs, 2000).completion_age == 0


def test_vitals__the_life_that_is_left() -> None:
    signs = vitals()
    assert seen(signs, 1010).life_left == 70  # The Hub counts 30 s: it ran before we saw it.
    assert seen(signs, 1050).life_left == 50  # We saw 50 s: the Hub's count is older.
    assert seen(signs, 1010, job=None).life_left is None
    assert seen(signs, 1010, job=PaidJob(kind="server", nonce="", flavor="f")).life_left is None


def test_vitals__a_hub_that_is_away_gives_no_stage() -> None:
    signs = vitals()
    assert seen(signs, 1010, away=True).stage is None
    assert seen(signs, 1010, away=False).stage == "RUNNING"
    gone = PaidJob(kind="server", nonce="", flavor="f", stage="ERROR")
    assert seen(signs, 1010, job=gone, away=True).stage == "ERROR"
