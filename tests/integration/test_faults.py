"""The quick part of the fault matrix; `python -m bench.faults` plays all of it."""

from __future__ import annotations

import pytest

from bench.fault_cases import cases
from bench.scene import Case, play

QUICK = [case for case in cases() if case.quick]


@pytest.mark.slow
@pytest.mark.parametrize("case", QUICK, ids=[case.name for case in QUICK])
def test_fault__survived_and_nothing_lost_or_left(case: Case) -> None:
    row, said = play(case)
    assert row.survived, f"{row.trouble}\n{said}"
    assert (row.lost, row.wrong, row.left) == (0, 0, 0)
