"""Events for machines, lines for people."""

from __future__ import annotations

import re
from pathlib import Path

from tbh_action.controller.journal import Journal
from tbh_action.rundir import read_lines


def test_event__carries_its_instant(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "e.jsonl", out=print)
    journal.event({"event": "a"})
    journal.event({"event": "b", "at": "2026-01-01T00:00:00Z"})
    first, second = read_lines(tmp_path / "e.jsonl")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["at"])
    assert second["at"] == "2026-01-01T00:00:00Z"


def test_say__one_line_with_the_time_and_an_event(tmp_path: Path) -> None:
    lines: list[str] = []
    Journal(tmp_path / "e.jsonl", out=lines.append).say("pass 1")
    assert re.fullmatch(r"\d\d:\d\d:\d\d  pass 1", lines[0])
    (event,) = read_lines(tmp_path / "e.jsonl")
    assert (event["event"], event["text"]) == ("said", "pass 1")


def test_say__foreign_text_is_no_command(tmp_path: Path) -> None:
    lines: list[str] = []
    journal = Journal(tmp_path / "e.jsonl", out=lines.append)
    journal.say("task\n::error::boom\r\n::add-mask::x \x1b[31mred\x1b]0;title\x07 \u202e")
    for line in lines[0].splitlines():
        assert not line.lstrip().startswith("::")
    for character in ("\r", "\x1b", "\x07", "\u202e"):
        assert character not in lines[0]


def test_event__a_place_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    journal = Journal(tmp_path / "none" / "e.jsonl", out=lines.append)
    journal.event({"event": "a"})
    journal.say("b")
    assert lines[0] == "cannot write e.jsonl: No such file or directory"
    assert lines[1].endswith("  b")
