from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tbh_action.commands.history import _bar, history_command
from tests.factories import results, row, write


def invoke(*args: str) -> Result:
    return CliRunner().invoke(history_command, args)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name, day, outcomes in (("a", 1, "pppf"), ("b", 9, "ppff")):
        document = results(
            outcomes,
            name=name,
            finished_at=f"2026-08-0{day}T00:00:00Z",
            complete=name == "a",
            cost={"total_usd": 12.5 if name == "a" else None},
        )
        write(tmp_path / name / "results.json", document)
    write(tmp_path / "c/results.json", results("pp", fields={"max_call": 1.0}))
    write(tmp_path / "torn/results.json", "text")
    return tmp_path


def test_history__tables(store: Path) -> None:
    result = invoke(str(store))
    assert result.exit_code == 0
    lines = result.output.splitlines()
    first = next(line for line in lines if "2026-08-01" in line and "3/4" in line)
    assert [cell.strip() for cell in first.split("│")[1:9]] == [
        "2026-08-01", "org/model", "1111111111aa", "3/4", "75.0%", "30.1–95.4", "4/4", "$12.50",
    ]  # fmt: skip
    assert any("2026-08-09 (incomplete)" in line and "2/4" in line for line in lines)
    assert sum("measured as" in line for line in lines) == 2
    assert "org/task-003: passed 1, failed 1" in result.output
    assert "torn/results.json" in result.stderr


def test_history__json(store: Path) -> None:
    document = json.loads(invoke(str(store), "--json", "--model", "org/model").stdout)
    assert [len(item["points"]) for item in document["series"]] == [1, 2]
    point = document["series"][1]["points"][0]
    assert point["counts"] == {"planned": 4, "scored": 4, "passed": 3}
    assert point["rates"] == {"all": 0.75, "scored": 0.75}
    assert point["intervals"]["all"] == pytest.approx([0.3006, 0.9544], abs=1e-4)
    assert document["flaky"] == [{"task": "org/task-003", "passed": 1, "failed": 1}]


def test_history__nothing_there(tmp_path: Path) -> None:
    assert invoke(str(tmp_path)).output == f"No results at {tmp_path}.\n"
    missing = invoke(str(tmp_path / "x"))
    assert missing.exit_code == 2
    assert missing.output.startswith("Error: There is nothing at")


def test_history__hostile_text_is_inert(tmp_path: Path) -> None:
    evil = "\x1b[2J\n::error::gone[red]x[/red]"
    document = results([row(evil), row(evil, "failed", 2)], name=evil, revision=evil)
    write(tmp_path / "a/results.json", document | {"benchmark": {"name": evil}})
    output = invoke(str(tmp_path)).output
    assert "\x1b" not in output
    assert "[red]" in output
    assert not any(line.startswith("::") for line in output.splitlines())


@pytest.mark.parametrize(
    ("rate", "low", "high", "expected"),
    [
        (0.0, 0.0, 0.0, "●"),
        (1.0, 0.9, 1.0, " " * 26 + "───●"),
        (0.5, 0.0, 1.0, "─" * 14 + "●" + "─" * 15),
        (None, 0.0, 1.0, ""),
    ],
)
def test_bar__is_on_a_fixed_scale(
    rate: float | None, low: float, high: float, expected: str
) -> None:
    assert _bar(rate, low, high).rstrip() == expected
