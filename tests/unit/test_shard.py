from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.errors import SpecError
from tbh_action.policy.shard import Shard, parse_shard, shard_of, tasks_of_shard

NAMES = (
    (Path(__file__).parent.parent / "data" / "terminal-bench-2.1-tasks.txt")
    .read_text(encoding="utf-8")
    .split()
)


@pytest.mark.parametrize(
    ("text", "shard"), [("1/1", Shard(1, 1)), ("2/5", Shard(2, 5)), (" 5 / 5 ", Shard(5, 5))]
)
def test_parse_shard__good(text: str, shard: Shard) -> None:
    assert parse_shard(text) == shard
    assert parse_shard(str(shard)) == shard


@pytest.mark.parametrize(
    "text", ["", "0/3", "4/3", "1", "1/0", "a/b", "-1/3", "1/3/5", "1/1001", "٢/٥"]
)
def test_parse_shard__bad(text: str) -> None:
    with pytest.raises(SpecError, match="--shard takes i/n"):
        parse_shard(text)


def test_shard_of__is_fixed_for_ever() -> None:
    """These must never change: legs and shards of one run are made by different machines."""
    assert [shard_of(name, 5) for name in ("fix-git", "qemu-startup", "regex-chess")] == [3, 2, 5]


def test_shard_of__the_organisation_has_no_say() -> None:
    assert shard_of("terminal-bench/fix-git", 7) == shard_of("fix-git", 7)


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 9))
def test_tasks_of_shard__each_task_in_exactly_one(names: list[str], count: int) -> None:
    parts = [tasks_of_shard(names, Shard(index, count)) for index in range(1, count + 1)]
    assert sorted(name for part in parts for name in part) == sorted(names)


@given(st.sets(st.sampled_from(NAMES)), st.integers(1, 6))
def test_tasks_of_shard__a_missing_task_moves_no_other(gone: set[str], count: int) -> None:
    for index in range(1, count + 1):
        shard = Shard(index, count)
        rest = tasks_of_shard([name for name in NAMES if name not in gone], shard)
        assert rest == [name for name in tasks_of_shard(NAMES, shard) if name not in gone]


def test_tasks_of_shard__sizes_of_the_benchmark() -> None:
    sizes = [len(tasks_of_shard(NAMES, Shard(index, 3))) for index in (1, 2, 3)]
    assert sum(sizes) == 89
    assert min(sizes) >= 20
