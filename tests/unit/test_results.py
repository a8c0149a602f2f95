"""results.json: its schema, its bytes, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from trials import at, attempt, broken

import tbh_action
from tbh_action.errors import SpecError
from tbh_action.harbor.trial import Tokens
from tbh_action.scoring.outcomes import plan_of
from tbh_action.scoring.results import RunFacts, build, dumps, read, write

DATA = Path(__file__).parent.parent / "data"
SCHEMA_FILE = Path(tbh_action.__file__).parent / "scoring" / "results.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SAMPLES = ["results-sample.json", "results-sample-baseline.json", "results-hostile.json"]


def _sample(name: str = SAMPLES[0]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return document


def test_schema__is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", SAMPLES)
def test_schema__samples_fit(name: str) -> None:
    VALIDATOR.validate(_sample(name))


def test_schema__a_judged_document_fits() -> None:
    from tbh_action.comparison.baseline import find_baseline
    from tbh_action.comparison.judge import Judgement, judged

    results = _sample()
    baseline = find_baseline(str(DATA / SAMPLES[1]), results)
    VALIDATOR.validate(json.loads(dumps(judged(results, baseline, Judgement()))))


def _objects(value: Any, place: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(place, value)] if isinstance(value, dict) else []
    items = value.items() if isinstance(value, dict) else ()
    for key, item in items:
        found += _objects(item, f"{place}.{key}")
    if isinstance(value, list) and value:
        found += _objects(value[0], f"{place}[0]")
    return found


FREE = {".fingerprint_fields", ".provenance", ".agent.kwargs"}
NAMED = {".errors", ".errors_by_class", ".scored_after_exception", ".pass_at_k", ".pass_hat_k"}


@pytest.mark.parametrize("place", [place for place, _ in _objects(_sample())])
def test_schema__is_strict_everywhere(place: str) -> None:
    """A key too many or too few is an error in every object that is ours."""
    document = _sample()
    target = dict(_objects(document))[place]
    target["surprise"] = "x"
    if place not in FREE:
        assert not VALIDATOR.is_valid(document), f"{place} takes any key"
    del target["surprise"]
    if place not in FREE | NAMED:
        target.pop(next(iter(target)))
        assert not VALIDATOR.is_valid(document), f"{place} misses nothing"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("rates", "all"), 1.01),
        (("rates", "all"), "0.5"),
        (("counts", "passed"), -1),
        (("tasks", 0, "status"), "ok"),
        (("tasks", 0, "class"), "bad luck"),
        (("tasks", 0, "started_at"), "2026-08-01 12:00"),
        (("intervals", "all"), [0.1]),
        (("schema_version",), 2),
    ],
)
def test_schema__refuses(path: tuple[Any, ...], value: Any) -> None:
    document = _sample()
    target: Any = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert not VALIDATOR.is_valid(document)


def test_samples__are_what_their_maker_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DATA))
    import make_samples

    for name, made in zip(
        SAMPLES,
        (make_samples.sample(), make_samples.baseline(), make_samples.hostile()),
        strict=True,
    ):
        assert dumps(made) == (DATA / name).read_text(encoding="utf-8"), (
            "run python tests/data/make_samples.py"
        )


def test_dumps__is_what_json_reads_back() -> None:
    document = _sample()
    assert json.loads(dumps(document)) == document
    assert dumps(json.loads(dumps(document))) == dumps(document)


def test_write__refuses_what_is_no_number(tmp_path: Path) -> None:
    document = _sample() | {"rates": {"all": float("nan")}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(tmp_path / "results.json", document)
    assert not (tmp_path / "results.json").exists()


def test_read__gives_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "results.json", _sample())
    assert read(tmp_path / "results.json") == _sample()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ('{"schema_version": NaN}', "NaN is no JSON"),
        ('{"schema_version": 2}', "schema_version 2"),
        ('{"schema_version": 1}', "no results document"),
        (None, "missing"),
    ],
)
def test_read__says_what_is_wrong(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        read(path)


def test_read__half_a_character_can_be_written_again(tmp_path: Path) -> None:
    path, document = tmp_path / "results.json", _sample()
    document["warnings"] = ["\ud800", "\U0001f600"]
    path.write_text(json.dumps(document), encoding="utf-8")
    write(path, read(path))
    assert read(path)["warnings"] == ["\\ud800", "\U0001f600"]


def test_build__sums_what_is_known_and_says_of_how_many() -> None:
    tokens = Tokens(input=100, cached=40, output=10, cost_usd=None)
    tries = [
        attempt("a", task="demo/a", tokens=tokens, agent_started_at=at(0), agent_finished_at=at(9)),
        attempt("b", task="demo/b", started_at=None),
        broken("old", task="demo/a", finished_at=at(1), tokens=tokens),
    ]
    results = build(RunFacts(name="r"), plan_of(["demo/a", "demo/b", "demo/c"], 1), tries)
    assert results["tokens"] == {
        "input": 100,
        "cached": 40,
        "output": 10,
        "known_for": 1,
        "of": 3,
    }
    assert results["seconds"] == {
        "agent_total": 540.0,
        "trial_total": 3600.0,
        "known_for": 1,
        "of": 3,
    }
    assert results["run"]["complete"] is False


def test_build__means_divide_by_both_denominators() -> None:
    tries = [attempt("a", task="demo/a", reward=0.5), attempt("b", task="demo/b", reward=1.0)]
    results = build(RunFacts(name="r"), plan_of(["demo/a", "demo/b", "demo/c"], 1), tries)
    assert results["mean_reward"] == {"all": 0.5, "scored": 0.75}
    assert results["counts"] == {"planned": 3, "passed": 1, "failed": 1, "errored": 1}


def test_build__nothing_planned_has_no_rate() -> None:
    results = build(RunFacts(name="r"), plan_of([], 1), [])
    assert results["rates"] == {"all": None, "scored": None, "coverage": None}
    assert results["run"]["complete"] is False
    VALIDATOR.validate(json.loads(dumps(results)))


def test_build__a_reward_beside_infrastructure_stays_visible() -> None:
    lost = broken("a", reward=1.0)
    results = build(RunFacts(name="r"), plan_of(["demo/t"], 1), [lost])
    assert results["tasks"][0]["reward"] == 1.0
    assert results["mean_reward"]["all"] == 0.0
    assert results["counts"]["errored"] == 1


def test_build__a_passed_task_costs_its_share() -> None:
    cost = {"server_usd": 3.0, "sandbox_usd": 1.0, "total_usd": 4.0, "items": []}
    two = [attempt("a", task="demo/a"), attempt("b", task="demo/b")]
    results = build(RunFacts(name="r", cost=cost), plan_of(["demo/a", "demo/b"], 1), two)
    assert results["cost"]["per_passed_usd"] == 2.0
    none = build(RunFacts(name="r", cost=cost), plan_of(["demo/c"], 1), [])
    assert none["cost"]["per_passed_usd"] is None


def test_build__times_are_written_one_way() -> None:
    facts = RunFacts(
        name="r",
        started_at="2026-08-01T14:00:00+02:00",
        outages=[{"started_at": "2026-08-01T12:00:00", "finished_at": None, "reason": "x", "y": 1}],
    )
    results = build(facts, plan_of(["demo/t"], 1), [attempt("a")])
    assert results["run"]["started_at"] == "2026-08-01T12:00:00Z"
    assert results["timeline"]["outages"] == [
        {"started_at": "2026-08-01T12:00:00Z", "finished_at": None, "reason": "x"}
    ]


def test_build__does_not_change_its_input() -> None:
    facts = RunFacts(name="r", passes=[{"number": 1, "kind": "run"}], provenance={"a": [1]})
    before = copy.deepcopy(facts)
    build(facts, plan_of(["demo/t"], 1), [attempt("a")])
    assert facts == before
