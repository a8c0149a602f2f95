"""A recipe tried against the loopback Hub: every path leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tbh_action.errors import IncompleteError, NotStartedError
from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE
from tbh_action.recipes.check import Answer, Tried, bounded, new_check_dir, remarks, try_recipe
from tbh_action.rundir import RunDir
from tbh_action.spec import RunSpec
from tests.integration.hub_stand import HubStand, hub_stand, spec, wait_for

CHECK = "from tbh_action.commands.recipe import recipe_command as c; c()"


def tried(hub: HubStand, asked: RunSpec, run_dir: RunDir, stop_after: float = 60.0) -> Tried:
    async def work() -> Tried:
        stopped = asyncio.Event()
        asyncio.get_running_loop().call_later(stop_after, stopped.set)
        return await try_recipe(
            hub.api(), asked, run_dir, say=lambda _: None, stopped=stopped, poll=0.05
        )

    return asyncio.run(work())


def test_try_recipe__answers_and_is_stopped(tmp_path: Path) -> None:
    with hub_stand() as hub:
        found = tried(hub, spec(), RunDir(tmp_path))
        assert found.answer.text
        assert found.usd is not None
        (job,) = hub.jobs()
        assert hub.alive() == []
    assert job["kind"] == "server"
    state = (tmp_path / "state.json").read_text(encoding="utf-8")
    assert job["id"] in state
    assert "CANCELED" in state


def test_try_recipe__a_server_that_dies_is_said_and_stopped(tmp_path: Path) -> None:
    with hub_stand(model_loading=30.0) as hub:
        with pytest.raises(NotStartedError, match="did not answer within"):
            tried(hub, spec(load_timeout=1), RunDir(tmp_path))
        wait_for(lambda: hub.alive() == [])


def test_try_recipe__stopped_early(tmp_path: Path) -> None:
    with hub_stand(model_loading=30.0) as hub:
        with pytest.raises(IncompleteError, match="was stopped"):
            tried(hub, spec(), RunDir(tmp_path), stop_after=1.0)
        wait_for(lambda: hub.alive() == [])


def test_bounded__lives_no_longer_than_needed() -> None:
    server = bounded(spec(timeout=4 * 3600, load_timeout=600, replicas=3)).server
    assert server is not None
    assert server.timeout == 600 + 300 + 600
    assert server.replicas == 1
    short = bounded(spec(timeout=60, load_timeout=600)).server
    assert short is not None
    assert short.timeout == 60


@pytest.mark.parametrize(
    ("text", "window", "finish", "words"),
    [
        ("391", 32768, "stop", []),
        ("<think>hm</think>391", 32768, "stop", ["reasoning parser"]),
        ("", 32768, "length", ["cut at its token limit"]),
        ("391", 4096, "stop", ["the server reports 4,096"]),
    ],
)
def test_remarks__what_to_look_at(text: str, window: int, finish: str, words: list[str]) -> None:
    asked = spec()
    model = asked.model.model_copy(update={"context_length": 32768})
    answer = Answer(text=text, thoughts=False, tokens=3, seconds=1.0, finish_reason=finish)
    seen = Tried(seconds_to_answer=1.0, context_length=window, answer=answer, usd=0.1)
    found = remarks(asked.model_copy(update={"model": model}), seen)
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_new_check_dir__cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(NotStartedError, match="Cannot make the directory"):
        new_check_dir(tmp_path / "file", "org/m")


@pytest.mark.slow
def test_check_command__sigterm_cancels_the_server(tmp_path: Path) -> None:
    with LoopbackHub(settings={"model_loading": 60.0}) as hub:
        command = [sys.executable, "-c", CHECK, "check", str(DEMO_MODEL_RECIPE)]
        process = subprocess.Popen(
            [*command, "--run-dir", str(tmp_path)],
            env={**os.environ, **hub.environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for(hub.alive, 30)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGTERM, output
        assert "The check was stopped." in output
        assert hub.alive() == []
