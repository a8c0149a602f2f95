"""A fixed part of the tasks, chosen by name alone.

A task's shard is SHA-256 of its name modulo the number of shards: no list, no order and no other
task has a say, so that a task that is added or left out moves none of the others. The price is
balance: shards differ by a few tasks, and by chance in the time they take.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tbh_action.errors import SpecError


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `index` (from 1) of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    """`2/5` → the second of five.

    Raises:
        SpecError: not `i/n` with 1 ≤ i ≤ n ≤ 1000.
    """
    match = re.fullmatch(r"\s*(\d{1,4})\s*/\s*(\d{1,4})\s*", text, re.ASCII)
    if match is not None:
        index, count = int(match[1]), int(match[2])
        if 1 <= index <= count <= 1000:
            return Shard(index, count)
    raise SpecError(f"--shard takes i/n with 1 ≤ i ≤ n ≤ 1000, like 2/5, not {text!r}.")


def shard_of(task: str, count: int) -> int:
    """The shard (from 1) that a task belongs to. The organisation in front of a name has no say:
    `terminal-bench/fix-git` and `fix-git` are one task."""
    short = task.rsplit("/", 1)[-1]
    return int.from_bytes(hashlib.sha256(short.encode("utf-8")).digest()[:8], "big") % count + 1


def tasks_of_shard(names: Iterable[str], shard: Shard) -> list[str]:
    """The names that belong to `shard`, in their given order."""
    return [name for name in names if shard_of(name, shard.count) == shard.index]
