"""The entry for a model's page: the Hub's own format, other people's entries untouched."""

from __future__ import annotations

from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from huggingface_hub import EvalResultEntry, parse_eval_result_entries

from tbh_action.errors import IncompleteError, SpecError
from tbh_action.publishing.eval_results import benchmark_dataset, entry_of, file_with
from tbh_action.scoring import results
from tests.published import finished_run

WHERE = {"dataset": "o/bench", "task": "bench_1", "source_url": "https://hub.example/run"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run_dir = finished_run(tmp_path_factory.mktemp("eval") / "run-a")
    return results.read(run_dir.results)


def test_entry_of__percent_of_all_planned_with_the_conditions(document: dict[str, Any]) -> None:
    entry = entry_of(document, **WHERE)
    assert entry.value == 59.6
    assert entry.dataset_revision == "8f2b6a1d9c0e47f3a5b1c2d3e4f5061728394a5b"
    notes = str(entry.notes)
    assert "agent: terminus-2" in notes
    assert "20 of 89 unscored and counted as failed" in notes
    assert "1 attempt a task, not 5 or more" in notes
    assert "agent_timeout_multiplier is 4, not 1" in notes


def test_entry_of__no_number_of_an_incomplete_run(document: dict[str, Any]) -> None:
    run = {**document["run"], "complete": False}
    with pytest.raises(IncompleteError, match="tbh resume"):
        entry_of({**document, "run": run}, **WHERE)


def test_file_with__is_read_by_the_hubs_client_as_it_was_meant(document: dict[str, Any]) -> None:
    entry = entry_of(document, **WHERE)
    assert parse_eval_result_entries(yaml.safe_load(file_with(None, entry))) == [entry]


def test_file_with__replaces_ours_and_keeps_others(document: dict[str, Any]) -> None:
    entry = entry_of(document, **WHERE)
    foreign = EvalResultEntry(dataset_id="o/bench", task_id="bench_1", value=99.0)
    text = yaml.safe_dump([{"dataset": {"id": "o/bench", "task_id": "bench_1"}, "value": 99.0}])
    once = file_with(text, entry)
    later = entry_of(document, **{**WHERE, "source_url": "https://hub.example/later"})
    twice = file_with(once, later)
    assert parse_eval_result_entries(yaml.safe_load(twice)) == [foreign, later]
    assert file_with(twice, later) == twice


@pytest.mark.parametrize("text", ["a: 1", "- 1", "[", ""])
def test_file_with__a_file_of_another_kind_is_not_overwritten(
    document: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError):
        file_with(text, entry_of(document, **WHERE))


@pytest.mark.parametrize(
    ("source", "dataset"),
    [
        ("https://huggingface.co/datasets/o/terminal-bench-2.1", "o/terminal-bench-2.1"),
        ("https://huggingface.co/datasets/o/bench.git", "o/bench"),
        ("https://huggingface.co/datasets/o/bench/", "o/bench"),
    ],
)
def test_benchmark_dataset__from_the_tasks_address(source: str, dataset: str) -> None:
    assert benchmark_dataset({"benchmark": {"source": source}}) == dataset


@pytest.mark.parametrize("source", [None, "tasks", "https://github.com/o/r", "datasets/o"])
def test_benchmark_dataset__elsewhere(source: str | None) -> None:
    with pytest.raises(SpecError):
        benchmark_dataset({"benchmark": {"source": source}})
