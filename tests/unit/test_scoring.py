"""`tbh score` over directories: whatever lies in them, each planned task is counted once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trials import attempt, document, failure, put

import tbh_action
from tbh_action.commands.score import score_command
from tbh_action.errors import SpecError
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring.directory import score_directory, score_job
from tbh_action.scoring.ledger import append_attempts, reconcile
from tbh_action.scoring.results import dumps, read, write

ROOT = Path(__file__).parent.parent.parent
CASES = ROOT / "tests" / "cases" / "jobs"
SCHEMA_FILE = Path(tbh_action.__file__).parent / "scoring" / "results.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text("utf-8")))


def _lock(job: Path, *names: str) -> None:
    job.mkdir(parents=True, exist_ok=True)
    trials = [{"task": {"name": name, "source": None}} for name in names]
    lock = {"harbor": {"version": "0.26.0"}, "trials": trials}
    (job / "lock.json").write_text(json.dumps(lock), encoding="utf-8")


def test_score_job__a_planned_task_without_a_trial_is_a_row(tmp_path: Path) -> None:
    put(tmp_path, "fix-git__a", document("demo/fix-git"))
    _lock(tmp_path, "fix-git", "never-ran")
    results = score_job(tmp_path)
    assert [(row["task"], row["class"]) for row in results["tasks"]] == [
        ("demo/fix-git", "none"),
        ("demo/never-ran", "missing"),
    ]
    assert results["run"]["complete"] is False
    assert results["provenance"] == {"harbor": "0.26.0"}


def test_score_job__an_unreadable_trial_takes_its_tasks_slot(tmp_path: Path) -> None:
    put(tmp_path, "fix-git__a", "{")
    put(tmp_path, "other__a", document("demo/other"))
    _lock(tmp_path, "fix-git", "other")
    results = score_job(tmp_path)
    assert results["counts"] == {"planned": 2, "passed": 1, "failed": 0, "errored": 1}
    assert {row["task"]: row["class"] for row in results["tasks"]}["demo/fix-git"] == "unreadable"


def test_score_job__a_trial_without_result_is_interrupted(tmp_path: Path) -> None:
    directory = put(tmp_path, "fix-git__a", None)
    (directory / "config.json").write_text('{"task": {"path": "x/fix-git"}}', encoding="utf-8")
    results = score_job(tmp_path)
    assert [(row["task"], row["class"]) for row in results["tasks"]] == [("fix-git", "interrupted")]


def test_score_job__a_link_is_not_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "t__a", document("demo/t"))
    job = tmp_path / "job"
    put(job, "x__a", document("demo/x"))
    (job / "t__a").symlink_to(outside)
    inside = put(job, "y__a", None)
    (inside / "result.json").symlink_to(outside / "result.json")
    rows = {row["task"]: row for row in score_job(job)["tasks"]}
    assert rows["t"]["class"] == rows["y"]["class"] == "unreadable"
    assert "symbolic link" in rows["t"]["reason"]


def test_score_job__secrets_and_addresses_of_the_agent_stay_out(tmp_path: Path) -> None:
    kwargs = {"api_base": "https://x", "api_key": "sk-1", "reasoning_effort": "low"}
    config = {"agents": [{"name": "terminus-2", "model_name": "openai/m", "kwargs": kwargs}]}
    put(tmp_path, "t__a", document())
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    results = score_job(tmp_path)
    assert results["agent"] == {"name": "terminus-2", "kwargs": {"reasoning_effort": "low"}}
    assert results["model"]["name"] == "org/m"
    assert "sk-1" not in dumps(results)
    assert results["fingerprint_fields"]["agent.kwargs.reasoning_effort"] == "low"
    moved = kwargs | {"api_base": "https://y"}
    config["agents"][0]["kwargs"] = moved
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert score_job(tmp_path)["fingerprint"] == results["fingerprint"]


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        (
            {"repo": "https://huggingface.co/datasets/o/terminal-bench-2.1@abc"},
            "terminal-bench-2.1",
        ),
        ({"path": "/data/tasks/"}, "tasks"),
        ({"name": "terminal-bench"}, "terminal-bench"),
        ({}, None),
    ],
)
def test_score_job__the_benchmarks_name(
    tmp_path: Path, dataset: dict[str, str], name: str | None
) -> None:
    put(tmp_path, "t__a", document())
    (tmp_path / "config.json").write_text(json.dumps({"datasets": [dataset]}), encoding="utf-8")
    assert score_job(tmp_path)["benchmark"]["name"] == name


def test_score_job__a_broken_lock_is_said(tmp_path: Path) -> None:
    put(tmp_path, "t__a", document())
    (tmp_path / "lock.json").write_text("[]", encoding="utf-8")
    assert any("lock.json" in warning for warning in score_job(tmp_path)["warnings"])


def test_score_job__another_reward_can_be_named(tmp_path: Path) -> None:
    put(tmp_path, "t__a", document(verifier_result={"rewards": {"accuracy": 1}}))
    assert score_job(tmp_path)["counts"]["errored"] == 1
    assert score_job(tmp_path, reward_key="accuracy")["counts"]["passed"] == 1


def test_score_job__logs_explain_what_did_not_pass(tmp_path: Path) -> None:
    failed = put(tmp_path, "f__a", document("demo/f", reward=0.0))
    (failed / "verifier").mkdir()
    (failed / "verifier" / "test-stdout.txt").write_text("x" * 5000 + "the end", encoding="utf-8")
    lost = put(tmp_path, "e__a", document("demo/e", exception_info=failure("SandboxError")))
    (lost / "exception.txt").write_bytes(b"\xffTraceback\n")
    passed = put(tmp_path, "p__a", document("demo/p"))
    (passed / "trial.log").write_text("fine", encoding="utf-8")
    rows = {row["task"]: row for row in score_job(tmp_path, with_logs=True)["tasks"]}
    assert rows["demo/f"]["log_tail"].endswith("the end")
    assert len(rows["demo/f"]["log_tail"]) == 2000
    assert rows["demo/e"]["log_tail"].endswith("Traceback")
    assert rows["demo/p"]["log_tail"] is None


def test_score_directory__says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no directory"):
        score_directory(tmp_path / "absent")
    with pytest.raises(SpecError, match="holds no trials"):
        score_directory(tmp_path)
    job = tmp_path / "jobs" / "one"
    put(job, "t__a", document())
    (job / "result.json").write_text('{"n_total_trials": 1}', encoding="utf-8")
    with pytest.raises(SpecError, match="folder of jobs"):
        score_directory(tmp_path / "jobs")


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path / "run")
    put(run_dir.harbor_job, "fix-git__a", document("demo/fix-git"))
    put(run_dir.archive(1), "other__a", document("demo/other", reward=0.0))
    spec = {
        "model": {"name": "org/m", "revision": "r1"},
        "benchmark": {"name": "b", "repo": "https://x"},
        "agent": {"name": "terminus-2", "kwargs": {}},
        "n_attempts": 1,
    }
    document_ = {"spec": spec, "fingerprint": "f" * 64, "fingerprint_fields": {"a": 1}}
    write_json(run_dir.spec, document_)
    names = ("demo/fix-git", "demo/other", "demo/never")
    write_json(run_dir.tasks, {"tasks": [{"name": name} for name in names]})
    return run_dir


def test_score_run__before_there_are_results(run_dir: RunDir) -> None:
    results = score_directory(run_dir.root)
    assert results["counts"] == {"planned": 3, "passed": 1, "failed": 1, "errored": 1}
    assert results["fingerprint"] == "f" * 64
    assert results["model"] == {"name": "org/m", "revision": "r1"}
    assert [row["pass"] for row in results["tasks"]] == [None, None, 1]
    assert not run_dir.attempts.exists(), "scoring writes nothing"


def test_score_run__counts_the_ledgers_trials_though_harbor_deleted_them(run_dir: RunDir) -> None:
    reconcile(run_dir, 1)
    append_attempts(run_dir.attempts, [attempt("never__a", task="demo/never", pass_number=1)])
    shutil.rmtree(run_dir.harbor_job)
    assert score_directory(run_dir.root)["counts"]["passed"] == 2


def test_score_run__takes_the_facts_from_the_last_results(run_dir: RunDir) -> None:
    first = score_directory(run_dir.root)
    first["provenance"] = {"ci": "x"}
    write(run_dir.results, first)
    put(run_dir.harbor_job, "never__b", document("demo/never"))
    again = score_directory(run_dir.root)
    assert again["provenance"] == {"ci": "x"}
    assert again["counts"]["passed"] == 2


def test_score_directory__results_alone_are_shown_as_they_are(tmp_path: Path) -> None:
    sample = read(ROOT / "tests" / "data" / "results-sample.json")
    write(tmp_path / "results.json", sample)
    assert score_directory(tmp_path) == sample


# --- the command --------------------------------------------------------------------------------


def test_score_command__prints_the_seeds_table() -> None:
    printed = CliRunner().invoke(score_command, [str(CASES / "seed-final")])
    assert printed.exit_code == 0
    for line in (
        "Passed                   53      59.6 %",
        "Failed                   16      18.0 %",
        "Errored (unscored)       20      22.5 %",
        "passed 53 · failed 16 · errored 20 · pass rate without the errored 76.8 %",
        "   16  AgentTimeoutError    timeout        not scored",
        "    3  SandboxError         infrastructure not scored",
        "    1  RemoteProtocolError  infrastructure not scored",
    ):
        assert line in printed.output.splitlines()


def test_score_command__json_is_the_document() -> None:
    printed = CliRunner().invoke(score_command, [str(CASES / "seed-final"), "--json"])
    assert json.loads(printed.output)["counts"]["passed"] == 53


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_score_command__masks_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    token = "hf_" + "a1B2" * 9
    text = (CASES / "secret-in-message" / "t__aaaaaaa" / "result.json").read_text("utf-8")
    put(tmp_path, "t__a", text.replace("@@TOKEN@@", token))
    monkeypatch.setenv("HF_TOKEN", token)
    printed = CliRunner().invoke(score_command, [str(tmp_path), *flags])
    assert printed.exit_code == 0
    assert token not in printed.output


@pytest.mark.parametrize("case", ["hostile-names", "hostile-message"])
def test_score_command__hostile_text_is_inert(case: str) -> None:
    printed = CliRunner().invoke(score_command, [str(CASES / case)]).output
    assert not any(line.lstrip().startswith("::") for line in printed.splitlines())
    assert "\x1b" not in printed
    assert "\u202e" not in printed


def test_score_command__imports_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from tbh_action.cli import main;"
        f"CliRunner().invoke(main, ['score', {str(CASES / 'seed-final')!r}]);"
        "print([m for m in ('harbor', 'huggingface_hub', 'pydantic', 'rich', 'jinja2', 'httpx')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- any set of trial documents -----------------------------------------------------------------

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=5,
)
TIMES = st.sampled_from(
    ["2026-08-01T10:00:00Z", "2026-08-01T10:00:00", "2026-08-01T12:00:00+02:00", "9999-12-31"]
)
KINDS = st.sampled_from(["SandboxError", "AgentTimeoutError", "OddError", "\x1b[1m", "\ud800"])
EXCEPTIONS = st.builds(failure, KINDS)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "task_name": st.sampled_from(["demo/a", "demo/b", "demo/\ud800", "c"]) | JUNK,
    "schema_version": st.just(1) | JUNK,
    "started_at": TIMES | JUNK,
    "finished_at": TIMES | JUNK,
    "verifier_result": st.builds(lambda r: {"rewards": {"reward": r}}, JUNK) | JUNK,
    "exception_info": st.none() | EXCEPTIONS | JUNK,
    "agent_result": JUNK,
    "agent_execution": st.fixed_dictionaries({"started_at": TIMES, "finished_at": TIMES}) | JUNK,
    "step_results": st.lists(st.builds(lambda e: {"exception_info": e}, EXCEPTIONS)) | JUNK,
    "task_id": JUNK,
    "agent_info": JUNK,
    "config": JUNK,
}
DOCUMENTS = (
    st.fixed_dictionaries({}, optional=FIELDS)
    | st.fixed_dictionaries(
        {"task_name": st.sampled_from(["demo/a", "demo/b"])},
        optional={name: values for name, values in FIELDS.items() if name != "task_name"},
    )
    | JUNK
)


AGENTS = st.fixed_dictionaries(
    {}, optional={"name": JUNK, "model_name": JUNK, "kwargs": st.dictionaries(st.text(), JUNK)}
)
CONFIGS = JUNK | st.fixed_dictionaries(
    {},
    optional={
        "n_attempts": st.integers(-1, 4) | JUNK,
        "agents": st.lists(AGENTS, max_size=2) | JUNK,
        "datasets": st.lists(st.dictionaries(st.sampled_from(["repo", "path"]), JUNK)) | JUNK,
        "environment": JUNK,
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(DOCUMENTS.map(json.dumps) | st.text(max_size=20) | st.none(), max_size=6),
    st.booleans(),
    st.none() | CONFIGS,
)
def test_score_job__survives_any_documents(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], locked: bool, config: Any
) -> None:
    job = tmp_path_factory.mktemp("job")
    for number, text in enumerate(texts):
        directory = job / f"a__{number}"
        directory.mkdir()
        if text is not None:
            (directory / "result.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    if config is not None:
        (job / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if locked:
        _lock(job, "a", "b", "never")
    results = score_job(job)
    text = dumps(results)
    text.encode("utf-8")
    SCHEMA.validate(json.loads(text, parse_constant=pytest.fail))
    counts = results["counts"]
    assert counts["passed"] + counts["failed"] + counts["errored"] == counts["planned"]
    slots = [(row["task"], row["attempt"]) for row in results["tasks"]]
    assert len(set(slots)) == len(slots) == counts["planned"]
    if locked:
        assert counts["planned"] == 3
        assert {task.rpartition("/")[2] for task, _ in slots} == {"a", "b", "never"}
    elif texts:
        assert counts["planned"] >= 1
    assert score_job(job) == results


def test_score_job__n_attempts_of_the_config_are_the_slots(tmp_path: Path) -> None:
    put(tmp_path, "t__a", document())
    (tmp_path / "config.json").write_text('{"n_attempts": 3}', encoding="utf-8")
    assert [row["class"] for row in score_job(tmp_path)["tasks"]] == ["none", "missing", "missing"]


@pytest.mark.parametrize("said", [0, -1, 10**9, "3", None, True])
def test_score_job__slots_that_cannot_be_are_one(tmp_path: Path, said: Any) -> None:
    put(tmp_path, "t__a", document())
    (tmp_path / "config.json").write_text(json.dumps({"n_attempts": said}), encoding="utf-8")
    assert score_job(tmp_path)["counts"]["planned"] == 1


def test_score_job__more_trials_than_are_here_were_planned(tmp_path: Path) -> None:
    put(tmp_path, "t__a", document())
    (tmp_path / "result.json").write_text('{"n_total_trials": 9}', encoding="utf-8")
    assert any("planned 9 trials" in warning for warning in score_job(tmp_path)["warnings"])
