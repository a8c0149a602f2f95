"""The same command again: nothing paid when nothing is left, and nothing stuck after a torn file
or a full disk."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_TASKS
from tbh_action.policy.shard import shard_of
from tests.integration.runs import outcomes, results, start, tasks, tbh

pytestmark = pytest.mark.slow

NAMES = ("hello-file", "count-errors")
RUN = ("run", "--recipe", str(DEMO_MODEL_RECIPE), "--path", str(DEMO_TASKS), *tasks(*NAMES))
ALL_PASSED = dict.fromkeys(NAMES, "passed")


def servers(hub: LoopbackHub) -> int:
    return sum(job["kind"] == "server" for job in hub.jobs())


def test_run__a_whole_run_asked_for_again_costs_nothing(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        code, said = tbh(hub, *RUN, "--run-dir", "r", cwd=tmp_path)
        assert code == 0, said
        before = len(hub.jobs())
        for command in ((*RUN, "--run-dir", "r"), ("resume", "r")):
            code, said = tbh(hub, *command, cwd=tmp_path)
            assert code == 0, said
            assert "complete: nothing is left to run" in said
        assert len(hub.jobs()) == before
        assert len(results(tmp_path / "r")["passes"]) == 1


def test_resume__a_shard_that_was_stopped(tmp_path: Path) -> None:
    shard = f"{shard_of('hello-file', 2)}/2"
    with LoopbackHub() as hub:
        arguments = (*RUN, "--run-dir", "r", "--shard", shard)
        code, said = tbh(hub, *arguments, "--max-cost", "0.0001", cwd=tmp_path)
        assert code == 4, said
        code, said = tbh(hub, "resume", "r", cwd=tmp_path)
        assert code == 0, said
    assert outcomes(tmp_path / "r")["hello-file"] == "passed"
    assert len(outcomes(tmp_path / "r")) == sum(f"{shard_of(name, 2)}/2" == shard for name in NAMES)


@pytest.mark.parametrize("torn", [("config.json",), ("result.json", "lock.json")])
def test_run__goes_on_after_harbors_files_were_torn(tmp_path: Path, torn: tuple[str, ...]) -> None:
    """With the real Harbor, which refuses such a job: one of two attempts is there already."""
    with LoopbackHub() as hub:
        command = (*RUN, "--run-dir", "r")
        code, said = tbh(hub, *command, cwd=tmp_path)
        assert code == 0, said
        job = tmp_path / "r" / "harbor" / "job"
        (lost,) = job.glob("hello-file__*")
        lost.rename(tmp_path / "elsewhere")
        ledger = tmp_path / "r" / "attempts.jsonl"
        kept = [
            line for line in ledger.read_text(encoding="utf-8").splitlines() if "hello" not in line
        ]
        ledger.write_text("\n".join(kept) + "\n", encoding="utf-8")
        for name in torn:
            (job / name).write_bytes((job / name).read_bytes()[:100])
        (trial,) = job.glob("count-errors__*")
        (trial / "config.json").write_bytes(b"")
        code, said = tbh(hub, *command, cwd=tmp_path)
        assert code == 0, said
        assert "put right what was torn in Harbor's files" in said
        assert hub.alive() == []
    assert outcomes(tmp_path / "r") == ALL_PASSED
    assert len(list(job.glob("count-errors__*"))) == 1, "what was earned is not done again"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which can be filled."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1100m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can make a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Takes every byte."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 20, 512):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


@pytest.mark.parametrize("event", ["pass_started", "agent-start"])
def test_run__a_full_disk_is_one_line_and_the_run_goes_on_later(
    tmp_path: Path, small_disk: Path, event: str
) -> None:
    run_dir = small_disk / "r"
    with LoopbackHub(settings={"model_thinking": 0.3}) as hub:
        process = start(hub, *RUN, "--run-dir", str(run_dir), cwd=tmp_path)
        deadline = time.monotonic() + 60
        while f'"event": "{event}"' not in text_of(run_dir / "events.jsonl"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        fill(small_disk)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 4, said
        assert "Traceback" not in said
        last = said.strip().splitlines()[-1]
        assert last.startswith("Error: Cannot go on: No space left on device.")
        assert hub.wait_until_idle(5), "nothing paid is left"
        (small_disk / "filler").unlink()
        code, said = tbh(hub, *RUN, "--run-dir", str(run_dir), cwd=tmp_path)
        assert code == 0, said
        assert hub.alive() == []
    assert outcomes(run_dir) == ALL_PASSED


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
