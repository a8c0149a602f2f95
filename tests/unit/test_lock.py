"""lock.json as a stream: exact wherever the chunks fall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tbh_action.harbor import lock as lock_module
from tbh_action.harbor.documents import AbsentError, UnreadableError
from tbh_action.harbor.lock import read_lock


def _write(path: Path, document: Any, **how: Any) -> Path:
    path.write_text(json.dumps(document, **how), encoding="utf-8")
    return path


def _lock(*names: Any) -> dict[str, Any]:
    policy = {"AnError": {"should_grade": False}, "AnotherError": {"has_valid_reward": None}}
    key = '"override_error_policy": '
    hostile = {
        "text": f'"trials": [ {{"task": {{"name": "not-me"}}, {key}{json.dumps(policy)}',
        "é": "ü",
    }
    return {
        "schema_version": 3,
        "harbor": {"version": "0.26.0"},
        "retry": hostile,
        "trials": [
            {
                "override_error_policy": policy,
                "agent": hostile,
                "task": {"name": name, "source": "s"},
            }
            for name in names
        ],
        "later": {"trials": ["no"]},
    }


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 50, 1 << 20])
@pytest.mark.parametrize("indent", [None, 4])
def test_read_lock__any_chunk_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, indent: int | None
) -> None:
    monkeypatch.setattr(lock_module, "_CHUNK", chunk)
    path = _write(tmp_path / "lock.json", _lock("a", "b", "a"), indent=indent, ensure_ascii=False)
    lock = read_lock(path)
    assert [task["name"] for task in lock.tasks] == ["a", "b", "a"]
    assert lock.harbor == {"version": "0.26.0"}


def test_read_lock__a_name_that_holds_a_policy_stays_whole(tmp_path: Path) -> None:
    """The policy's text is cut from what is parsed, but never inside a string."""
    name = '"override_error_policy": {"AnError": {"should_grade": false}, "AnotherError"'
    path = _write(
        tmp_path / "lock.json", _lock("a", name, f'{name}: {{"has_valid_reward": null}}}}')
    )
    assert [task["name"] for task in read_lock(path).tasks][1] == name


def test_read_lock__no_trials_are_an_empty_plan(tmp_path: Path) -> None:
    assert read_lock(_write(tmp_path / "lock.json", _lock())).tasks == ()


def test_read_lock__entries_without_a_name_are_left_out(tmp_path: Path) -> None:
    assert read_lock(_write(tmp_path / "lock.json", _lock("a", 1, "", None))).tasks == (
        {"name": "a", "source": "s"},
    )


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"trials": [', '{"trials": [{"task"', '{"trials": [}', "\ufeff", "\x00"],
)
def test_read_lock__what_is_no_lock_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableError, match=r"lock\.json"):
        read_lock(path)


def test_read_lock__bytes_and_links(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        read_lock(tmp_path / "lock.json")
    (tmp_path / "bad.json").write_bytes(b'{"trials": [\xff')
    with pytest.raises(UnreadableError):
        read_lock(tmp_path / "bad.json")
    (tmp_path / "link.json").symlink_to(_write(tmp_path / "lock.json", _lock("a")))
    with pytest.raises(UnreadableError):
        read_lock(tmp_path / "link.json")
    marked = tmp_path / "mark.json"
    marked.write_text(json.dumps(_lock("a")), encoding="utf-8-sig")
    assert [task["name"] for task in read_lock(marked).tasks] == ["a"]
