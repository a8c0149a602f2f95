"""Text that others wrote, made harmless: one function for each place that it is put into.

Task names, messages, rewards' reasons and logs come from models, datasets and sandboxes, so they
are hostile until they have passed through the function of their target. Each takes any `str` (also
one with lone surrogates) and returns text that can be encoded as UTF-8.
"""

from __future__ import annotations

import json
import re
from html import escape as _escape_html
from typing import Any, Final

_ANSI: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"  # two characters, and whatever is cut off
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI in eight bits
)
# Controls but tab and newline; soft hyphen, zero-width space and no-break; marks of direction;
# invisible operators; tags; specials.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f"
    "\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
# Embeddings, overrides and isolates reorder what a reader sees; lone surrogates are no text. Both
# leave a visible mark, so that two names that differ in nothing else still look different.
_REPLACED: Final = re.compile("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NEWLINE: Final = re.compile(r"\r\n?|[\u2028\u2029\x85]")


def clean(text: str) -> str:
    """`text` without terminal sequences and invisible characters; `\\n` and `\\t` stay."""
    if text.isascii() and text.isprintable():  # nearly every text, and there is nothing to remove
        return text
    text = _NEWLINE.sub("\n", _ANSI.sub("", text))
    return _REPLACED.sub("\ufffd", _INVISIBLE.sub("", text))


def one_line(text: str) -> str:
    """`clean`, with each run of white space as one space."""
    return " ".join(clean(text).split())


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, `…` at the end when some were cut. For use *before* escaping."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


# --- Markdown, as GitHub reads it ---------------------------------------------------------------

_MARKDOWN: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",  # `\|` splits a table's cell when a backslash stands before it
    "$": "&#36;",  # mathematics
    **{char: f"\\{char}" for char in "\\`*_[]#~"},
}
_MARKDOWN_CHARS: Final = re.compile(r"[&<>|$\\`*_\[\]#~]")
_MARKDOWN_START: Final = re.compile(r"^(?:([-+=:])|(\d+)([.)])(?=\s|$))")


def markdown_text(text: str) -> str:
    """`text` as plain words of one line: no markup, link, mention, issue reference, or HTML.

    A zero-width space after `@` and before numbers after `#` keeps GitHub from notifying people
    and from linking issues; a code span (`markdown_code`) does that without it.
    """
    line = _MARKDOWN_CHARS.sub(lambda found: _MARKDOWN[found[0]], one_line(text))
    line = _MARKDOWN_START.sub(
        lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", line
    )
    line = re.sub(r"@(?=\w)", "@&#8203;", line)
    line = re.sub(r"\\#(?=\d)", r"\\#&#8203;", line)
    line = re.sub(r"(?i)\b(gh)-(?=\d)", r"\1-&#8203;", line)
    return re.sub(r"(?i)\b(www)\.", r"\1&#46;", line.replace("://", "&#58;//"))


def markdown_cell(text: str) -> str:
    """`text` as a table's cell: `markdown_text`, and something to see when it is empty."""
    return markdown_text(text) or "–"


def markdown_code(text: str) -> str:
    """`text` in code letters, on one line; good in a sentence and in a table's cell."""
    line = one_line(text)
    if not line:
        return "–"
    if re.search(r"[`|\\]", line):
        return f"<code>{markdown_text(line)}</code>"
    return f"`{line}`"


def markdown_fence(text: str, language: str = "") -> str:
    """`text` as a code block, with a fence that nothing inside can close."""
    body = clean(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


_MERMAID: Final = re.compile(r"[^\w .,:+/()=-]", re.UNICODE)


def mermaid(text: str) -> str:
    """`text` as what stands between the quotes of a Mermaid label."""
    return " ".join(_MERMAID.sub(" ", one_line(text)).split()) or "-"


# --- The web --------------------------------------------------------------------------------------


def html(text: str) -> str:
    """`text` as an HTML text or a quoted attribute; line breaks stay."""
    return _escape_html(clean(text), quote=True)


def json_script(document: Any) -> str:
    """`document` as JSON inside `<script type="application/json">`: nothing in it can end that.

    Raises:
        ValueError: it holds NaN or an infinity.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


_NOT_XML: Final = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml(text: str) -> str:
    """`text` as XML 1.0 text or a quoted attribute. Characters that XML forbids are gone."""
    line = _escape_html(_NOT_XML.sub("", clean(text)), quote=True).replace("&#x27;", "&#39;")
    # A parser turns bare line breaks of an attribute into spaces; references survive in both.
    return line.replace("\n", "&#10;").replace("\t", "&#9;")


# --- Machines and terminals -----------------------------------------------------------------------


def workflow_data(text: str) -> str:
    """`text` as the message of a GitHub workflow command (`::error::MESSAGE`)."""
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """`text` as a property of a GitHub workflow command (`::error title=VALUE::`)."""
    return workflow_data(text).replace(":", "%3A").replace(",", "%2C")


def csv_cell(value: str | float | bool | None) -> str:
    """A value for `csv.writer`. A text that a spreadsheet would run as a formula gets a leading
    apostrophe, which spreadsheets hide; numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = clean(value)
    return (
        f"'{text}"
        if text.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
        else text
    )


_COMMAND_LINE: Final = re.compile(r"^([ \t]*:)(?=:)", re.MULTILINE)


def terminal(text: str) -> str:
    """`text` as it may be printed: no terminal sequences, and no line that a GitHub runner would
    read as a command (`::…` at the start, `##[…` anywhere)."""
    return _COMMAND_LINE.sub(r"\1 ", clean(text)).replace("##[", "## [")


_RESERVED: Final = frozenset(
    ("con prn aux nul " + " ".join(f"com{n} lpt{n}" for n in range(10))).split()
)


def filename(text: str, *, limit: int = 100) -> str:
    """`text` as one file's or artifact's name on any system: ASCII letters, digits, `.`, `_`, `-`.

    Two texts may give one name; who needs them apart adds a number.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", one_line(text)).strip("-. ")[:limit].rstrip("-. ")
    if not name:
        return "unnamed"
    return f"_{name}" if name.split(".")[0].lower() in _RESERVED else name
