"""What Harbor resolved, as it is kept; the asking itself is in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import task

from tbh_action.errors import NotStartedError
from tbh_action.harbor.tasks import TaskList, _lfs_pointers, resolve_tasks

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def test_task_list__comes_back_from_json_as_it_was() -> None:
    tasks = TaskList(tasks=(task("a", lfs_pointers=("x", "y")), task("b")), left_out=("c",))
    assert TaskList.from_json(tasks.to_json()) == tasks


def test_task_list__keys_that_came_later_are_left_out() -> None:
    document = TaskList(tasks=(task("a"),)).to_json()
    document["tasks"][0]["colour"] = "red"
    del document["left_out"]
    assert TaskList.from_json(document) == TaskList(tasks=(task("a"),))


def test_lfs_pointers__finds_files_without_their_content(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data.bin").write_text(POINTER, encoding="utf-8")
    (tmp_path / "real.bin").write_bytes(b"\x00" * 10)
    (tmp_path / "about.md").write_text(f"A pointer looks so:\n{POINTER}", encoding="utf-8")
    (tmp_path / "long.txt").write_text(POINTER + "x" * 2000, encoding="utf-8")
    (tmp_path / "link").symlink_to("tests/data.bin")
    assert _lfs_pointers(tmp_path) == ["tests/data.bin"]


@pytest.mark.parametrize("text", ["", "{", '{"job_name": 3, "n_attempts": "x"}'])
def test_resolve_tasks__what_harbor_refuses_is_one_line(tmp_path: Path, text: str) -> None:
    import os

    config = tmp_path / "job.json"
    config.write_text(text, encoding="utf-8")
    with pytest.raises(NotStartedError, match="Harbor cannot plan this job: ") as caught:
        resolve_tasks(config, dict(os.environ))
    assert "\n" not in caught.value.message
    assert "http" not in caught.value.message, "no advice of pydantic's"
