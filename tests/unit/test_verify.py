"""Each way to change a published result is seen, also when the manifest was made to agree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tbh_action.commands.verify import verify_command
from tbh_action.errors import SpecError
from tbh_action.publishing.bundle import MANIFEST, file_facts, make_bundle
from tbh_action.publishing.verify import verify
from tbh_action.redact import Redactor
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring import ledger
from tbh_action.scoring.fingerprint import fingerprint_of
from tbh_action.scoring.results import dumps
from tests.published import CASE, again, finished_run

Tamper = Callable[[Path], None]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that nobody may change; see `copy`."""
    root = tmp_path_factory.mktemp("verify")
    run_dir = finished_run(root / "run-a", tasks=12)
    return make_bundle(run_dir, root / "bundle", redactor=Redactor()).root


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / "copy"))


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    write_json(path, document)


def edit_results(root: Path, change: Callable[[Any], Any]) -> None:
    path = root / "results.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(dumps(document), encoding="utf-8")


def edit_line(root: Path, change: Callable[[dict[str, Any]], Any], *, where: str) -> None:
    path = root / "attempts.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["failure_class"] == where:
            change(line)
            break
    else:
        raise AssertionError(where)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def a_trial(root: Path, reward: float) -> Path:
    for path in sorted(root.glob("harbor/job/*/result.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if (result.get("verifier_result") or {}).get("rewards") == {"reward": reward}:
            return path
    raise AssertionError(reward)


def sign(root: Path) -> None:
    """Makes the manifest agree with what is there now."""
    facts = dict(sorted(file_facts(root)))
    edit(
        root / MANIFEST,
        lambda manifest: manifest.update(
            files={name: {"sha256": sha, "bytes": size} for name, (sha, size) in facts.items()}
        ),
    )


def changed_reward(root: Path) -> None:
    edit(a_trial(root, 0.0), lambda r: r["verifier_result"]["rewards"].update(reward=1.0))


def removed_trial(root: Path) -> None:
    shutil.rmtree(a_trial(root, 0.0).parent)


def removed_trial_and_its_line(root: Path) -> None:
    trial = a_trial(root, 0.0).parent
    path = root / "attempts.jsonl"
    lines = [line for line in path.read_text().splitlines(True) if trial.name not in line]
    path.write_text("".join(lines), encoding="utf-8")
    shutil.rmtree(trial)


def removed_archived_trial(root: Path) -> None:
    shutil.rmtree(next(root.glob("archive/pass-1/*")))


def added_trial(root: Path) -> None:
    source = a_trial(root, 1.0).parent
    target = source.with_name(f"{source.name.rpartition('__')[0]}__zzzzzzz")
    shutil.copytree(source, target)


def added_trial_and_its_line(root: Path) -> None:
    added_trial(root)
    run_dir = RunDir(root)
    ledger.reconcile(run_dir, pass_number=2)


def other_fingerprint(root: Path) -> None:
    edit_results(root, lambda r: r.update(fingerprint="0" * 64))


def other_fields(root: Path) -> None:
    edit_results(root, lambda r: r["fingerprint_fields"].update(agent_timeout_multiplier=1.0))


def other_fields_and_their_fingerprint(root: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["fingerprint_fields"]["agent_timeout_multiplier"] = 1.0
        document["fingerprint"] = fingerprint_of(document["fingerprint_fields"])

    edit_results(root, change)


def other_tasks_in_the_plan(root: Path) -> None:
    edit(root / "tasks.json", lambda document: document["tasks"].pop())


def line_with_another_reward(root: Path) -> None:
    edit_line(root, lambda line: line.update(reward=1.0 - line["reward"]), where="none")


def line_called_infrastructure(root: Path) -> None:
    def change(line: dict[str, Any]) -> None:
        line.update(failure_class="infrastructure", scored=False, retryable=True)

    edit_line(root, change, where="none")


def line_called_scored(root: Path) -> None:
    edit_line(root, lambda line: line.update(scored=True, reward=1.0), where="infrastructure")


def other_counts(root: Path) -> None:
    edit_results(root, lambda r: r["counts"].update(passed=r["counts"]["passed"] + 1))


def other_rate(root: Path) -> None:
    edit_results(root, lambda r: r["rates"].update(all=r["rates"]["all"] + 0.001))


def other_row(root: Path) -> None:
    edit_results(root, lambda r: r["tasks"][0].update(status="passed", reward=1.0))


def removed_row(root: Path) -> None:
    edit_results(root, lambda r: r["tasks"].pop(0))


TAMPERS: list[Tamper] = [
    changed_reward,
    removed_trial,
    removed_trial_and_its_line,
    removed_archived_trial,
    added_trial,
    added_trial_and_its_line,
    other_fingerprint,
    other_fields,
    other_fields_and_their_fingerprint,
    other_tasks_in_the_plan,
    line_with_another_reward,
    line_called_infrastructure,
    line_called_scored,
    other_counts,
    other_rate,
    other_row,
    removed_row,
]


def test_verify__what_was_published_agrees(bundle: Path) -> None:
    verification = verify(bundle)
    assert verification.differences == ()
    assert verification.notes == ()
    assert verification.trials > 12


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: tamper.__name__)
def test_verify__sees_each_change_by_the_manifest(copy: Path, tamper: Tamper) -> None:
    tamper(copy)
    assert any("manifest" in text for text in verify(copy).differences)


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: tamper.__name__)
def test_verify__sees_each_change_when_the_manifest_agrees(copy: Path, tamper: Tamper) -> None:
    tamper(copy)
    sign(copy)
    differences = verify(copy).differences
    assert differences
    assert not any("manifest" in text.casefold() for text in differences)


def test_verify__names_what_differs(copy: Path) -> None:
    changed_reward(copy)
    sign(copy)
    result = CliRunner().invoke(verify_command, [str(copy)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert [
        line for line in lines if "attempts.jsonl says reward is 0.0, its result says 1.0" in line
    ]
    assert [line for line in lines if line.startswith("results.json: counts.passed is")]
    assert lines[-1] == f"run-a: {len(lines) - 1} differences."


def test_verify__a_file_that_was_added_or_changed_besides(copy: Path) -> None:
    (copy / "note.txt").write_text("trust me", encoding="utf-8")
    (copy / "report" / "summary.md").write_text("100 %", encoding="utf-8")
    assert verify(copy).differences == (
        "note.txt is here, but not in the manifest",
        "report/summary.md was changed: it has another SHA-256 than in the manifest",
    )


def test_verify__no_manifest_is_a_difference(copy: Path) -> None:
    (copy / MANIFEST).unlink()
    assert len(verify(copy).differences) == 1


def test_verify__a_result_that_is_a_link_is_not_followed(copy: Path, tmp_path: Path) -> None:
    path = a_trial(copy, 1.0)
    target = tmp_path / "elsewhere.json"
    shutil.move(path, target)
    path.symlink_to(target)
    sign(copy)
    assert verify(copy).differences


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda r: r["tasks"][0].pop("trial"), "tasks.0.trial is missing"),
        (lambda r: r.update(timeline={}), "timeline.trials is missing"),
        (lambda r: r["counts"].update(planned=10**400), "counts.planned is a huge number"),
    ],
)
def test_verify__results_of_another_shape_are_no_traceback(
    copy: Path, edit: Callable[[dict[str, Any]], Any], said: str
) -> None:
    edit_results(copy, edit)
    sign(copy)
    with pytest.raises(SpecError, match=said):
        verify(copy)


