"""One thing that was looked at before anything is paid, and how to cure it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """`fail` stops a run before it starts, `warn` may spoil it later. `cure` is what to do."""

    name: str
    status: Status
    detail: str
    cure: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def ok(name: str, detail: str) -> Check:
    return Check(name=name, status="ok", detail=detail)


def warn(name: str, detail: str, cure: str) -> Check:
    return Check(name=name, status="warn", detail=detail, cure=cure)


def fail(name: str, detail: str, cure: str) -> Check:
    return Check(name=name, status="fail", detail=detail, cure=cure)


def failures(checks: Iterable[Check]) -> list[str]:
    """One line for each failed check, ready to be shown: `token: … → cure`."""
    return [
        f"{check.name}: {check.detail} → {check.cure}" for check in checks if check.status == "fail"
    ]
