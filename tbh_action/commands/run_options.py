"""The options that decide a run, shared by every command that takes a spec.

Each is a flag, a `TBH_…` variable and a key of `tbh.toml`; a flag wins over the variable, the
variable over the file, the file over the recipes. An empty variable counts as not given.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from tbh_action.durations import parse_duration
from tbh_action.errors import SpecError

CONFIG_FILE: Final = "tbh.toml"

Command = Callable[..., Any]


class Duration(click.ParamType[float]):
    """`4h`, `5h30m`, `90s`; the value is seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Finite(click.FloatRange):
    """A finite number in a range; click's own lets NaN through, which no limit survives."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return number


class Lines(click.ParamType[str]):
    """Text; a variable that holds several has one on each line."""

    name = "text"

    def split_envvar_value(self, rv: str) -> list[str]:
        return [line.strip() for line in rv.splitlines() if line.strip()]


def option(flag: str, **kwargs: Any) -> Callable[[Command], Command]:
    """A click option that `TBH_<FLAG>` can set as well."""
    return click.option(flag, envvar=f"TBH_{_key(flag).upper()}", **kwargs)


_POSITIVE: Final = click.IntRange(min=1)
# In the order of the help: what is measured, how, where, with what.
_SPEC_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--recipe": {"metavar": "NAME", "help": "Model recipe (`tbh recipes`) or a .toml file."},
    "--model": {"metavar": "ORG/NAME", "help": "The model, as its server calls it."},
    "--model-revision": {"metavar": "REV", "help": "The model's revision on the Hub."},
    "--endpoint": {"metavar": "URL", "help": "Use this OpenAI-compatible server (…/v1)."},
    "--benchmark": {
        "metavar": "NAME",
        "help": "Benchmark recipe [terminal-bench-2.1] or a .toml file.",
    },
    "--path": {"metavar": "DIR", "help": "Tasks in a local folder instead."},
    "--repo": {"metavar": "URL", "help": "Tasks in a git repository instead."},
    "--dataset": {"metavar": "NAME", "help": "Tasks of Harbor's registry instead."},
    "--benchmark-revision": {"metavar": "REV", "help": "Pin the tasks to this commit or tag."},
    "--include-task": {
        "metavar": "GLOB",
        "multiple": True,
        "type": Lines(),
        "help": "Only these tasks.",
    },
    "--exclude-task": {
        "metavar": "GLOB",
        "multiple": True,
        "type": Lines(),
        "help": "Not these tasks.",
    },
    "--n-tasks": {"type": _POSITIVE, "help": "At most so many tasks."},
    "--n-attempts": {"type": _POSITIVE, "help": "Attempts at each task [1]."},
    "--n-concurrent": {"type": _POSITIVE, "help": "Trials at a time, at most."},
    "--min-concurrent": {"type": _POSITIVE, "help": "Trials at a time, at least [1]."},
    "--max-passes": {"type": _POSITIVE, "help": "Harbor passes, repairs included [4]."},
    "--agent-timeout-multiplier": {
        "type": Finite(min=0, min_open=True),
        "help": "Multiplies each task's own agent timeout.",
    },
    "--max-agent-time": {"type": Duration(), "help": "Cap on the agent's time in a task."},
    "--max-call": {"type": Duration(), "help": "Longest single model call [30m]."},
    "--agent": {"metavar": "NAME", "help": "Harbor's agent [terminus-2]."},
    "--ak": {"metavar": "K=V", "multiple": True, "type": Lines(), "help": "Agent kwarg."},
    "--env": {"metavar": "TYPE", "help": "Harbor's environment [hf-sandbox]."},
    "--ek": {"metavar": "K=V", "multiple": True, "type": Lines(), "help": "Environment kwarg."},
    "--flavor": {"metavar": "FLAVOR", "help": "The server's hardware on the Hub."},
    "--namespace": {"metavar": "NS", "help": "Who pays on the Hub: a user or an organisation."},
    "--server-timeout": {"type": Duration(), "help": "Life of one server job [4h]."},
    "--schedule-timeout": {"type": Duration(), "help": "Longest wait for hardware [1h]."},
    "--load-timeout": {"type": Duration(), "help": "Longest wait for the model to load [30m]."},
    "--replicas": {"type": _POSITIVE, "help": "Server jobs at a time [1]."},
    "--mount-model/--no-mount-model": {
        "default": None,
        "help": "Mount the model, don't download it.",
    },
}
# What bounds and continues a run; `tbh run` and `tbh resume` take them.
_LIMIT_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--time-budget": {
        "type": Duration(),
        "help": "End this leg in time, with everything needed to go on (exit code 4).",
    },
    "--max-cost": {
        "type": Finite(min=0, min_open=True),
        "metavar": "USD",
        "help": "Stop in an orderly way before more than this is spent.",
    },
    "--keep-server/--stop-server": {
        "default": False,
        "help": "Leave the server running at the end, for the next leg.",
    },
    "--state": {
        "metavar": "FILE.tar",
        "help": "Continue from this file when it exists; written at the end.",
    },
}

# How the answer is told; every command that ends with a report takes them.
_REPORT_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--templates": {
        "metavar": "DIR",
        "type": click.Path(exists=True, file_okay=False),
        "help": "Templates of your own for summary and comment.",
    },
    "--comment": {
        "type": click.Choice(["auto", "always", "on-change", "never"]),
        "default": "auto",
        "show_default": True,
        "help": "On GitHub: when to write the pull request comment.",
    },
    "--comment-key": {"metavar": "KEY", "default": "", "help": "Keeps comments of one job apart."},
}


def _key(flag: str) -> str:
    return flag.split("/", maxsplit=1)[0].removeprefix("--").replace("-", "_")


SPEC_KEYS: Final = frozenset(_key(flag) for flag in _SPEC_OPTIONS)
_MULTIPLE: Final = frozenset(
    _key(flag) for flag, kwargs in _SPEC_OPTIONS.items() if kwargs.get("multiple")
)


def limit_options(command: Command) -> Command:
    """Adds the options that bound a run in time and money."""
    return _with(command, _LIMIT_OPTIONS)


def report_options(command: Command) -> Command:
    """Adds the options that say how the answer is told."""
    return _with(command, _REPORT_OPTIONS)


def _with(command: Command, options: dict[str, dict[str, Any]]) -> Command:
    for flag, kwargs in reversed(options.items()):
        command = option(flag, **kwargs)(command)
    return command


def spec_options(command: Command) -> Command:
    """Adds the options that decide the spec; the command gets them as keyword arguments."""
    return _with(command, _SPEC_OPTIONS)


def config_defaults(directory: Path | None = None) -> dict[str, Any]:
    """The keys of `tbh.toml` in `directory` (the working directory), as click's defaults.

    Click reads each value as it would one on the command line, and refuses it as there.

    Raises:
        SpecError: the file is not TOML, or has a value that no flag can have.
    """
    path = (directory or Path.cwd()) / CONFIG_FILE
    if not path.exists():
        return {}
    try:
        if not path.is_file():
            raise SpecError(f"{path} is no regular file.")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"Cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"Cannot read {path}: {error}.") from error
    return {key.replace("-", "_"): _as_given(path, key, value) for key, value in document.items()}


def _as_given(path: Path, key: str, value: Any) -> str | list[str]:
    """A value as click would get it from the command line."""
    if key.replace("-", "_") in _MULTIPLE:
        return [_text(path, key, item) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise SpecError(f"{path}: {key!r} is a list, and this flag takes one value.")
    return _text(path, key, value)


def _text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, dict | list):
        kind = "table" if isinstance(value, dict) else "list in a list"
        raise SpecError(f"{path}: {key!r} is a {kind}; write a value, like n-concurrent = 3.")
    text = value if isinstance(value, str) else str(value).lower()  # true, as in TOML
    if "\0" in text:
        raise SpecError(f"{path}: {key!r} holds a NUL character.")
    return text