def test_verify__a_run_of_this_machine_is_not_a_published_one(tmp_path: Path) -> None:
    run_dir = finished_run(tmp_path / "run-a", tasks=3)
    run_dir.state.write_text("{}", encoding="utf-8")
    with pytest.raises(SpecError, match="only what `tbh publish` made can be verified"):
        verify(run_dir.root)


def test_verify__no_bundle_at_all(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        verify(tmp_path / "absent")
    with pytest.raises(SpecError, match=r"results\.json is missing"):
        verify(tmp_path)


def test_verify__an_interrupted_trial_proves_nothing_and_costs_nothing(tmp_path: Path) -> None:
    run_dir = finished_run(tmp_path / "run-a", tasks=3)
    shutil.copytree(next(CASE.glob("adaptive*")), run_dir.archive(1) / "adaptive__0000002")
    (run_dir.archive(1) / "adaptive__0000002" / "result.json").unlink()
    new = ledger.reconcile(run_dir, pass_number=1)
    assert [attempt.failure_class for attempt in new] == ["interrupted"]
    ledger.append_attempts(run_dir.attempts, [replace(new[0], task="terminal-bench/unplanned")])
    root = make_bundle(run_dir, tmp_path / "b", redactor=Redactor()).root
    verification = verify(root)
    assert verification.differences == ()
    assert verification.notes == (
        "1 trials were interrupted and left no result; they score nothing.",
    )


def test_verify__an_outage_that_only_the_run_saw_is_a_note(tmp_path: Path) -> None:
    run_dir = finished_run(tmp_path / "run-a", tasks=12)
    path = run_dir.attempts
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    timeout = next(line for line in lines if line["failure_class"] == "timeout")
    timeout |= {"failure_class": "infrastructure", "scored": False, "retryable": True}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(timeout) + "\n")
    again(run_dir)
    root = make_bundle(run_dir, tmp_path / "b", redactor=Redactor()).root
    verification = verify(root)
    assert verification.differences == ()
    assert len(verification.notes) == 1
