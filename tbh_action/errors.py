"""What can go wrong for a user, each with its own exit code.

The codes are part of the interface (README, "Exit codes"): 0 done, 1 gate failed, 2 wrong usage or
spec, 3 could not start, 4 inconclusive or incomplete, 130/143 interrupted with the state saved.
"""

from __future__ import annotations

import re
from typing import Final

import click

EXIT_GATE_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_STARTED: Final = 3
EXIT_INCOMPLETE: Final = 4


class TbhError(click.ClickException):
    """Something a user can act on: one line that says what, to what, and what to do next."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str) -> None:
        # Another tool's words inside ours may end their own sentence.
        super().__init__(re.sub(r"(?<=\w)\.\.(?=\s|$)", ".", message))


class SpecError(TbhError):
    """Wrong arguments, spec, recipe or input file."""


class NotStartedError(TbhError):
    """Preflight or the server failed: nothing was measured."""

    exit_code = EXIT_NOT_STARTED


class IncompleteError(TbhError):
    """The run ended without a whole answer; what was earned is on disk."""

    exit_code = EXIT_INCOMPLETE


class GateFailedError(TbhError):
    """The answer is whole and it is bad news."""

    exit_code = EXIT_GATE_FAILED
