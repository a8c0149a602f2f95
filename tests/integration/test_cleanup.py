"""`tbh cleanup` cancels what is provably ours, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from tbh_action.commands.cleanup import carries
from tbh_action.controller.state import new_state, save
from tbh_action.labels import KIND_LABEL, PROJECT, PROJECT_LABEL, RUN_LABEL
from tbh_action.loopback.client import LoopbackHub
from tbh_action.rundir import RunDir
from tests.integration.runs import tbh as run_tbh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


@pytest.fixture
def hub(shared: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoopbackHub:
    """A Hub without jobs; the working directory is empty."""
    shared.reset()
    monkeypatch.chdir(tmp_path)
    return shared


def job(hub: LoopbackHub, **labels: str) -> str:
    """A running job with these labels (`_` in a key stands for `-`); its id."""
    info = HfApi(endpoint=hub.url, token=hub.token).run_job(
        image="demo/server:1",
        command=["demo-model-server", "--model", "demo/model"],
        flavor="t4-small",
        labels={key.replace("_", "-"): value for key, value in labels.items()},
        expose=[8000],
        timeout=600,
    )
    return str(info.id)


def ours(hub: LoopbackHub, run_id: str, **more: Any) -> str:
    return job(hub, **{PROJECT_LABEL: PROJECT, RUN_LABEL: run_id} | more)


def alive(hub: LoopbackHub) -> set[str]:
    return {each["id"] for each in hub.alive()}


def tbh(hub: LoopbackHub, *arguments: str) -> tuple[int, str]:
    return run_tbh(hub, "cleanup", *arguments, cwd=Path.cwd())


def test_cleanup__only_the_run_that_is_named(hub: LoopbackHub) -> None:
    server, sandbox = ours(hub, "demo--abc123"), ours(hub, "demo--abc123", hf_sandbox="1")
    old = ours(hub, "demo--000000")
    others = [
        ours(hub, "demo2--abc123"),
        ours(hub, "demo-low--abc123"),
        ours(hub, "demo-202612"),
        ours(hub, "demo--abc12"),
        ours(hub, "xdemo--abc123"),
        job(hub, tbh_run="demo--abc123"),
        job(hub, project="tbh-actions", tbh_run="demo--abc123"),
        job(hub, project="tbh-action"),
        job(hub, project="terminal-bench-harness", model="qwen3_8-27b-fp8"),
        job(hub),
    ]
    code, said = tbh(hub, "--run", "demo")
    assert code == 0, said
    assert alive(hub) == set(others)
    for cancelled in (server, sandbox, old):
        assert f"{cancelled} on t4-small" in said
    assert "Cancelled 3; they cost $1.20 an hour." in said
    assert tbh(hub, "--run", "demo") == (0, "Nothing of ours is running.\n")
    assert alive(hub) == set(others)


def test_cleanup__where_the_run_is_known_a_namesake_elsewhere_lives(hub: LoopbackHub) -> None:
    state = new_state("demo")
    save(RunDir(Path("runs/demo").resolve()), state)
    mine, namesake = ours(hub, state.run_id), ours(hub, "demo--abc123")
    code, _ = tbh(hub, "--run", "demo")
    assert code == 0
    assert alive(hub) == {namesake}, f"not {mine}"


def test_cleanup__a_damaged_state_is_no_obstacle(hub: LoopbackHub) -> None:
    Path("runs/demo").mkdir(parents=True)
    Path("runs/demo/state.json").write_text("{", encoding="utf-8")
    ours(hub, "demo--abc123")
    assert tbh(hub, "--run", "demo")[0] == 0
    assert hub.alive() == []


def test_cleanup__without_a_question_only_lists(hub: LoopbackHub) -> None:
    mine = ours(hub, "demo--abc123")
    job(hub)
    code, said = tbh(hub)
    assert code == 0
    assert [mine in line for line in said.splitlines()] == [False, True]
    assert len(hub.alive()) == 2


def test_cleanup__by_age(hub: LoopbackHub) -> None:
    ours(hub, "demo--abc123")
    stranger = job(hub)
    assert tbh(hub, "--older-than", "1h") == (0, "Nothing of ours is running.\n")
    assert len(hub.alive()) == 2
    assert tbh(hub, "--older-than", "0.001s")[0] == 0
    assert alive(hub) == {stranger}


def test_cleanup__age_alone_ends_no_submitted_run(hub: LoopbackHub) -> None:
    """A controller lives for days, and its server is as old as it may be."""
    ours(hub, "days", **{KIND_LABEL: "controller"})
    ours(hub, "days--abc123")
    other = ours(hub, "days-not--abc123")
    code, said = tbh(hub, "--older-than", "0.001s")
    assert code == 0
    assert "left alone: days has a controller" in said
    assert "`tbh cancel days`" in said
    assert other not in alive(hub)
    assert len(hub.alive()) == 2
    assert tbh(hub, "--run", "days", "--older-than", "0.001s")[0] == 0
    assert hub.alive() == []


def test_cleanup__what_cannot_be_cancelled_is_said(hub: LoopbackHub) -> None:
    mine = ours(hub, "demo--abc123")
    hub.set_faults([{"call": "jobs.cancel", "action": {"status": 500}}])
    code, said = tbh(hub, "--run", "demo")
    hub.set_faults([])
    assert code == 3
    assert f"could NOT cancel server {mine}" in said
    assert said.splitlines()[-1].startswith("Error: 1 jobs still run; try again")


def test_cleanup__no_token_is_shown(hub: LoopbackHub) -> None:
    ours(hub, "demo--abc123")
    assert hub.token not in tbh(hub, "--run", "demo")[1]


@pytest.mark.parametrize(
    ("label", "run_id", "expected"),
    [
        ("demo--abc123", None, True),
        ("demo--abc123", "demo--abc123", True),
        ("demo--abc123", "demo--000000", False),
        ("demo", None, True),
        ("demo", "demo--abc123", True),
        ("", None, False),
        ("", "demo--abc123", False),
    ],
)
def test_carries__by_name_or_by_id(label: str, run_id: str | None, *, expected: bool) -> None:
    assert carries(label, "demo", run_id) is expected
