from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tbh_action.commands.compare import compare_command
from tests.factories import results, row, write


def invoke(tmp_path: Path, ours: Any, theirs: Any, *args: str) -> Result:
    a = write(tmp_path / "ours/results.json", ours)
    b = write(tmp_path / "theirs/results.json", theirs)
    return CliRunner().invoke(compare_command, [str(a), str(b), *args])


@pytest.mark.parametrize(
    ("ours", "theirs", "args", "code", "start"),
    [
        ("p" * 20, "p" * 20, (), 0, "PASS: The pass rate did not change"),
        ("f" * 8 + "p" * 12, "p" * 20, (), 1, "REGRESSION: The pass rate fell by 40.0 points"),
        ("f" + "p" * 19, "p" * 20, ("--fail-on", "any-drop"), 1, "PASS: The pass rate fell by"),
        ("f" * 8 + "p" * 12, "p" * 20, ("--fail-on", "never"), 0, "REGRESSION"),
        ("e" * 8 + "p" * 12, "p" * 20, (), 4, "INCONCLUSIVE: This run scored 60.0%"),
    ],
)
def test_compare__verdict_and_exit_code(
    tmp_path: Path, ours: str, theirs: str, args: tuple[str, ...], code: int, start: str
) -> None:
    result = invoke(tmp_path, results(ours), results(theirs, name="old"), *args)
    assert result.exit_code == code, result.output
    assert result.output.startswith(start)


def test_compare__whole_text(tmp_path: Path) -> None:
    ours = results("f" * 2 + "e" + "p" * 17, revision="22", fields={"max_call": 60.0})
    result = invoke(tmp_path, ours, results("p" * 20, name="old"), "--compare-anyway")
    assert result.output == (
        "PASS: Compared anyway, so no figure here is safe: the pass rate fell by 10.5 points "
        "(95 % interval -31.4 to +7.9; exact McNemar test over 19 tasks, p = 0.50); "
        "a drop of less than 38.4 points could have been missed.\n"
        "\n"
        f"Baseline: old ({tmp_path}/theirs/results.json)\n"
        "  revision 1111111111aa, 2026-08-01T20:00:00Z, fingerprint ffffffffffff\n"
        "  It is the file that was given.\n"
        "\n"
        "Measured differently:\n"
        "  max_call: 1800.0 → 60.0\n"
        "\n"
        "The model under test:\n"
        "  model.revision: 1111111111aa → 22\n"
        "\n"
        "Broken, 2 (compared anyway):\n"
        "  org/task-001: passed → failed\n"
        "  org/task-002: passed → failed\n"
        "\n"
        "Newly unscored (no score here, one in the baseline), 1 (compared anyway):\n"
        "  org/task-003: passed → errored\n"
        "\n"
        "0 still failing, 17 still passing (compared anyway).\n"
        "\n"
        "Gate (regression): passed\n"
        "  Compared anyway, so no figure here is safe: the pass rate fell by 10.5 points "
        "(95 % interval -31.4 to +7.9; exact McNemar test over 19 tasks, p = 0.50); "
        "a drop of less than 38.4 points could have been missed.\n"
    )


def test_compare__json_is_the_comparison_and_the_gate(tmp_path: Path) -> None:
    result = invoke(tmp_path, results("f" * 8 + "p" * 12), results("p" * 20), "--json")
    document = json.loads(result.output)
    assert result.exit_code == 1
    assert list(document) == ["comparison", "gate", "flaky", "warnings"]
    assert document["comparison"]["verdict"] == "regression"
    assert document["gate"]["exit_code"] == 1


def test_compare__a_run_directory_with_a_directory_of_runs(tmp_path: Path) -> None:
    ours = results("p" * 20, name="new", finished_at="2026-09-01T00:00:00Z")
    write(tmp_path / "runs/new/results.json", ours)
    write(tmp_path / "runs/old/results.json", results("p" * 20, name="old"))
    write(tmp_path / "runs/torn/results.json", [])
    args = [str(tmp_path / "runs/new"), str(tmp_path / "runs")]
    result = CliRunner().invoke(compare_command, args)
    assert result.exit_code == 0
    assert "Baseline: old" in result.output
    assert "It is the latest of 1 earlier result" in result.output
    assert "Warning: " in result.output
    assert "torn/results.json is no results.json of ours" in result.output


def test_compare__hostile_text_cannot_command_the_terminal_or_the_runner(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;x\x07\n::error::gone\n##[error]x\u202etxt"
    ours = results([row(evil, "failed"), *[row(f"t{n}") for n in range(19)]], warnings=[evil])
    theirs = results([row(evil), *[row(f"t{n}") for n in range(19)]], name=evil, revision=evil)
    result = invoke(tmp_path, ours, theirs)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
    assert "##[" not in result.output
    assert not any(line.startswith("::") for line in result.output.splitlines())


@pytest.mark.parametrize("place", ["absent", "absent#latest", "hf://datasets/x/y/z"])
def test_compare__a_baseline_that_is_not_there_is_one_line(tmp_path: Path, place: str) -> None:
    ours = write(tmp_path / "results.json", results())
    result = CliRunner().invoke(compare_command, [str(ours), place])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


def test_compare__unreadable_results_are_one_line(tmp_path: Path) -> None:
    ours = write(tmp_path / "results.json", {"schema_version": 5})
    result = CliRunner().invoke(compare_command, [str(ours), str(ours)])
    assert result.exit_code == 2
    assert result.output == (
        f"Error: {ours} is no results.json of ours: schema_version is 5, not 1.\n"
    )


def test_compare__long_lists_are_cut_with_a_count(tmp_path: Path) -> None:
    ours = results([row(f"a{n:03}") for n in range(60)])
    result = invoke(tmp_path, ours, results([row(f"b{n}") for n in range(50)]))
    assert "Only in this run, 60:\n  a000: passed\n" in result.output
    assert "  a049: passed\n  … and 10 more (--json names all)\n" in result.output
    assert "Only in the baseline, 50:" in result.output
    assert result.output.count("more (--json") == 1


DATA = Path(__file__).parents[1] / "data"


def test_compare__of_the_sample_results() -> None:
    args = [str(DATA / "results-sample.json"), str(DATA / "results-sample-baseline.json")]
    cautious = CliRunner().invoke(compare_command, args)
    assert cautious.exit_code == 4
    assert cautious.output.startswith("INCONCLUSIVE: This run scored 77.5%")
    bold = CliRunner().invoke(compare_command, [*args, "--coverage-floor", "0.7"])
    assert bold.exit_code == 0
    assert "Broken, 4:" in bold.output
    assert "model.revision: 0a7be51 → 1f3c9d2" in bold.output
