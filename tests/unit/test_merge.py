"""What may be joined, and what is refused with the reason."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trials import attempt, broken

from tbh_action.cli import main
from tbh_action.errors import SpecError
from tbh_action.scoring.ledger import Attempt
from tbh_action.scoring.merge import merge
from tbh_action.scoring.outcomes import plan_of
from tbh_action.scoring.results import RunFacts, build, dumps, write

FIELDS = {"benchmark.n_planned": 2, "model.name": "org/m"}


def part(*attempts: Attempt, tasks: tuple[str, ...] = (), **facts: Any) -> dict[str, Any]:
    """The results of a shard or leg that has these trials."""
    names = tasks or tuple(dict.fromkeys(a.task for a in attempts))
    values: dict[str, Any] = {
        "name": "part",
        "fingerprint": "f" * 64,
        "fingerprint_fields": FIELDS,
        "model": {"name": "org/m", "revision": None},
        "benchmark": {"name": "bench", "source": None, "revision": None},
        "agent": {"name": "terminus-2", "kwargs": {}},
        "complete": True,
    }
    return build(RunFacts(**(values | facts)), plan_of(names, 1), list(attempts))


ONE = part(attempt("t__a", task="demo/t"))
TWO = part(attempt("u__a", task="demo/u", reward=0.0))


def test_merge__shards_make_the_whole_in_any_order() -> None:
    parts = {"1": ONE, "2": TWO, "again": ONE}
    texts = {
        dumps(merge({place: parts[place] for place in order}, name="all"))
        for order in permutations(parts)
    }
    assert len(texts) == 1
    joined = merge(parts, name="all")
    assert joined["counts"] == {"planned": 2, "passed": 1, "failed": 1, "errored": 0}
    assert joined["fingerprint"] == "f" * 64
    assert (joined["comparison"], joined["gate"]) == (None, None)


def test_merge__a_later_leg_repairs_an_earlier_one() -> None:
    first = part(broken("t__i", task="demo/t"), attempt("u__a", task="demo/u"))
    second = part(attempt("t__a", task="demo/t"), attempt("u__a", task="demo/u"))
    joined = merge({"a": first, "b": second}, name="all")
    assert joined["counts"] == {"planned": 2, "passed": 2, "failed": 0, "errored": 0}
    (row,) = (row for row in joined["tasks"] if row["task"] == "demo/t")
    assert [old["trial"] for old in row["superseded_trials"]] == ["t__i"]


def test_merge__another_question_names_its_fields() -> None:
    other = part(
        attempt("u__a", task="demo/u"),
        fingerprint="0" * 64,
        fingerprint_fields=FIELDS | {"model.name": "org/x", "n_attempts": 2},
    )
    with pytest.raises(SpecError, match="asks another question") as caught:
        merge({"a": ONE, "b": other}, name="all")
    assert caught.value.message.startswith("b asks another question than a (different: model.name,")


def test_merge__without_fingerprints_nothing_is_known() -> None:
    bare = part(attempt("u__a", task="demo/u"), fingerprint=None, fingerprint_fields={})
    with pytest.raises(SpecError, match="no fingerprint"):
        merge({"a": bare, "b": bare}, name="all")


def test_merge__scores_that_disagree() -> None:
    other = part(attempt("t__b", task="demo/t", reward=0.0), attempt("u__a", task="demo/u"))
    with pytest.raises(SpecError) as caught:
        merge({"a": ONE, "b": other}, name="all")
    assert "demo/t (passed in a, failed in b)" in caught.value.message


def test_merge__missing_shards_unless_told() -> None:
    with pytest.raises(SpecError, match="1 of the benchmark's 2 tasks are in none of the 1 parts"):
        merge({"a": ONE}, name="all")
    joined = merge({"a": ONE}, name="all", allow_missing=True)
    assert joined["counts"]["planned"] == 1


def tbh(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["merge", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two shards, as run directories `1` and `2`, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    for name, document in (("1", ONE), ("2", TWO)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "results.json", document)
    return tmp_path


def test_merge_command__directories_and_files(parts: Path) -> None:
    code, said = tbh("1", "2/results.json", "--out", "all")
    assert code == 0, said
    assert "1 of 2 passed" in said
    assert {path.name for path in (parts / "all").iterdir()} == {"report", "results.json"}
    assert tbh("2", "1", "--out", "all")[0] == 0, "it can be done again"


def test_merge_command__never_over_a_run(parts: Path) -> None:
    (parts / "1" / "spec.json").touch()
    before = (parts / "1" / "results.json").read_bytes()
    code, said = tbh("1", "2", "--out", "1")
    assert code == 2
    assert said == "Error: 1 holds a run, whose results would be lost; give another --out.\n"
    assert (parts / "1" / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("1",), 2, "a shard is missing. Add it, or give --allow-missing."),
        (("1", "--allow-missing"), 0, "1 of 1 passed"),
        (("1", "none"), 2, "'none' does not exist"),
        ((), 2, "Missing argument"),
        (("1", "2", "--fail-on", "below:0.9"), 1, ""),
    ],
)
def test_merge_command__exit_codes(
    parts: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found, said = tbh(*arguments)
    assert found == code, said
    assert words in said
