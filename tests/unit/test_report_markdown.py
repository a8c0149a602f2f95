"""The summary and the comment as GitHub's own Markdown renderer reads them, and as files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tbh_action.errors import SpecError
from tbh_action.github.marker import marker
from tbh_action.report import view
from tbh_action.report.limits import COMMENT_CHARACTERS, SUMMARY_BYTES, utf8_bytes
from tbh_action.report.markdown import Links, render_comment, render_summary
from tests import report_sample

GOLDEN = Path(__file__).parents[1] / "golden" / "report"
MARKER = marker("a key", 12, "0123abc")
SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "seed_final": report_sample.seed_final,
    "regression": report_sample.regression,
    "incomplete": report_sample.incomplete,
    "hostile": report_sample.hostile,
    "attempts": lambda: report_sample.large(6, 5, log=100),
    "empty": lambda: report_sample.results([]),
}


def cmark(markdown: str) -> str:
    """HTML as GitHub's renderer makes it, raw HTML included."""
    executable = shutil.which("cmark-gfm")
    assert executable, "cmark-gfm is missing: apt-get install cmark-gfm"
    extensions = [
        word
        for name in ("table", "autolink", "strikethrough", "tagfilter")
        for word in ("-e", name)
    ]
    done = subprocess.run(
        [executable, "--unsafe", "--github-pre-lang", *extensions],
        input=markdown.encode("utf-8"),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8")


class Page(HTMLParser):
    """Which tags were opened, the tables with the width of each row, and the text."""

    VOID = ("br", "hr", "img", "input")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.tables: list[list[int]] = []
        self.cells: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("td", "th"):
            self.tables[-1][-1] += 1
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open:
            self.cells[-1] += data


def rendered(kind: str, results: dict[str, Any], **options: Any) -> str:
    if kind == "summary":
        return render_summary(results, **options)
    return render_comment(results, marker=MARKER, **options)


@pytest.mark.parametrize("kind", ["summary", "comment"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_render__golden(kind: str, sample: str) -> None:
    """TBH_UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it."""
    text = rendered(kind, SAMPLES[sample](), links=Links(run="https://github.example/o/r/1"))
    path = GOLDEN / f"{sample}.{kind}.md"
    if os.environ.get("TBH_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["summary", "comment"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_render__tables_are_whole_and_nothing_is_live(kind: str, sample: str) -> None:
    page = Page(cmark(rendered(kind, SAMPLES[sample]())))
    assert page.tables
    for rows in page.tables:
        assert len(rows) > 1
        assert len(set(rows)) == 1, rows
    allowed = {"h2", "h3", "p", "strong", "blockquote", "table", "thead", "tbody", "tr", "th", "td"}
    allowed |= {"code", "pre", "details", "summary", "sub", "ul", "li"}
    assert page.tags <= allowed
    assert page.links == []
    assert page.open == []
    assert "|" not in re.sub(r"\|\w\|`b`|a\\?\|b|cmd\|' /C|\|`", "", page.text)


def test_render_summary__hostile_names_are_shown_whole() -> None:
    page = Page(cmark(render_summary(report_sample.hostile())))
    cells = {cell.replace("\u200b", "") for cell in page.cells}
    for name in report_sample.HOSTILE_NAMES:
        assert " ".join(name.replace("\u202e", "\ufffd").split()) in cells


def test_render_summary__says_the_seed_s_numbers() -> None:
    text = Page(cmark(render_summary(report_sample.seed_final()))).text
    assert "53 of 89 passed — 59.6 % [49.2, 69.1] of all, 76.8 % [65.6, 85.2] of the 69" in text
    for line in ("Passed\n53\n59.6%", "reward 0)\n16\n18.0%", "exception)\n20\n22.5%"):
        assert line in text
    assert "First pass alone\n39" in text


def test_render_summary__the_important_comes_first() -> None:
    text = render_summary(report_sample.regression())
    places = [
        text.index(words)
        for words in ("53 of 89", "Gate failed", "**Broken**", "### Score", "All 89 tasks")
    ]
    assert places == sorted(places)


def test_render__escapes_once() -> None:
    results = report_sample.seed_final()
    results["warnings"] = ["a_b & <c>"]
    assert "- a\\_b &amp; &lt;c&gt;\n" in render_summary(results)


def test_render_comment__begins_with_the_marker() -> None:
    assert render_comment(report_sample.seed_final(), marker=MARKER).startswith(f"{MARKER}\n")


def test_render__a_template_of_the_user_replaces_a_block(tmp_path: Path) -> None:
    (tmp_path / "summary.md.jinja").write_text(
        '{% extends "default/summary.md.jinja" %}'
        "{% block title %}# Mine: {{ results.model.name }}{% endblock %}",
        encoding="utf-8",
    )
    results = report_sample.hostile()
    text = render_summary(results, templates=tmp_path)
    assert text.startswith("# Mine: ")
    assert "### Score" in text
    assert "<script>" not in text.split("\n")[0]


def test_render_comment__without_the_marker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "comment.md.jinja").write_text("Hello", encoding="utf-8")
    with pytest.raises(SpecError, match="marker"):
        render_comment(report_sample.seed_final(), marker=MARKER, templates=tmp_path)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{% if %}", "line 1"),
        ('{% extends "absent.md" %}', "absent.md is missing"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_render__a_broken_template_is_one_line(tmp_path: Path, template: str, message: str) -> None:
    (tmp_path / "summary.md.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        render_summary(report_sample.seed_final(), templates=tmp_path)
    assert "\n" not in caught.value.message


def test_render__no_template_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no directory"):
        render_summary(report_sample.seed_final(), templates=tmp_path / "absent")


def test_render__two_thousand_tasks_fit() -> None:
    results = report_sample.large(2000, 5, log=10)
    summary = render_summary(results)
    comment = render_comment(results, marker=MARKER)
    assert utf8_bytes(summary) <= SUMMARY_BYTES
    assert "task-01999" in summary
    assert len(comment) <= COMMENT_CHARACTERS
    did_not_pass = sum(row.status != "passed" for row in view.task_rows(results))
    assert comment.count("| `big-benchmark/task-") == 200
    assert f"\n… and {did_not_pass - 200} more, in the full report." in comment
    assert "### Cost, time and tokens" in comment


def test_links__only_web_addresses_become_links() -> None:
    results = report_sample.seed_final()
    good = render_summary(results, links=Links(run="https://ci.example/1", report="javascript:x"))
    assert "[Run](<https://ci.example/1>)" in good
    assert "(<javascript" not in good
