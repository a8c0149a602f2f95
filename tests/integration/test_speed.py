"""The speed that `tbh` promises, in processor time, so that a busy machine does not decide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from bench.report import make_job, measure

TBH = str(Path(sys.executable).parent / "tbh")


def test_help__is_there_at_once() -> None:
    assert measure([TBH, "--help"], 3).processor < 0.3


@pytest.mark.slow
def test_score__a_thousand_trials(tmp_path: Path) -> None:
    make_job(tmp_path / "job", 1000)
    measured = measure([TBH, "score", str(tmp_path / "job")], 3)
    assert measured.processor < 1.0
    assert measured.megabytes < 100


@pytest.mark.slow
def test_score__memory_grows_slower_than_the_job(tmp_path: Path) -> None:
    """2,000 trials are 44 MB on disk; a reader that kept them would need several times that."""
    make_job(tmp_path / "job", 2000)
    assert measure([TBH, "score", "--json", str(tmp_path / "job")], 1).megabytes < 100
    seen = subprocess.run(
        [TBH, "score", str(tmp_path / "job")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert "400 tasks × 5 attempts" in seen.stdout
