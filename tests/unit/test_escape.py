from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbh_action import escape

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a | b || c \\| d \\\\| e",
    "`code` ``more`` ```\n~~~",
    "[click](javascript:alert(1)) ![x](http://evil.example/p.png)",
    "@octocat please look at #12, GH-3 and org/repo#4",
    "http://evil.example www.evil.example me@evil.example",
    "line one\nline two\r\nline three\rfour\u2028five",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x1b]0;title",
    "\u202egnp.exe\u202c \u2066x\u2069 \ufeff\u200b",
    "\ud800 lone surrogate \udfff",
    "-- # heading\n--- \n===\n> quote\n1. list\n+ list",
    "=cmd|' /C calc'!A0",
    "<!-- tbh-action:key --> -->",
    "</details></summary></table>",
    "]]> <![CDATA[ x ]]>",
    "$x^2$ and $$y$$",
    '"; end\n subgraph evil %% comment',
    "::error::stop\n##[error]x\n  ::set-output name=a::b",
    "",
    "   ",
]
TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(alphabet=st.characters(), max_size=40),
    st.text(alphabet="`|\\*_[]()<>&@#$~!-+=. \n\x1b[0m:/w1ax", max_size=40),
)


def render(markdown: str) -> str:
    executable = shutil.which("cmark-gfm")
    assert executable, "cmark-gfm is missing: apt-get install cmark-gfm"
    names = ("table", "autolink", "strikethrough", "tagfilter")
    extensions = [part for name in names for part in ("-e", name)]
    done = subprocess.run(
        [executable, "--unsafe", *extensions],
        input=markdown.encode("utf-8"),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    return page


def expected(text: str) -> str:
    return escape.one_line(text)


def seen(text: str) -> str:
    return " ".join(text.replace("\u200b", "").split())


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_cell__a_table_stays_whole_and_shows_the_text(text: str) -> None:
    markdown = f"| a | b |\n|---|---|\n| {escape.markdown_cell(text)} | second |\n"
    page = parse(render(markdown))
    assert page.tags == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert seen(page.text) == seen(f"a b {expected(text) or '–'} second")


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_code__a_table_stays_whole_and_shows_the_text(text: str) -> None:
    markdown = f"| a | b |\n|---|---|\n| {escape.markdown_code(text)} | second |\n"
    page = parse(render(markdown))
    tags = [tag for tag in page.tags if tag != "code"]
    assert tags == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert seen(page.text) == seen(f"a b {expected(text) or '–'} second")


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=25))
def test_markdown_cell__any_text(texts: list[str]) -> None:
    rows = "".join(
        f"| {escape.markdown_cell(text)} | {escape.markdown_code(text)} |\n" for text in texts
    )
    page = parse(render(f"| a | b |\n|---|---|\n{rows}"))
    assert [tag for tag in page.tags if tag != "code"] == (
        ["table", "thead", "tr", "th", "th", "tbody"] + ["tr", "td", "td"] * len(texts)
    )


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.strip()])
def test_markdown_text__a_paragraph_stays_one(text: str) -> None:
    page = parse(render(f"{escape.markdown_text(text)}\n"))
    assert page.tags in ([], ["p"])
    assert seen(page.text) == seen(expected(text))


def test_markdown_text__no_mention_reference_or_link() -> None:
    text = escape.markdown_text("@octocat #12 GH-3 http://a.example www.a.example $x$")
    assert not re.search(r"@\w|(?<!&)#\d|GH-\d|://|www\.|\$", text)


def test_markdown_fence__cannot_be_closed_from_inside() -> None:
    page = parse(render(escape.markdown_fence("```\n</pre><b>x</b>\n`````\n# no heading")))
    assert page.tags == ["pre", "code"]


@given(TEXT)
def test_html__comes_back_as_text(text: str) -> None:
    page = parse(f'<p title="{escape.html(text)}">{escape.html(text)}</p>')
    assert page.tags == ["p"]
    assert page.text == escape.clean(text)


@given(TEXT)
def test_json_script__round_trip_and_inert(text: str) -> None:
    script = escape.json_script({"text": text})
    assert not re.search("[<>&\u2028\u2029]", script)
    assert json.loads(script)["text"] == re.sub("[\ud800-\udfff]", "?", text)


def test_json_script__nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        escape.json_script({"reward": float("nan")})


@given(TEXT)
def test_xml__parses_and_comes_back(text: str) -> None:
    root = ET.fromstring(f'<a b="{escape.xml(text)}">{escape.xml(text)}</a>')
    assert (root.text or "") == root.attrib["b"]
    assert root.attrib["b"] == escape._NOT_XML.sub("", escape.clean(text))


@given(TEXT)
def test_workflow_property__one_line_without_separators(text: str) -> None:
    value = escape.workflow_property(text)
    assert not re.search(r"[\r\n:,]", value)
    assert "\n" not in escape.workflow_data(text)


def test_workflow_data__percent_first() -> None:
    assert escape.workflow_data("50%\n%0A") == "50%25%0A%250A"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("  @SUM(A1)", "'  @SUM(A1)"),
        ("+49", "'+49"),
        ("-x", "'-x"),
        ("\t=1", "'\t=1"),
        ("＝1", "'＝1"),
        ("fix-git", "fix-git"),
        (-1.5, "-1.5"),
        (3, "3"),
        (True, "true"),
        (None, ""),
    ],
)
def test_csv_cell__formulas_are_text(value: str | float | None, cell: str) -> None:
    assert escape.csv_cell(value) == cell


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_csv_cell__round_trip(texts: list[str]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerow([escape.csv_cell(text) for text in texts])
    row = next(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert [cell.removeprefix("'") for cell in row] == [
        escape.clean(text).removeprefix("'") for text in texts
    ]


@given(TEXT)
def test_terminal__no_control_sequence_and_no_command(text: str) -> None:
    shown = escape.terminal(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
    assert "##[" not in shown


@given(TEXT)
def test_mermaid__nothing_leaves_the_quotes(text: str) -> None:
    label = escape.mermaid(text)
    assert label
    assert not re.search(r'["`;#%<>\n\[\]{}|\\&]', label)


@given(TEXT)
def test_filename__safe_everywhere(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9._-]{0,100}", escape.filename(text))
    assert escape.filename(text) not in (".", "..")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("terminal-bench/fix-git", "terminal-bench-fix-git"),
        ("../../etc/passwd", "etc-passwd"),
        ("con.txt", "_con.txt"),
        ("...", "unnamed"),
        ("Qwen/Qwen3.8-27B", "Qwen-Qwen3.8-27B"),
    ],
)
def test_filename__examples(text: str, name: str) -> None:
    assert escape.filename(text) == name


@given(TEXT)
def test_clean__can_be_encoded_and_is_idempotent(text: str) -> None:
    cleaned = escape.clean(text)
    cleaned.encode("utf-8")
    assert escape.clean(cleaned) == cleaned


def test_shorten__counts_the_ellipsis() -> None:
    assert escape.shorten("abcdef", 4) == "abc…"
    assert escape.shorten("abcd", 4) == "abcd"
