"""What a job says to the GitHub runner: outputs, summary, masks, groups, annotations.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
Everything here is reporting: what can't be written warns, and changes no verdict.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TextIO

from tbh_action.escape import workflow_data, workflow_property

# The runner drops the whole summary of a step above this, counted on the file in bytes.
SUMMARY_BYTES: Final = 1024 * 1024
# GitHub keeps this many annotations of each level for one step.
ANNOTATIONS_PER_LEVEL: Final = 10
_SHORTEST_MASK: Final = 4

Level = Literal["error", "warning", "notice"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotation:
    """One line beside the run: plain text, escaped only when it is written."""

    level: Level
    title: str
    message: str


def in_github(env: Mapping[str, str] | None = None) -> bool:
    """Does this process run inside a GitHub job?"""
    return (os.environ if env is None else env).get("GITHUB_ACTIONS") == "true"


@dataclass(frozen=True, slots=True)
class Runner:
    """The runner's side of this process. Outside GitHub each call does nothing."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    out: TextIO = field(default_factory=lambda: sys.stdout)

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """The step's outputs, each between two lines of a random delimiter."""
        text = "".join(output_lines(name, value) for name, value in values.items())
        self._append("GITHUB_OUTPUT", text)

    def append_summary(self, text: str) -> bool:
        """Adds to the step's summary. False when it does not fit or can't be written.

        The caller gives a text within `summary_room`; here nothing is cut.
        """
        data = text if text.endswith("\n") else f"{text}\n"
        if len(data.encode("utf-8", errors="replace")) > self.summary_room():
            self.annotate(
                [
                    Annotation(
                        level="warning",
                        title="Summary left out",
                        message="It is larger than GitHub's limit; the report directory has it.",
                    )
                ]
            )
            return False
        return self._append("GITHUB_STEP_SUMMARY", data)

    def summary_room(self) -> int:
        """Bytes that the step's summary can still take, the last line break included."""
        path = self.env.get("GITHUB_STEP_SUMMARY")
        try:
            used = Path(path).stat().st_size if path else 0
        except OSError:
            used = 0
        return max(SUMMARY_BYTES - used, 0)

    def mask(self, value: str | None) -> None:
        """Keeps `value` out of the log from here on. Of several lines, each is masked."""
        for line in (value or "").splitlines():
            if len(line.strip()) >= _SHORTEST_MASK:
                self._command(f"::add-mask::{workflow_data(line.strip())}")

    @contextlib.contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Folds what is printed inside under `title`."""
        self._command(f"::group::{workflow_data(title)}")
        try:
            yield
        finally:
            self._command("::endgroup::")

    @contextlib.contextmanager
    def foreign_text(self) -> Iterator[None]:
        """Suspends workflow commands: for text from a model, a task or a log."""
        token = secrets.token_hex(16)
        self._command(f"::stop-commands::{token}")
        try:
            yield
        finally:
            self._command(f"::{token}::")

    def annotate(self, annotations: Iterable[Annotation]) -> None:
        """Writes at most ten annotations of each level, in the order given."""
        left: dict[str, int] = {}
        for item in annotations:
            left[item.level] = left.get(item.level, ANNOTATIONS_PER_LEVEL) - 1
            if left[item.level] >= 0:
                title = workflow_property(item.title)
                self._command(f"::{item.level} title={title}::{workflow_data(item.message)}")

    def warn(self, title: str, message: str) -> None:
        """A reporting problem: seen in the log and beside the run, without any other effect."""
        if in_github(self.env):
            self.annotate([Annotation(level="warning", title=title, message=message)])
        else:
            print(f"Warning: {title}: {message}", file=sys.stderr, flush=True)  # noqa: T201

    def _command(self, line: str) -> None:
        if in_github(self.env):
            print(line, file=self.out, flush=True)

    def _append(self, variable: str, text: str) -> bool:
        path = self.env.get(variable)
        if not path:
            return False
        try:
            with Path(path).open("a", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            self.warn(f"Cannot write {variable}", str(error))
            return False
        return True


def output_lines(name: str, value: str) -> str:
    """One output in the form that holds any value: a delimiter that the value can't contain.

    Raises:
        ValueError: a name that is none.
    """
    if not name or not all(char.isalnum() or char in "-_" for char in name):
        raise ValueError(f"{name!r} is not a name for an output")
    while (delimiter := f"tbh_{secrets.token_hex(16)}") in value:
        pass  # 2**-128 for each turn; checked since a wrong output is silent
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"
