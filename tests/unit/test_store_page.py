"""The pages of a results store: what visitors read, and what must not break them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tbh_action.comparison.earlier import EarlierRun
from tbh_action.publishing import publish
from tbh_action.publishing.published import key_of
from tbh_action.publishing.store_page import COLUMNS, card, history_page, table
from tbh_action.scoring import results
from tests.factories import results as make
from tests.published import finished_run


def run(key: str, outcomes: str = "ppff", **changes: Any) -> EarlierRun:
    document = make(outcomes, name=changes.pop("name", key), **changes)
    return EarlierRun(results=document, source=f"hf://datasets/o/s/runs/{key}/results.json")


def front_matter(text: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return document


def test_card__says_where_the_viewers_table_is_and_its_types() -> None:
    document = front_matter(card(None, [run("a")], "o/s"))
    assert document["configs"] == [{"config_name": "default", "data_files": "data/*.jsonl"}]
    features = document["dataset_info"]["features"]
    assert {item["name"]: item["dtype"] for item in features} == COLUMNS


def test_card__newest_first_and_marked_when_incomplete() -> None:
    runs = [
        run("old", finished_at="2026-01-01T00:00:00Z"),
        run("new", finished_at="2026-02-01T00:00:00Z", complete=False),
    ]
    text = card(None, runs, "o/s")
    assert text.index("[new](runs/new/report/summary.md) (incomplete)") < text.index("[old]")
    assert "tbh verify hf://datasets/o/s/runs/new" in text
    assert "new is not comparable with the public leaderboard" in text


def test_card__is_written_once_and_then_only_between_its_marks() -> None:
    first = card(None, [run("a")], "o/s")
    assert card(first, [run("a")], "o/s") == first
    edited = first.replace("# o/s", "# Our results") + "\nThanks.\n"
    again = card(edited, [run("a"), run("b")], "o/s")
    assert "# Our results" in again
    assert again.endswith("\nThanks.\n")
    assert "[b](runs/b/" in again
    assert card(again, [run("a"), run("b")], "o/s") == again


def test_card__hostile_names_make_no_markup() -> None:
    name = "x](https://evil.example) | <script>alert(1)</script>\n# gone"
    for text in (
        card(None, [run("a", name=name)], "o/s"),
        history_page([run("a", name=name)], "o/s"),
    ):
        assert "<script>" not in text
        assert "](https://evil" not in text
        row = next(line for line in text.splitlines() if "evil" in line)
        assert row.count(" | ") == 7


def test_history_page__one_table_for_runs_that_were_measured_alike() -> None:
    runs = [
        run("a", finished_at="2026-01-01T00:00:00Z", revision="1"),
        run("b", finished_at="2026-02-01T00:00:00Z", revision="2"),
        run("c", finished_at="2026-03-01T00:00:00Z", fields={"agent_timeout_multiplier": 1.0}),
    ]
    text = history_page(runs, "o/s")
    assert text.count("## bench, measured as") == 2
    places = [text.index(f"[{name}](runs/{name}/") for name in ("c", "b", "a")]
    assert places == sorted(places)


def test_table__every_row_has_every_column_with_its_type(tmp_path: Path) -> None:
    run_dir = finished_run(tmp_path / "run-a", tasks=6)
    types = {"string": str, "int64": int, "float64": (int, float)}
    lines = table(results.read(run_dir.results), "run-a").splitlines()
    assert len(lines) == 6
    for line in lines:
        row = json.loads(line)
        assert list(row) == list(COLUMNS)
        for name, value in row.items():
            assert value is None or isinstance(value, types[COLUMNS[name]]), name


def test_key_of__a_run_keeps_its_place_and_another_of_that_name_gets_its_own() -> None:
    first, second = make(name="nightly"), make(name="nightly", started_at="2026-09-01T09:00:00Z")
    assert key_of(first, []) == "nightly"
    store = [run("nightly")]
    assert key_of(first, store) == "nightly"
    assert key_of(second, store) == "nightly-2026-09-01T090000Z"
    assert key_of(make(name="../../etc/x y"), []) == "etc-x-y"
    assert key_of(make(name="…"), []) == "run"


def test_parts__by_number_and_by_size(monkeypatch: Any) -> None:
    files: dict[str, Any] = {str(number): b"12345" for number in range(5)}
    paths = list(files)
    monkeypatch.setattr(publish, "_COMMIT_FILES", 2)
    assert list(publish._parts(paths, files)) == [["0", "1"], ["2", "3"], ["4"]]
    monkeypatch.setattr(publish, "_COMMIT_BYTES", 7)
    assert list(publish._parts(paths, files)) == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert list(publish._parts([], files)) == []
