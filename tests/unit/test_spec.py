"""The spec: what is refused, and what the fingerprint sees."""

from __future__ import annotations

from typing import Any

import pytest

from tbh_action.errors import SpecError
from tbh_action.spec import RunSpec, validate_spec


def document(**changes: Any) -> dict[str, Any]:
    """A whole spec as plain values; dots in a key lead into its tables."""
    whole: dict[str, Any] = {
        "model": {"name": "org/model"},
        "server": {
            "image": "engine:1",
            "flavor": "h200",
            "port": 30000,
            "command": ["serve", "org/model"],
        },
        "benchmark": {"name": "bench", "repo": "https://hub.example/org/bench"},
    }
    for key, value in changes.items():
        *tables, last = key.split("__")
        place = whole
        for table in tables:
            place = place.setdefault(table, {})
        place[last] = value
    return whole


def spec(**changes: Any) -> RunSpec:
    return validate_spec(document(**changes))


def test_validate_spec__defaults() -> None:
    made = spec()
    assert made.server is not None
    assert (made.server.timeout, made.server.schedule_timeout) == (4 * 3600, 3600)
    assert (made.n_attempts, made.n_concurrent, made.min_concurrent, made.max_passes) == (
        1,
        3,
        1,
        4,
    )
    assert (made.agent.name, made.environment.type, made.environment.flavor) == (
        "terminus-2",
        "hf-sandbox",
        "cpu-basic",
    )
    assert made.max_call == 1800


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__name": ""}, "model.name"),
        ({"model__context_length": 0}, "model.context_length"),
        ({"server__port": 65_536}, "server.port"),
        ({"server__port": 0}, "server.port"),
        ({"server__command": []}, "server.command"),
        ({"server__timeout": "4 hours"}, "server.timeout: '4 hours' is not a duration"),
        ({"server__timeout": [4]}, "server.timeout"),
        ({"server__engine": "ollama"}, "server.engine"),
        ({"server__replicas": 0}, "server.replicas"),
        ({"server__typo": 1}, "server.typo"),
        ({"benchmark__path": "/tasks"}, "exactly one source of tasks"),
        ({"benchmark__repo": None}, "exactly one source of tasks"),
        ({"benchmark__include_task": "one"}, "benchmark.include_task"),
        ({"n_attempts": 0}, "n_attempts"),
        ({"n_concurrent": 2, "min_concurrent": 3}, "min_concurrent is above n_concurrent"),
        ({"agent_timeout_multiplier": 0}, "agent_timeout_multiplier"),
        ({"agent_timeout_multiplier": float("inf")}, "agent_timeout_multiplier"),
        ({"agent_timeout_multiplier": float("nan")}, "agent_timeout_multiplier"),
        ({"agent__kwargs": {"t": float("nan")}}, "agent.kwargs: only JSON values"),
        ({"environment__kwargs": {"d": object()}}, "environment.kwargs: only JSON values"),
        ({"endpoint": "https://host/v1"}, "not both"),
        ({"server": None}, "not both"),
        ({"server": None, "endpoint": "localhost:8000"}, "write it like https://"),
        ({"server": None, "endpoint": "https://"}, "write it like https://"),
        ({"server": None, "endpoint": "http://[::1"}, "endpoint"),
        ({"server": None, "endpoint": "https://ann:s3cret@host/v1"}, "OPENAI_API_KEY"),
        ({"server": None, "endpoint": "https://s3cret@host/v1"}, "OPENAI_API_KEY"),
        ({"server": None, "endpoint": "https://host/v1?key=s3cret"}, "OPENAI_API_KEY"),
        ({"benchmark__repo": "https://ann:s3cret@host/tasks"}, "benchmark.repo: a password"),
    ],
)
def test_validate_spec__refuses_in_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(**changes)
    assert said in caught.value.message
    assert "s3cret" not in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def test_validate_spec__all_problems_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        spec(n_attempts=0, server__port=-1, model__name="")
    for place in ("n_attempts", "server.port", "model.name"):
        assert place in caught.value.message


def test_validate_spec__comes_back_from_json_as_it_was() -> None:
    made = spec(agent__max_time="2h", agent__kwargs={"a": [1, "x"]}, server__env={"K": "v"})
    assert validate_spec(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(
    "changes",
    [
        {"model__revision": "abc"},
        {"server__image": "engine:2"},
        {"server__flavor": "a100"},
        {"server__command": ["serve", "org/model", "--x"]},
        {"server__env": {"K": "v"}},
        {"benchmark__repo": "https://hub.example/org/other"},
        {"benchmark__include_task": ("a",)},
        {"benchmark__n_tasks": 3},
        {"agent__name": "claude-code"},
        {"agent__kwargs": {"reasoning_effort": "low"}},
        {"agent__max_time": 60},
        {"environment__kwargs": {"flavor": "cpu-upgrade"}},
        {"n_attempts": 2},
        {"agent_timeout_multiplier": 4},
        {"max_call": 60},
    ],
)
def test_fingerprint__sees_what_decides_a_result(changes: dict[str, Any]) -> None:
    assert spec(**changes).fingerprint() != spec().fingerprint()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_concurrent": 8},
        {"min_concurrent": 2},
        {"max_passes": 9},
        {"namespace": "org"},
        {"server__timeout": "8h"},
        {"server__load_timeout": "8h"},
        {"server__replicas": 2},
        {"server__mount_model": True},
        {"benchmark__name": "other"},
        {"benchmark__revision": "abc"},  # the tasks' content is learned, and counts instead
    ],
)
def test_fingerprint__is_blind_to_time_and_money(changes: dict[str, Any]) -> None:
    assert spec(**changes).fingerprint() == spec().fingerprint()


def test_fingerprint__of_a_folder_goes_by_its_last_name_and_an_endpoint_by_no_name() -> None:
    def folder(path: str) -> RunSpec:
        return spec(benchmark__repo=None, benchmark__path=path)

    def served(url: str) -> RunSpec:
        return spec(server=None, endpoint=url)

    assert folder("/a/tasks").fingerprint() == folder("/b/tasks").fingerprint()
    assert folder("/a/tasks").fingerprint() != folder("/a/others").fingerprint()
    assert served("https://a/v1").fingerprint() == served("https://b/v1").fingerprint()
    assert served("https://a/v1").fingerprint() != spec().fingerprint()


def test_fingerprint__of_what_was_learned() -> None:
    assert spec().fingerprint({"benchmark.content": "x"}) != spec().fingerprint()
    assert "benchmark.repo" in spec().result_fields()
    assert list(spec().result_fields()) == sorted(spec().result_fields())
