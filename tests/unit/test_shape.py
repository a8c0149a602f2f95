"""The shape of results.json, beside an independent reading of its schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbh_action.scoring import shape
from tbh_action.scoring.shape import fault

SCHEMA = json.loads(
    (Path(shape.__file__).with_name("results.schema.json")).read_text(encoding="utf-8")
)
SAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "results-sample.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def places(value: Any, limit: int = 400) -> list[tuple[Any, ...]]:
    """The paths of a document's values; of a list its first two items."""
    found: list[tuple[Any, ...]] = []
    rest: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while rest and len(found) < limit:
        path, item = rest.pop(0)
        found.append(path)
        if isinstance(item, dict):
            rest += [((*path, key), each) for key, each in item.items()]
        elif isinstance(item, list):
            rest += [((*path, number), each) for number, each in enumerate(item[:2])]
    return found[1:]


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The sample with `value` at `path`; without it where the value is `...`."""
    document = copy.deepcopy(SAMPLE)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def test_fault__a_right_document() -> None:
    assert fault(SAMPLE) is None


@settings(max_examples=200)
@given(
    st.sampled_from(places(SAMPLE)),
    st.sampled_from(
        [..., None, True, 0, -1, 2, 0.5, 1500.5, "", "x", "passed", [], {}, [0, 1], [None]]
    ),
)
def test_fault__agrees_with_jsonschema(path: tuple[Any, ...], value: Any) -> None:
    if value is ... and isinstance(path[-1], int):
        return  # a shorter list, and as good
    document = changed(path, value)
    assert (fault(document) is None) == VALIDATOR.is_valid(document), fault(document)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("cost",), ..., "cost is missing"),
        (("tasks", 0, "class"), "x", 'tasks.0.class is "x"'),
        (("tasks", 1, "attempt"), True, "tasks.1.attempt is true, not integer"),
        (("counts", "planned"), 10**400, "counts.planned is a huge number, which is out of range"),
        # A whole number for JSON Schema, and none where it is printed.
        (("counts", "passed"), 53.0, "counts.passed is 53.0, not integer"),
        (("rates", "all"), float("nan"), "rates.all is NaN, which is out of range"),
        (("errors_by_class",), None, "errors_by_class is null, not object"),
        (("gate",), "g", 'gate is "g", not object'),
        (
            ("run", "started_at"),
            "0001-01-01T00:00:00+23:59",
            'run.started_at is "0001-01-01T00:00:00+23:59"',
        ),
    ],
)
def test_fault__says_where_and_what(path: tuple[Any, ...], value: Any, said: str) -> None:
    assert fault(changed(path, value)) == said


def test_fault__no_object_at_all() -> None:
    assert fault([]) == "it is a list, not object"


def test_fault__a_key_of_a_later_release_is_left_alone() -> None:
    assert fault(SAMPLE | {"news": 1}) is None
