"""What happened, in order: `events.jsonl` for machines, one line each for who watches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tbh_action.escape import terminal
from tbh_action.rundir import append_line, utc_now


class Journal:
    """Writes events to `path` and lines to `out` (standard output, by click)."""

    def __init__(self, path: Path, out: Callable[[str], None] = click.echo) -> None:
        self._path = path
        self._out = out

    def event(self, document: dict[str, Any]) -> None:
        """One event; `at` is added when it has none. A full disk must not end a run that earns:
        the event is lost then, the ledger says the same."""
        try:
            append_line(self._path, {"at": utc_now()} | document)
        except OSError as error:
            self._out(f"cannot write {self._path.name}: {error.strerror}")

    def say(self, text: str) -> None:
        """One line for the person, with the time in front; also an event. Foreign text in it is
        made inert: no line of ours can be a terminal or a workflow command."""
        shown = terminal(text)
        self._out(f"{datetime.now(UTC):%H:%M:%S}  {shown}")
        self.event({"event": "said", "text": shown})
