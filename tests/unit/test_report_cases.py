"""Every job directory of tests/cases, scored and reported: nothing breaks, nothing is live."""

from __future__ import annotations

import csv
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tbh_action.escape import one_line
from tbh_action.redact import Redactor
from tbh_action.report import terminal
from tbh_action.report.write import write_all
from tbh_action.scoring.directory import score_directory
from tests.unit.test_report_markdown import Page, cmark

JOBS = Path(__file__).parents[1] / "cases" / "jobs"
TOKEN = "hf_" + "A1b2C3d4" * 5


@pytest.mark.parametrize("case", sorted(path.name for path in JOBS.iterdir()))
def test_write_all__of_a_case(tmp_path: Path, case: str) -> None:
    job = tmp_path / "job"
    shutil.copytree(JOBS / case, job)
    for path in job.rglob("result.json"):
        path.write_bytes(path.read_bytes().replace(b"@@TOKEN@@", TOKEN.encode()))
    results = score_directory(job, with_logs=True)
    files = {path.name: path for path in write_all(results, tmp_path / "report")}

    for name in ("summary.md", "comment.md"):
        page = Page(cmark(files[name].read_text(encoding="utf-8")))
        assert all(len(set(rows)) == 1 for rows in page.tables)
        assert page.links == []
        assert not page.tags & {"script", "img", "a", "h1", "iframe"}
        if name == "summary.md":
            shown = page.text.replace("\u200b", "")
            assert all(one_line(row["task"]) in shown for row in results["tasks"])
    cases = ET.fromstring(files["junit.xml"].read_bytes()).findall(".//testcase")
    assert [case.get("name", "").split(" [")[0] for case in cases] == [
        one_line(row["task"]) for row in results["tasks"]
    ]
    with files["results.csv"].open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(results["tasks"])
    texts = [path.read_text(encoding="utf-8") for path in files.values()]
    texts.append(terminal.render(Redactor.from_environment().document(results)))
    assert not any(TOKEN in text for text in texts)
