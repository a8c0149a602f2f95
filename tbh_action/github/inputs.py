"""The action's inputs: what each means, which commands use it, and one strict parser for all.

A composite action's inputs are strings: an empty one means "not given", and everything else is
checked here, under the input's own name, before anything is started. `TABLE` is the single source
for the parser, for action.yml (a test compares) and for the README's tables.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tbh_action.durations import parse_duration
from tbh_action.errors import SpecError

Kind = Literal["text", "lines", "paths", "boolean", "whole", "number", "duration"]

# What is measured is asked by `run` and `submit`, and by `serve` for other runs; how far this job
# goes, by `run` and `resume`.
RUN: Final = frozenset({"run"})
ASKED: Final = frozenset({"run", "submit", "serve"})
RUNS: Final = frozenset({"run", "submit"})
LEG: Final = frozenset({"run", "resume"})
JUDGED: Final = frozenset({"run", "resume", "merge", "compare", "collect"})
PAID: Final = ASKED | LEG
# Commands about a detached run, whose controller is a job on the Hub.
DETACHED: Final = frozenset({"submit", "collect", "cancel"})
COMMANDS: Final = (
    *("run", "resume", "merge", "report", "compare", "comment", "releases", "cleanup"),
    *("publish", "serve", "submit", "collect", "cancel"),
)
# Inputs that the action itself handles; they are no options of a command.
OWN: Final = (
    "command",
    "hf-token",
    "github-token",
    "endpoint-key",
    "forks",
    "comment-key",
    "comment-job",
)


@dataclass(frozen=True, slots=True)
class Input:
    """One input that becomes an option (`flag`) or, with an empty flag, an argument."""

    kind: Kind
    commands: frozenset[str]
    arguments_of: frozenset[str] = field(default_factory=frozenset)
    off: str = ""

    @property
    def used_by(self) -> frozenset[str]:
        return self.commands | self.arguments_of


_TEXT: Final = Input("text", ASKED)
TABLE: Final[Mapping[str, Input]] = {
    # What is measured.
    "recipe": Input("text", PAID),
    "model": Input("text", PAID | {"releases"}),
    "model-revision": _TEXT,
    "endpoint": Input("text", PAID),
    "benchmark": Input("text", ASKED | {"releases"}),
    "benchmark-revision": _TEXT,
    "path": _TEXT,
    "repo": _TEXT,
    "dataset": _TEXT,
    "include-task": Input("lines", ASKED),
    "exclude-task": Input("lines", ASKED),
    "n-tasks": Input("whole", ASKED),
    "n-attempts": Input("whole", ASKED),
    # How.
    "n-concurrent": Input("whole", PAID),
    "min-concurrent": Input("whole", PAID),
    "max-passes": Input("whole", PAID),
    "agent": _TEXT,
    "ak": Input("lines", ASKED),
    "env": _TEXT,
    "ek": Input("lines", ASKED),
    "agent-timeout-multiplier": Input("number", ASKED),
    "max-agent-time": Input("duration", ASKED),
    "max-call": Input("duration", ASKED),
    # Where.
    "flavor": _TEXT,
    "namespace": Input("text", ASKED | DETACHED | {"cleanup"}),
    "replicas": Input("whole", ASKED),
    "server-timeout": Input("duration", ASKED),
    "schedule-timeout": Input("duration", ASKED),
    "load-timeout": Input("duration", ASKED),
    "mount-model": Input("boolean", ASKED, off="--no-mount-model"),
    # How far.
    "time-budget": Input("duration", LEG),
    "max-cost": Input("number", RUNS | LEG),
    "keep-server": Input("boolean", LEG, off="--stop-server"),
    "server-job": Input("text", RUN),
    "state": Input("text", LEG),
    "shard": Input("text", RUNS),
    "name": Input("text", ASKED | {"cleanup"}, frozenset({"collect", "cancel"})),
    "run-dir": Input("text", RUN, frozenset({"resume", "report", "comment", "compare", "publish"})),
    # Shards and legs that are joined.
    "runs": Input("paths", frozenset(), frozenset({"merge"})),
    "out": Input("text", frozenset({"merge", "report", "collect"})),
    # Verdict.
    "baseline": Input("text", LEG | {"merge", "collect"}, frozenset({"compare"})),
    "fail-on": Input("text", JUDGED),
    "alpha": Input("number", JUDGED),
    "min-effect": Input("number", JUDGED),
    "coverage-floor": Input("number", JUDGED),
    "compare-anyway": Input("boolean", JUDGED),
    # Report.
    "templates": Input("text", LEG | {"merge", "report", "collect"}),
    "comment": Input("text", LEG | {"merge", "comment", "collect"}),
    "comment-state": Input("text", frozenset({"comment"})),
    # Releases, and what is kept of them.
    "publish-to": Input("text", frozenset({"publish"})),
    "issue": Input("boolean", frozenset({"comment"})),
    "store": Input("text", frozenset({"releases"})),
    "tags": Input("text", frozenset({"releases"})),
}
# The option's name where it is not the input's.
_FLAGS: Final[Mapping[tuple[str, str], str]] = {
    ("cleanup", "name"): "--run",
    ("publish", "publish-to"): "--to",
}
_COMMENT_STATES: Final = ("result", "in-progress", "finish", "minimise", "delete")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A `tbh` command line: `tbh run --recipe=… …`."""

    command: str
    arguments: tuple[str, ...]


