"""What the pages tell people to type exists: every `tbh …` command and every flag."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tbh_action.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*.md")]
    if path.is_file()
)
# Flags of others that our pages name: Harbor's, git's, the model servers', pip's.
OTHERS = re.compile(r"\b(harbor|hf|git|pip|uv|docker|act|sglang|vllm|make|gh)\b")
_CONTEXT = click.Context(main, info_name="tbh")


def options_of(command: click.Command) -> set[str]:
    """Every spelling of the command's options."""
    found = {"--help", "-h"}
    for param in command.params:
        found |= {*param.opts, *param.secondary_opts}
    return found


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command (or sub-command) that `words` begin with, and the rest.

    Raises:
        LookupError: there is none.
    """
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(_CONTEXT, words[0])
        if found is None:
            raise LookupError(f"no command {words[0]!r}")
        command, words = found, words[1:]
    return command, words


def mistakes(line: str) -> list[str]:
    """What is wrong with `tbh …`; placeholders (`NAME`, `…`, `[--x]`) may stand in it."""
    text = re.sub(r"[\[\]…]|\.\.\.", " ", line).replace("$(", "").replace("<", " ").split(" #")[0]
    try:
        words = shlex.split(text)[1:]
    except ValueError:
        words = text.split()[1:]
    for end in ("|", "&&", ">", ";", "||"):
        if end in words:
            words = words[: words.index(end)]
    alternatives = words[0].split("|") if words and "|" in words[0] else words[:1]
    wrong: list[str] = []
    for first in alternatives or [""]:
        try:
            command, rest = find([first, *words[1:]] if first else [])
        except LookupError as error:
            wrong.append(str(error))
            continue
        known = options_of(command)
        flags = [word.split("=")[0] for word in rest if word.startswith("--")]
        wrong += [f"{first} has no {flag}" for flag in flags if flag not in known]
    return wrong


def code_of(text: str) -> Iterator[str]:
    """The lines of fenced blocks (continued lines joined), then the spans of inline code."""
    fences = re.compile(r"^( *)(```+|~~~+).*?\n(.*?)^\1\2`* *$", re.DOTALL | re.MULTILINE)
    for block in fences.finditer(text):
        yield from re.sub(r"\s*\\\n\s*", " ", block[3]).splitlines()
    for span in re.finditer(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", fences.sub("", text), re.DOTALL):
        yield " ".join(span[2].split())


def commands_in(text: str) -> list[str]:
    """Each `tbh …` in the code of a page."""
    found = []
    for line in code_of(text):
        match = re.match(
            r"(?:\$ |- run: |run: |exec |[A-Z_]+=\S+ )*(?:\S*/)?(tbh(?: .*)?)$", line.strip()
        )
        if match:
            found.append(match[1])
    return found


def flags_in(text: str) -> list[str]:
    """Each inline `--flag` that stands alone, so that it can only be one of ours."""
    return [
        re.split(r"[ =]", span)[0]
        for span in code_of(text)
        if re.fullmatch(r"--[a-z][a-z-]+(?:[ =].*)?", span)
    ]


def all_options() -> set[str]:
    known: set[str] = set()
    waiting: list[click.Command] = [main]
    while waiting:
        command = waiting.pop()
        known |= options_of(command)
        if isinstance(command, click.Group):
            names = command.list_commands(_CONTEXT)
            waiting += [c for name in names if (c := command.get_command(_CONTEXT, name))]
    return known


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page__every_command_and_flag_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [f"{line}: {what}" for line in commands_in(text) for what in mistakes(line)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page__every_lone_flag_is_one_of_ours(page: Path) -> None:
    known = all_options()
    lines = page.read_text(encoding="utf-8").splitlines()
    for line in lines:
        if not OTHERS.search(line):
            assert [flag for flag in flags_in(line) if flag not in known] == [], line


def test_pages__are_there_and_name_commands() -> None:
    assert ROOT / "README.md" in PAGES
    named = {
        line.split()[1]
        for page in PAGES
        for line in commands_in(page.read_text(encoding="utf-8"))
        if len(line.split()) > 1
    }
    assert {"run", "resume", "score", "cleanup"} <= named


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("tbh run --recipe NAME [--n-tasks N]", []),
        ("tbh recipe new org/model --dry-run-it", ["recipe has no --dry-run-it"]),
        ("tbh rnu", ["no command 'rnu'"]),
        ("tbh run --recipe x --flavour h200", ["run has no --flavour"]),
        ("tbh run --max-cost=5 | tee log --append", []),
        ("tbh", []),
        ("tbh --version", []),
        ("tbh status|logs|stats NAME", ["no command 'stats'"]),
    ],
)
def test_mistakes__finds_them(line: str, wrong: list[str]) -> None:
    assert mistakes(line) == wrong


def test_commands_in__blocks_and_spans() -> None:
    text = "a `tbh score DIR` b\n```sh\n$ tbh run \\\n  --recipe x\necho tbh\n```\n`make demo`"
    assert commands_in(text) == ["tbh run --recipe x", "tbh score DIR"]
    assert len(COMMANDS) > 10
