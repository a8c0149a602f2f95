"""What a report of very many trials leaves out, and that it says so."""

from __future__ import annotations

import json
import re

from tbh_action.report import charts, page, view
from tests import report_sample


def _row(task: str, statuses: str, change: str = "") -> view.TaskRow:
    attempts = [{"task": task, "status": status} for status in statuses.split()]
    return view.TaskRow(task=task, attempts=attempts, change=change)


def test_most_telling__all_of_them_when_there_is_room() -> None:
    rows = [_row("a", "passed passed"), _row("b", "failed errored")]
    assert view.most_telling(rows, 4) == rows


def test_most_telling__changed_before_not_passed_before_passed_in_their_order() -> None:
    rows = [
        _row("solid", "passed", "same_pass"),
        _row("mixed", "passed failed"),
        _row("fixed", "passed", "fixed"),
        _row("failed", "failed", "still_failing"),
    ]
    kept = [[row.task for row in view.most_telling(rows, room)] for room in (1, 3, 4, 5)]
    assert kept == [
        ["fixed"],
        ["mixed", "fixed"],
        ["mixed", "fixed", "failed"],
        ["solid", "mixed", "fixed", "failed"],
    ]


def test_page__more_trials_than_it_lists() -> None:
    results = report_sample.large(5_000, 5, log=10)
    for row in results["tasks"]:
        row["message"] = "m" * 2000
    text = page.render(results)
    assert len(text) < 20_000_000
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data
    listed = len(json.loads(data[1]))
    assert listed == text.count('<tr id="t') == 4000
    assert "1,000 tasks more are left out here" in text
    assert "25,000 trials are too many to draw" in text
    assert "A square stands for several trials" in text


def test_outcome_strip__of_very_many_a_square_stands_for_several() -> None:
    results = report_sample.large(charts.MOST // 2 * 3, log=0)
    drawn = re.findall(r'class="s-(\w+)" d="([^"]*)"', charts.outcome_strip(results))
    squares = {status: path.count("M") for status, path in drawn}
    assert sum(squares.values()) == charts.MOST // 4 * 3
    for status, number in squares.items():
        assert abs(number - results["counts"][status] / 2) <= 1
