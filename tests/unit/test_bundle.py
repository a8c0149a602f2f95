"""The public record of a run: whole, without secrets, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tbh_action.errors import SpecError
from tbh_action.publishing.bundle import make_bundle
from tbh_action.redact import Redactor
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring import results
from tests.published import finished_run

SECRET = "correct-horse-battery"
KNOWS = Redactor.from_environment((SECRET,), environ={})
TOKEN = "hf_" + "a1B2" * 9


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return finished_run(tmp_path / "run-a", tasks=4)


def first_trial(run_dir: RunDir) -> Path:
    return min(path for path in run_dir.harbor_job.iterdir() if path.is_dir())


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_make_bundle__has_each_trial_and_a_manifest_of_each_file(
    run_dir: RunDir, tmp_path: Path
) -> None:
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=Redactor())
    files = contents(bundle.root)
    trials = list(run_dir.root.glob("harbor/job/*/result.json"))
    archived = list(run_dir.root.glob("archive/pass-*/*/result.json"))
    assert len(archived) == 1
    for path in (*trials, *archived):
        assert files[path.relative_to(run_dir.root).as_posix()] == path.read_bytes()
    listed = json.loads(files.pop("MANIFEST.json"))["files"]
    assert listed == {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in files.items()
    }
    assert {"results.json", "spec.json", "attempts.jsonl", "report/index.html"} <= files.keys()
    assert not {"state.json", "events.jsonl", "harbor.log"} & files.keys()


def test_make_bundle__the_same_run_gives_the_same_bytes(run_dir: RunDir, tmp_path: Path) -> None:
    one = make_bundle(run_dir, tmp_path / "1", redactor=Redactor())
    two = make_bundle(run_dir, tmp_path / "2", redactor=Redactor())
    assert contents(one.root) == contents(two.root)


def test_make_bundle__no_secret_and_no_local_path_in_any_file(
    run_dir: RunDir, tmp_path: Path
) -> None:
    path = first_trial(run_dir) / "result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["agent_result"]["note"] = f"used {SECRET} and {TOKEN}"
    write_json(path, document)
    with run_dir.attempts.open("a", encoding="utf-8") as file:
        line = json.loads(run_dir.attempts.read_text(encoding="utf-8").splitlines()[0])
        file.write(json.dumps({**line, "message": f"token {TOKEN}"}) + "\n")
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=KNOWS)
    for name, data in contents(bundle.root).items():
        assert SECRET.encode() not in data, name
        assert TOKEN.encode() not in data, name
        assert b"/home/someone" not in data, name
    assert any("masked" in warning for warning in bundle.warnings)


def test_make_bundle__a_private_key_in_a_message_spoils_no_document(
    run_dir: RunDir, tmp_path: Path
) -> None:
    path = first_trial(run_dir) / "result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["agent_result"]["note"] = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc"
    write_json(path, document)
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=KNOWS)
    data = (bundle.root / path.relative_to(run_dir.root)).read_bytes()
    assert json.loads(data)["verifier_result"] == document["verifier_result"]
    assert b"MIIabc" not in data


def test_make_bundle__refuses_a_spec_with_a_key_in_clear(run_dir: RunDir, tmp_path: Path) -> None:
    spec = json.loads(run_dir.spec.read_text(encoding="utf-8"))
    spec["spec"]["agent"]["kwargs"]["api_key"] = "0123456789abcdef"
    write_json(run_dir.spec, spec)
    with pytest.raises(SpecError, match=r"key in clear at spec\.agent\.kwargs\.api_key"):
        make_bundle(run_dir, tmp_path / "b", redactor=Redactor())


def test_make_bundle__leaves_out_a_config_with_a_key_and_masks_it_in_the_result(
    run_dir: RunDir, tmp_path: Path
) -> None:
    trial = first_trial(run_dir)
    config = {"agent": {"env": {"OPENAI_API_KEY": "0123456789abcdef"}, "name": "a"}}
    write_json(trial / "config.json", config)
    result = json.loads((trial / "result.json").read_text(encoding="utf-8"))
    write_json(trial / "result.json", {**result, "config": config})
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=Redactor())
    name = trial.relative_to(run_dir.root).as_posix()
    assert "key in clear" in bundle.left_out[f"{name}/config.json"]
    published = json.loads((bundle.root / name / "result.json").read_text(encoding="utf-8"))
    assert published["config"] == {"agent": {"env": {"OPENAI_API_KEY": "***"}, "name": "a"}}
    assert [w for w in bundle.warnings if "rotate it" in w and "OPENAI_API_KEY" in w]
    assert not [data for data in contents(bundle.root).values() if b"0123456789abcdef" in data]


def test_make_bundle__takes_a_clean_config_and_a_result_that_is_no_json(
    run_dir: RunDir, tmp_path: Path
) -> None:
    trial = first_trial(run_dir)
    write_json(trial / "config.json", {"agent": {"env": {"OPENAI_API_KEY": "${OPENAI_API_KEY}"}}})
    (trial / "result.json").write_bytes(b'{"task_name": "' + TOKEN.encode() + b"\xff")
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=Redactor())
    name = trial.relative_to(run_dir.root).as_posix()
    assert (bundle.root / name / "config.json").exists()
    assert (bundle.root / name / "result.json").read_bytes() == b'{"task_name": "***\xff'


def test_make_bundle__trajectories_only_when_asked_and_no_links(
    run_dir: RunDir, tmp_path: Path
) -> None:
    trial = first_trial(run_dir)
    write_json(trial / "agent" / "trajectory.json", {"steps": [SECRET]})
    secret = tmp_path / "passwd.json"
    write_json(secret, {"a": 1})
    (trial / "agent" / "trajectory.2.json").symlink_to(secret)
    name = (trial / "agent").relative_to(run_dir.root).as_posix()
    without = make_bundle(run_dir, tmp_path / "1", redactor=KNOWS)
    assert not [path for path in without.files if "trajectory" in path]
    bundle = make_bundle(run_dir, tmp_path / "2", redactor=KNOWS, trajectories=True)
    assert [path for path in bundle.files if "trajectory" in path] == [f"{name}/trajectory.json"]
    assert "symbolic link" in bundle.left_out[f"{name}/trajectory.2.json"]
    assert json.loads((bundle.root / name / "trajectory.json").read_text()) == {"steps": ["***"]}


def test_make_bundle__a_result_without_a_ledger_cannot_be_checked(
    run_dir: RunDir, tmp_path: Path
) -> None:
    run_dir.attempts.unlink()
    with pytest.raises(SpecError, match="no trials to be checked by"):
        make_bundle(run_dir, tmp_path / "b", redactor=Redactor())


def test_make_bundle__results_are_those_of_the_run(run_dir: RunDir, tmp_path: Path) -> None:
    bundle = make_bundle(run_dir, tmp_path / "b", redactor=Redactor())
    assert results.read(bundle.root / "results.json") == results.read(run_dir.results)
