"""`tbh plan` with the real Harbor (which resolves the tasks) and the Hub's own prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_TASKS
from tests.integration.runs import DEMO, tasks, tbh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


def test_plan__demo(hub: LoopbackHub, tmp_path: Path) -> None:
    code, said = tbh(hub, "plan", *DEMO, "--json", cwd=tmp_path)
    assert code == 0, said
    plan = json.loads(said)
    assert plan["n_tasks"] == 11
    assert plan["cannot_run"] == []
    assert 0 < plan["cost"]["low"] < plan["cost"]["high"]
    assert list(tmp_path.iterdir()) == []
    assert not hub.alive()


def test_plan__says_what_cannot_run(hub: LoopbackHub, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    for name in ("fix-git", "word-count"):
        for file in (DEMO_TASKS / name).rglob("*"):
            if file.is_file():
                target = folder / name / file.relative_to(DEMO_TASKS / name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    toml = folder / "fix-git" / "task.toml"
    text = toml.read_text(encoding="utf-8")
    assert "cpus = 1" in text
    toml.write_text(text.replace("cpus = 1", "cpus = 64"), encoding="utf-8")
    code, said = tbh(hub, "plan", *DEMO[:2], "--path", str(folder), cwd=tmp_path)
    assert code == 3
    assert "2 trials of 2 tasks" in said
    assert "too few for demo/fix-git (up to 64)" in said


def test_plan__says_why_there_are_no_tasks(hub: LoopbackHub, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    code, said = tbh(hub, "plan", *DEMO[:2], "--repo", missing, cwd=tmp_path)
    assert code == 3
    assert "check --repo" in said
    assert "ls-remote" not in said


def test_plan__shards_and_history(hub: LoopbackHub, tmp_path: Path) -> None:
    rows = [{"task": "demo/fix-git", "status": "passed", "seconds": 60.0, "superseded": 0}]
    history = tmp_path / "results.json"
    history.write_text(json.dumps({"tasks": rows}), encoding="utf-8")
    code, said = tbh(
        hub, "plan", *DEMO, *tasks("fix-git"), "--history", str(history), "--json", cwd=tmp_path
    )
    assert code == 0, said
    assert json.loads(said)["basis"] == "an earlier run"
    found = [
        json.loads(tbh(hub, "plan", *DEMO, "--shard", f"{n}/2", "--json", cwd=tmp_path)[1])
        for n in (1, 2)
    ]
    assert sum(part["n_tasks"] for part in found) == 11


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shard", "3/2"], "--shard takes i/n"),
        (["--history", "nowhere.json"], "Cannot read --history nowhere.json"),
        (["--include-task", "no-such-task"], "no-such-task"),
    ],
)
def test_plan__one_line_for_a_mistake(
    hub: LoopbackHub, tmp_path: Path, arguments: list[str], words: str
) -> None:
    code, said = tbh(hub, "plan", *DEMO, *arguments, cwd=tmp_path)
    assert code in (2, 3)
    assert words in said
    assert "Traceback" not in said
