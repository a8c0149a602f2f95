"""state.json: what is paid is never forgotten, and no two runs share a label."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.controller.state import PassRecord, RunState, belongs_to, load, new_state, save
from tbh_action.errors import SpecError
from tbh_action.labels import label_value
from tbh_action.rundir import RunDir
from tbh_action.server.hf_job import PaidJob

LONG = "qwen3-coder-30b-a3b-instruct-fp8-terminal-bench-2.1"


def server(nonce: str = "n1", **changes: object) -> PaidJob:
    return replace(PaidJob(kind="server", nonce=nonce, flavor="h200"), **changes)  # type: ignore[arg-type]


def sandbox(job_id: str, **changes: object) -> PaidJob:
    box = PaidJob(kind="sandbox", nonce="", flavor="cpu-basic", job_id=job_id)
    return replace(box, **changes)  # type: ignore[arg-type]


def test_record__servers_by_nonce_sandboxes_by_id() -> None:
    state = new_state("r")
    state.record(server())
    state.record(server(job_id="j1", stage="RUNNING"))
    state.record(server("n2"))
    state.record(sandbox("s1"))
    state.record(sandbox("s2"))
    state.record(sandbox("s1", stage="COMPLETED"))
    assert [(job.nonce, job.job_id) for job in state.servers] == [("n1", "j1"), ("n2", "")]
    assert [(job.job_id, job.stage) for job in state.sandboxes] == [
        ("s1", "COMPLETED"),
        ("s2", "SCHEDULING"),
    ]
    assert [job.job_id for job in state.running] == ["j1", "", "s2"]


def test_save_load__the_same_again(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    state = new_state("r")
    state.passes.append(PassRecord(number=1, kind="run", started_at="t", reason="x"))
    state.record(server(job_id="j", url="https://x", timeout=60.0))
    state.record(sandbox("s", trial="t__a"))
    state.prices = {"h200": 0.1}
    save(run_dir, state)
    assert load(run_dir) == state


def test_load__nothing_there(tmp_path: Path) -> None:
    assert load(RunDir(tmp_path)) is None


def test_load__fields_of_paid_jobs_that_came_later_are_left_out(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    state = new_state("r")
    state.record(server())
    save(run_dir, state)
    document = json.loads(run_dir.state.read_text(encoding="utf-8"))
    document["servers"][0]["colour"] = "red"
    run_dir.state.write_text(json.dumps(document), encoding="utf-8")
    assert load(run_dir) == state


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 99}',
        '{"version": 1}',
        '{"version": 1, "passes": [3]}',
        '{"version": 1, "passes": [{"colour": 1}], "servers": [], "sandboxes": []}',
    ],
)
def test_load__damaged_is_one_line(tmp_path: Path, text: str) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.state.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(run_dir)
    assert str(run_dir.state) in caught.value.message
    assert "\n" not in caught.value.message


@given(st.text(min_size=1, max_size=120))
def test_belongs_to__a_run_finds_its_own(name: str) -> None:
    run_id = new_state(name).run_id
    assert label_value(run_id) == run_id, "the label is the id, nothing of it is cut"
    assert belongs_to(run_id, name)
    assert belongs_to(label_value(name), name), "a controller's label is the bare name"


@given(st.text(min_size=1, max_size=120), st.text(min_size=1, max_size=120))
def test_belongs_to__and_never_anothers(one: str, other: str) -> None:
    assert belongs_to(new_state(other).run_id, one) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("demo", "demo2"),
        ("demo", "demo-abcdef"),
        ("demo", "demo-202612"),
        ("demo", "Demo"),
        ("a b", "a-b"),
        ("a/b", "a-b"),
        ("a", "a-"),
        (LONG, LONG + "-low"),
        ("x" * 60, "x" * 61),
        ("x" * 70 + "a", "x" * 70 + "b"),
    ],
)
def test_belongs_to__look_alikes(one: str, other: str) -> None:
    assert not belongs_to(new_state(other).run_id, one)
    assert not belongs_to(new_state(one).run_id, other)


@pytest.mark.parametrize(
    "label",
    ["", "demo-1", "demo--12345", "demo--1234567", "demo--ABCDEF", "xdemo--abcdef", "demo-"],
)
def test_belongs_to__labels_of_others(label: str) -> None:
    assert not belongs_to(label, "demo")


def test_new_state__two_runs_of_one_name_differ() -> None:
    assert new_state("r").run_id != new_state("r").run_id
    assert RunState(run_id="r", started_at="t").running == []
