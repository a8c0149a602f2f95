"""JUnit XML, CSV, the terminal, and all files together."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from tbh_action.commands.report import report_command
from tbh_action.redact import Redactor
from tbh_action.report import junit, table, terminal
from tbh_action.report.write import NAMES, write_all
from tests import report_sample


def test_junit__counts_as_consumers_read_them() -> None:
    root = ET.fromstring(junit.render(report_sample.seed_final()))
    suite = root[0]
    for element in (root, suite):
        assert {key: element.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
            "tests": "89",
            "failures": "16",
            "errors": "20",
            "skipped": "0",
        }
    cases = suite.findall("testcase")
    assert [len(suite.findall(f".//{kind}")) for kind in ("failure", "error", "skipped")] == [
        16,
        20,
        0,
    ]
    assert len(cases) == 89
    assert sum(float(case.get("time", "")) for case in cases) == pytest.approx(
        float(suite.get("time", "")), abs=0.1
    )
    assert suite.get("timestamp") == "2026-08-01T09:24:00"
    assert {case.get("classname") for case in cases} == {"terminal-bench-2_1"}
    error = next(case for case in cases if case.find("error") is not None)
    found = error.find("error")
    assert found is not None
    assert found.get("type") == "AgentTimeoutError"
    assert found.get("message") == "the agent was stopped after 3600 s and no reward was given"


def test_junit__never_run_is_skipped() -> None:
    suite = ET.fromstring(junit.render(report_sample.incomplete()))[0]
    assert suite.get("skipped") == "3"
    assert suite.get("errors") == "0"
    assert len(suite.findall("testcase/skipped")) == 3


def test_junit__hostile_text_is_text() -> None:
    suite = ET.fromstring(junit.render(report_sample.hostile()))[0]
    names = [case.get("name") for case in suite.findall("testcase")]
    expected = [" ".join(name.split()) for name in report_sample.HOSTILE_NAMES]
    assert names == [name.replace("\u202e", "\ufffd") for name in expected]
    tags = {"testcase", "properties", "property", "failure", "error", "system-out"}
    assert {element.tag for element in suite.iter()} == tags | {"testsuite"}


def test_junit__attempts_have_names_of_their_own() -> None:
    suite = ET.fromstring(junit.render(report_sample.large(3, 5)))[0]
    names = [case.get("name") for case in suite.findall("testcase")]
    assert len(set(names)) == len(names) == 15
    assert str(names[0]).endswith(" [1]")


def test_csv__round_trip() -> None:
    results = report_sample.seed_final()
    rows = list(csv.DictReader(io.StringIO(table.render(results))))
    assert [row["task"] for row in rows] == [row["task"] for row in results["tasks"]]
    for row, source in zip(rows, results["tasks"], strict=True):
        assert row["status"] == source["status"]
        assert (float(row["reward"]) if row["reward"] else None) == source["reward"]
        assert float(row["seconds"]) == source["seconds"]
        tokens = source["tokens"] or {}
        assert (int(row["output_tokens"]) if row["output_tokens"] else None) == tokens.get("output")
    assert sum(row["change"] == "broken" for row in rows) == 4


def test_csv__formulas_and_line_breaks_stay_in_their_cell() -> None:
    rows = list(csv.reader(io.StringIO(table.render(report_sample.hostile()))))
    assert {len(row) for row in rows} == {len(table.COLUMNS)}
    cells = [cell for row in rows for cell in row]
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in cells)
    assert "'=cmd|' /C calc'!A0" in cells


def test_terminal__plain_has_no_escape_codes_and_no_commands() -> None:
    for sample in (report_sample.seed_final(), report_sample.hostile()):
        text = terminal.render(sample)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "✗ terminal-bench/fix-git " in terminal.render(report_sample.seed_final())


def test_terminal__colour_only_from_us() -> None:
    text = terminal.render(report_sample.hostile(), colour=True, width=200)
    assert "\x1b[31m" in text
    assert "\x1b[31mred" not in text
    assert "[x](javascript:alert(1))" in text


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_terminal__fits_its_width(width: int) -> None:
    text = terminal.render(report_sample.seed_final(), colour=True, width=width)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(len(line) for line in bare.splitlines()) <= width
    assert bare.count("✓ passed") == 53


@pytest.mark.parametrize("sample", ["seed_final", "incomplete", "hostile", "regression"])
def test_write_all__five_files_without_secrets(tmp_path: Path, sample: str) -> None:
    results = getattr(report_sample, sample)()
    secret, shape = "the-exact-secret-value", "hf_" + "A1b2C3d4" * 5
    row = results["tasks"][0]
    row |= {"log_tail": f"x {secret}\n{shape}", "message": shape, "reason": f"Bearer {secret}"}
    results["provenance"]["note"] = secret
    written = write_all(results, tmp_path, redactor=Redactor.from_environment([secret], environ={}))
    assert [path.name for path in written] == list(NAMES)
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert secret not in text
        assert shape not in text
    assert secret in results["provenance"]["note"]


def test_report_command__writes_beside_the_results(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(report_sample.seed_final()), encoding="utf-8")
    done = CliRunner().invoke(report_command, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "report").iterdir()} == set(NAMES)
    assert "53 of 89 passed" in done.output


@pytest.mark.parametrize("chosen", ["terminal", "summary", "comment", "html", "junit", "csv"])
def test_report_command__prints_one(tmp_path: Path, chosen: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(report_sample.seed_final()), encoding="utf-8")
    done = CliRunner().invoke(report_command, [str(path), "--format", chosen])
    assert done.exit_code == 0, done.output
    assert "terminal-bench" in done.output
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No results in"),
        ("{", "No results in"),
        ("[]", "No results in"),
        ('{"tasks": [], "schema_version": 9}', "schema_version 9"),
        ('{"tasks": [], "schema_version": 1}', "is no results document"),
    ],
)
def test_report_command__what_is_no_result(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "results.json").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(report_command, [str(tmp_path)])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_terminal__an_exception_is_named_once() -> None:
    results = report_sample.seed_final()
    row = next(row for row in results["tasks"] if row["status"] == "errored")
    row |= {"exception": "SandboxError", "reason": "SandboxError: infrastructure, not the model"}
    text = terminal.render(results)
    assert "SandboxError: infrastructure, not the model" in text
    assert "SandboxError: SandboxError" not in text
