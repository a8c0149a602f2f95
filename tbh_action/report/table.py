"""results.csv: one row for each task and attempt, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from typing import Final

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
        tokens = row.get("tokens") or {}
        derived = {
            "input_tokens": tokens.get("input"),
            "cached_tokens": tokens.get("cached"),
            "output_tokens": tokens.get("output"),
            "change": changes.get(row["task"]),
        }
        cells = {**row, **derived}
        writer.writerow([csv_cell(cells.get(name)) for name in COLUMNS])
    return file.getvalue()