def variable(name: str) -> str:
    """The environment variable that carries input `name`."""
    return f"TBH_{name.replace('-', '_').upper()}"


def read_call(env: Mapping[str, str]) -> Call:
    """The command line that the inputs in `env` ask for.

    Raises:
        SpecError: every problem at once, each with the input's name.
    """
    command = env.get("TBH_COMMAND", "").strip() or "run"
    if command not in COMMANDS:
        raise SpecError(f"input `command`: {command!r} is none of {', '.join(COMMANDS)}.")
    given = {name: text for name in TABLE if (text := env.get(variable(name), "")).strip() != ""}
    options: list[str] = []
    arguments: list[str] = []
    problems: list[str] = []
    for name, text in given.items():
        spec = TABLE[name]
        try:
            if command not in spec.used_by:
                raise ValueError(f"`command: {command}` does not use it")
            values = _values(spec, text)
            if command in spec.arguments_of:
                arguments += values
            elif name == "comment-state":
                options += _comment_state(text.strip())
            else:
                options += _options(command, name, spec, values)
        except ValueError as error:
            problems.append(f"input `{name}`: {error}")
    if problems:
        raise SpecError("; ".join(problems) + ".")
    tail = ("--", *arguments) if arguments else ()
    return Call(command=command, arguments=(*options, *tail))


def _options(command: str, name: str, spec: Input, values: list[str]) -> list[str]:
    flag = _FLAGS.get((command, name), f"--{name}")
    if spec.kind == "boolean":
        if values == ["true"]:
            return [flag]
        return [spec.off] if spec.off else []
    return [f"{flag}={value}" for value in values]


def _values(spec: Input, text: str) -> list[str]:
    """The value(s) in one spelling; ValueError says what is wrong."""
    if spec.kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if spec.kind == "paths":
        return _paths(text)
    value = text.strip()
    if "\n" in value or "\r" in value:
        raise ValueError("it takes one line")
    check = _CHECKS.get(spec.kind)
    return [check(value) if check else value]


def _paths(text: str) -> list[str]:
    """Paths and globs, one a line; a glob stands for its matches in order."""
    found: list[str] = []
    for line in text.splitlines():
        pattern = line.strip()
        if not pattern:
            continue
        matches = sorted(glob.glob(pattern))  # noqa: PTH207 (relative and absolute patterns alike)
        if not matches:
            raise ValueError(f"nothing matches {pattern!r}")
        found += [match for match in matches if match not in found]
    return found


def parse_boolean(text: str) -> bool:
    """`true`, `false`, `1`, `0`, in any case and with spaces around; nothing else.

    Raises:
        ValueError: anything else.
    """
    known = {"true": True, "1": True, "false": False, "0": False}
    value = known.get(text.strip().lower())
    if value is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return value


def _boolean(text: str) -> str:
    return "true" if parse_boolean(text) else "false"


def _whole(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no whole number")
    return str(int(text))


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no number") from error
    if not math.isfinite(value) or not text.isascii() or "_" in text:
        raise ValueError(f"{text!r} is no number")
    return text


def _duration(text: str) -> str:
    parse_duration(text)
    return text


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "boolean": _boolean,
    "whole": _whole,
    "number": _number,
    "duration": _duration,
}


def _comment_state(text: str) -> list[str]:
    if text not in _COMMENT_STATES:
        raise ValueError(f"{text!r} is none of {', '.join(_COMMENT_STATES)}")
    return [] if text == "result" else [f"--{text}"]
