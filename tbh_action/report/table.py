"""results.csv: one row for each task and attempt, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from tbh_action.escape import csv_cell
from tbh_action.report.words import Results

COLUMNS: Final = (
    "task",
    "attempt",
    "status",
    "class",
    "exception",
    "reward",
    "seconds",
    "agent_seconds",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "superseded",
    "pass",
    "change",
    "started_at",
    "finished_at",
    "trial",
    "reason",
)


def render(results: Results) -> str:
    """UTF-8 without a byte-order mark, `,` between cells, `\\n` after rows; unknown is empty.

    A text that a spreadsheet would run as a formula has a leading apostrophe.
    """
    entries = (results.get("comparison") or {}).get("tasks", ())
    changes = {entry["task"]: entry["change"] for entry in entries}
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in results["tasks"]:
        cells = _cells(row) | {"change": changes.get(row["task"])}
        writer.writerow([csv_cell(cells[name]) for name in COLUMNS])
    return file.getvalue()


def _cells(row: Results) -> dict[str, Any]:
    tokens = row.get("tokens") or {}
    cells = {name: row.get(name) for name in COLUMNS}
    return cells | {f"{kind}_tokens": tokens.get(kind) for kind in ("input", "cached", "output")}
