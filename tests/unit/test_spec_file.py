"""spec.json: the question of a run, and that it stays the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from specs import seed, task, tasks

from tbh_action.controller.spec_file import learned, read_asked, refuse_another, write_asked
from tbh_action.errors import SpecError
from tbh_action.harbor.tasks import TaskList
from tbh_action.policy.shard import Shard
from tbh_action.rundir import RunDir


def test_write_asked__is_read_back(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    written = write_asked(run_dir, seed(ak=("x=[1]",)), Shard(1, 2), tasks("a", "b"))
    assert read_asked(run_dir) == written
    document = json.loads(run_dir.spec.read_text(encoding="utf-8"))
    assert document["fingerprint"] == written.fingerprint
    assert document["fingerprint_fields"]["benchmark.n_planned"] == 2


def test_read_asked__nothing_yet(tmp_path: Path) -> None:
    assert read_asked(RunDir(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"version": 0}', '{"version": 1}'])
def test_read_asked__damaged_is_one_line(tmp_path: Path, text: str) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.spec.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_asked(run_dir)
    assert str(run_dir.spec) in caught.value.message
    assert "\n" not in caught.value.message


def test_learned__content_not_order() -> None:
    one, two = tasks("a", "b"), tasks("b", "a")
    assert learned(one) == learned(two)
    changed = TaskList(tasks=(task("a"), task("b", digest="sha256:1")))
    assert learned(changed)["benchmark.content"] != learned(one)["benchmark.content"]
    committed = TaskList(tasks=tuple(replace(t, digest=None, git_commit="c") for t in one.tasks))
    assert learned(committed) != learned(one)


def test_fingerprint__of_a_shard_is_that_of_the_whole(tmp_path: Path) -> None:
    whole = write_asked(RunDir(tmp_path / "w"), seed(), None, tasks("a", "b"))
    part = write_asked(RunDir(tmp_path / "p"), seed(), Shard(1, 2), tasks("a", "b"))
    assert whole.fingerprint == part.fingerprint


@pytest.mark.parametrize(
    "options", [{}, {"n_concurrent": 9}, {"max_passes": 9}, {"server_timeout": 60.0}]
)
def test_refuse_another__time_and_money_may_change(tmp_path: Path, options: dict[str, Any]) -> None:
    asked = write_asked(RunDir(tmp_path), seed(), None, tasks("a"))
    refuse_another(RunDir(tmp_path), asked, seed(**options), None)


@pytest.mark.parametrize(
    ("options", "shard", "field"),
    [
        ({"n_attempts": 2}, None, "n_attempts"),
        ({"ak": ("reasoning_effort=high",)}, None, "agent.kwargs.reasoning_effort"),
        ({"ak": ("new=1",)}, None, "agent.kwargs.new"),
        ({"benchmark_revision": "abc"}, None, "benchmark.revision"),
        ({"include_task": ("a",)}, None, "benchmark.include_task"),
        ({}, Shard(1, 2), "shard"),
    ],
)
def test_refuse_another__names_what_differs(
    tmp_path: Path, options: dict[str, Any], shard: Shard | None, field: str
) -> None:
    asked = write_asked(RunDir(tmp_path), seed(), None, tasks("a"))
    with pytest.raises(SpecError, match="holds another run") as caught:
        refuse_another(RunDir(tmp_path), asked, seed(**options), shard)
    assert f"(different: {field})" in caught.value.message
