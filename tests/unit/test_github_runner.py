from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tbh_action.github.runner import SUMMARY_BYTES, Annotation, Runner, in_github, output_lines


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    return tmp_path / "summary.md"


@pytest.fixture
def runner(tmp_path: Path, summary: Path) -> Runner:
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "out"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    return Runner(env, io.StringIO())


def said(runner: Runner) -> str:
    assert isinstance(runner.out, io.StringIO)
    return runner.out.getvalue()


def read_outputs(text: str) -> dict[str, str]:
    """As the runner reads its file."""
    found = {}
    lines = text.split("\n")
    while len(lines) > 1:
        name, delimiter = lines.pop(0).split("<<")
        end = lines.index(delimiter)
        found[name] = "\n".join(lines[:end])
        lines = lines[end + 1 :]
    return found


def test_write_outputs__values_with_line_breaks_and_delimiters_stay_whole(
    runner: Runner, tmp_path: Path
) -> None:
    values = {"pass-rate": "0.596", "results-json": "a\nb=c\nEOF\nx<<y\n", "empty": ""}
    runner.write_outputs(values)
    assert read_outputs((tmp_path / "out").read_text(encoding="utf-8")) == values


def test_output_lines__a_name_that_would_break_the_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a name"):
        output_lines("a\nb", "x")


@pytest.mark.parametrize(("extra", "fits"), [(-1, True), (0, True), (1, False)])
def test_append_summary__the_limit_counts_bytes_of_the_whole_file(
    runner: Runner, summary: Path, extra: int, fits: bool
) -> None:
    summary.write_text("é" * 100, encoding="utf-8")  # 200 bytes
    text = "→" * 1000
    text += "x" * (SUMMARY_BYTES - 200 - len(text.encode()) - 1 + extra) + "\n"
    assert runner.append_summary(text) is fits
    assert summary.stat().st_size == (SUMMARY_BYTES + extra if fits else 200)
    assert ("::warning" in said(runner)) is not fits


def test_append_summary__a_missing_place_is_no_error() -> None:
    assert Runner({}, io.StringIO()).append_summary("x") is False


def test_append_summary__an_unwritable_place_warns(tmp_path: Path) -> None:
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)}
    runner = Runner(env, io.StringIO())
    assert runner.append_summary("x") is False
    assert "::warning" in said(runner)


def test_annotate__escapes_and_keeps_ten_of_each_level(runner: Runner) -> None:
    hostile = Annotation(level="error", title="a:b,c", message="50%\n::set-output name=x::y")
    runner.annotate([hostile] * 12 + [Annotation(level="notice", title="t", message="m")])
    lines = said(runner).splitlines()
    assert len(lines) == 11
    assert lines[0] == "::error title=a%3Ab%2Cc::50%25%0A::set-output name=x::y"
    assert lines[-1] == "::notice title=t::m"


def test_foreign_text__suspends_commands_with_a_token_nobody_can_guess(runner: Runner) -> None:
    with runner.foreign_text():
        runner.out.write("::error::evil\n")
    first, middle, last = said(runner).splitlines()
    token = first.removeprefix("::stop-commands::")
    assert re.fullmatch(r"[0-9a-f]{32}", token)
    assert middle == "::error::evil"
    assert last == f"::{token}::"


def test_mask__each_line_but_nothing_short(runner: Runner) -> None:
    runner.mask("hf_secret\nab\nsecond line")
    runner.mask(None)
    assert said(runner) == "::add-mask::hf_secret\n::add-mask::second line\n"


def test_group__is_closed_on_an_error(runner: Runner) -> None:
    with pytest.raises(RuntimeError), runner.group("pass 1"):
        raise RuntimeError
    assert said(runner) == "::group::pass 1\n::endgroup::\n"


def test_runner__outside_github_says_nothing() -> None:
    runner = Runner({}, io.StringIO())
    runner.mask("secret")
    runner.annotate([Annotation(level="error", title="t", message="m")])
    with runner.group("g"), runner.foreign_text():
        pass
    assert said(runner) == ""
    assert not in_github({})


def test_warn__goes_to_stderr_outside_github(capsys: pytest.CaptureFixture[str]) -> None:
    Runner({}, io.StringIO()).warn("Comment", "no rights")
    assert capsys.readouterr().err == "Warning: Comment: no rights\n"
