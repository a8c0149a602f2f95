"""A run, and the command that repeats it: the second asks the very same and gives the same."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tbh_action.controller import spec_file, state
from tbh_action.controller.preflight import known_tasks
from tbh_action.loopback.client import LoopbackHub
from tbh_action.publishing import provenance
from tbh_action.rundir import RunDir
from tests.integration.runs import DEMO, outcomes, results, tasks, tbh

pytestmark = pytest.mark.slow


def with_provenance(run_dir: RunDir) -> Path:
    """The run's results beside what they rest on, as a file."""
    asked, known = spec_file.read_asked(run_dir), state.load(run_dir)
    planned = known_tasks(run_dir)
    assert asked is not None
    assert known is not None
    assert planned is not None
    found = provenance.of_run(run_dir, asked.spec, known, planned)
    path = run_dir.root / "with-provenance.json"
    path.write_text(json.dumps(results(run_dir.root) | {"provenance": found}), encoding="utf-8")
    return path


def test_reproduce__the_printed_command_repeats_the_run(tmp_path: Path) -> None:
    with LoopbackHub(speed=3) as hub:
        first, second = tmp_path / "first", tmp_path / "second"
        asked = [*DEMO, *tasks("fix-git", "lfs-checksum"), "--n-concurrent", "2"]
        code, said = tbh(hub, "run", *asked, "--run-dir", str(first), cwd=tmp_path)
        assert code == 0, said
        file = with_provenance(RunDir(first))
        code, said = tbh(hub, "reproduce", str(file), cwd=tmp_path)
        assert code == 0, said
        (command,) = [line for line in said.splitlines() if line.startswith("tbh run ")]
        assert "--benchmark-revision" in command
        arguments = shlex.split(command)[1:]
        code, said = tbh(hub, *arguments, "--run-dir", str(second), cwd=tmp_path)
        assert code == 0, said
        assert hub.alive() == []
    assert outcomes(second) == outcomes(first)
    ours, theirs = (results(path)["fingerprint_fields"] for path in (first, second))
    differing = {key for key in ours | theirs if ours.get(key) != theirs.get(key)}
    assert differing <= {"benchmark.revision"}


def test_doctor__a_machine_that_can_run_the_demo(tmp_path: Path) -> None:
    with LoopbackHub() as hub:
        code, said = tbh(hub, "doctor", *DEMO, "--json", cwd=tmp_path)
        assert code == 0, said
        rows = {row["name"]: row for row in json.loads(said)}
        assert {row["status"] for row in rows.values()} == {"ok"}, said
        assert rows["dataset files"]["detail"].endswith("fetched to see")
        wrong = {"HF_TOKEN": "hf_wrong"}
        code, said = tbh(hub, "doctor", *DEMO, "--json", cwd=tmp_path, env=wrong)
        assert code == 3
        assert {row["name"]: row["status"] for row in json.loads(said)}["token"] == "fail"
        assert hub.jobs() == []
