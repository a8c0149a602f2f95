from __future__ import annotations

import pytest

from tbh_action.comparison.conditions import (
    differing,
    is_model_side,
    measurement_fields,
    measurement_fingerprint,
)
from tbh_action.spec import validate_spec
from tests.factories import FIELDS


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("model.name", True),
        ("model.revision", True),
        ("server.image", True),
        ("server.env.SOME", True),
        ("agent.kwargs.model_info.max_input_tokens", True),
        ("agent.kwargs.reasoning_effort", False),
        ("benchmark.revision", False),
        ("environment.kwargs.flavor", False),
        ("n_attempts", False),
        ("modelling", False),
        ("some.new.field", False),
    ],
)
def test_is_model_side__by_field(field: str, expected: bool) -> None:
    assert is_model_side(field) is expected


def test_measurement_fingerprint__of_a_real_spec_ignores_the_model_only() -> None:
    def spec(**changes: object) -> dict[str, object]:
        base = {
            "model": {"name": "org/a", "revision": "1"},
            "server": {"image": "i:1", "flavor": "h200", "port": 1, "command": ["serve"]},
            "benchmark": {"name": "b", "repo": "https://hub.example/b"},
        }
        return validate_spec(base | changes).result_fields()

    same = measurement_fingerprint(spec())
    other_server = {"image": "i:2", "flavor": "a100", "port": 2, "command": ["serve", "--fast"]}
    assert measurement_fingerprint(spec(model={"name": "org/b"})) == same
    assert measurement_fingerprint(spec(server=other_server)) == same
    assert measurement_fingerprint(spec(server=None, endpoint="https://e.example/v1")) == same
    assert measurement_fingerprint(spec(n_attempts=5)) != same
    assert measurement_fingerprint(spec(agent_timeout_multiplier=4)) != same
    assert measurement_fingerprint(spec(agent={"kwargs": {"effort": "low"}})) != same


def test_measurement_fields__null_is_the_same_as_absent() -> None:
    later = FIELDS | {"agent.new_option": None}
    assert measurement_fields(later) == measurement_fields(FIELDS)
    assert measurement_fingerprint(later) == measurement_fingerprint(FIELDS)
    assert differing(later, FIELDS) == []


def test_differing__lists_both_values_sorted() -> None:
    assert differing({"b": 1, "a": 2}, {"b": 3, "c": [4]}) == [
        {"field": "a", "ours": 2, "theirs": None},
        {"field": "b", "ours": 1, "theirs": 3},
        {"field": "c", "ours": None, "theirs": [4]},
    ]
