"""What a user gets wrong is one line, the right exit code, and nothing paid."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_REPO_URL, DEMO_TASKS
from tbh_action.policy.shard import shard_of
from tests.integration.runs import tasks, tbh

pytestmark = pytest.mark.slow

RECIPE = ("--recipe", str(DEMO_MODEL_RECIPE))
ONE = ("--path", str(DEMO_TASKS), *tasks("hello-file"))
RUN = ("run", *RECIPE, *ONE)
REPO = ("run", *RECIPE, "--repo")
ENDPOINT = ("run", "--endpoint", "http://127.0.0.1:9/v1")
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with what the cases name."""
    world = tmp_path_factory.mktemp("world")
    (world / "empty").mkdir()
    (world / "mine").mkdir()
    (world / "mine" / "thesis.tex").touch()
    info = world / "other-harbor" / "harbor-0.27.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: harbor\nVersion: 0.27.1\n", encoding="utf-8"
    )
    for name, line in (("no-image", "docker_image"), ("small", "")):
        shutil.copytree(DEMO_TASKS / "hello-file", world / name / "hello-file")
        toml = world / name / "hello-file" / "task.toml"
        kept = toml.read_text(encoding="utf-8").splitlines()
        if line:
            kept = [text for text in kept if not text.startswith(line)]
        else:
            kept = ["memory_mb = 999999" if text.startswith("memory") else text for text in kept]
        toml.write_text("\n".join(kept), encoding="utf-8")
    shutil.copytree(DEMO_TASKS / "hello-file", world / "pointer" / "hello-file")
    (world / "pointer" / "hello-file" / "tests" / "data.bin").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", encoding="utf-8"
    )
    for name in ("git", "git-lfs"):
        _path_without(name, world / f"without-{name}")
    return world


def _path_without(command: str, folder: Path) -> None:
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(":")):
        for file in place.iterdir() if place.is_dir() else ():
            if file.name != command and not (folder / file.name).is_symlink():
                (folder / file.name).symlink_to(file)


# name → (arguments, environment, exit code, what the one line says)
CASES: dict[str, tuple[tuple[str, ...], dict[str, str], int, str]] = {
    "wrong token": (RUN, {"HF_TOKEN": "hf_wrong"}, 3, "token: the Hub does not know it →"),
    "no token": (RUN, {"HF_TOKEN": ""}, 3, "token: there is none → set HF_TOKEN"),
    "unreachable Hub": (RUN, {"HF_ENDPOINT": NOWHERE}, 3, f"the Hub at {NOWHERE} cannot be asked"),
    "unknown flavor": ((*RUN, "--flavor", "h2000"), {}, 3, "'h2000' → did you mean h200"),
    "unknown sandbox flavor": (
        (*RUN, "--ek", "flavor=cpu-upgrad"), {}, 3, "did you mean cpu-upgrade?",
    ),
    "unknown namespace": ((*RUN, "--namespace", "demo-orgg"), {}, 3, "did you mean demo-org?"),
    "unknown recipe": (
        ("run", "--recipe", "qwen3.8-27b-fp", *ONE), {}, 2, "Did you mean 'qwen3.8-27b-fp8'?",
    ),
    "recipe file missing": (
        ("run", "--recipe", "my.toml", *ONE), {}, 2, "Cannot read the recipe my.toml",
    ),
    "unknown benchmark": (
        ("run", *RECIPE, "--benchmark", "terminal-bench"), {}, 2, "no benchmark recipe",
    ),
    "model without a recipe": (
        ("run", "--model", "a/b", *ONE), {}, 2, "There is no recipe that serves a/b",
    ),
    "recipe of another model": (
        (*RUN, "--model", "a/b"), {}, 2, "serves demo/Scripted-1B, not a/b",
    ),
    "name of two lines": ((*RUN, "--name", "a\n::error::b"), {}, 2, "no name of a directory"),
    "no model": ((*ENDPOINT, *ONE), {}, 2, "Which model?"),
    "endpoint without http": (
        ("run", "--endpoint", "host:80", "--model", "m", *ONE), {}, 2, "https://host:8000/v1",
    ),
    "address as kwarg": (
        (*RUN, "--ak", "api_base=https://h/v1"), {}, 2, "the server's address is --endpoint URL",
    ),
    "secret as kwarg": (
        (*RUN, "--ak", "api_key=hf_secret"), {}, 2, "is the variable OPENAI_API_KEY",
    ),
    "NaN as kwarg": ((*RUN, "--ak", "temperature=NaN"), {}, 2, "only JSON values"),
    "unknown agent": ((*RUN, "--agent", "terminus-9"), {}, 3, "terminus-9 is not valid"),
    "unknown agent option": ((*RUN, "--ak", "nonsense=1"), {}, 3, "Unknown option 'nonsense'"),
    "unknown environment": ((*RUN, "--env", "dokcer"), {}, 3, "environment.type 'dokcer'"),
    "unknown environment option": (
        (*RUN, "--ek", "nonsense=1"), {}, 3, "Unknown option 'nonsense'",
    ),
    "environment that is not there": (
        (*RUN, "--env", "daytona"), {"DAYTONA_API_KEY": ""}, 3, "Harbor cannot plan this job",
    ),
    "task without an image": (
        ("run", *RECIPE, "--path", "no-image"), {}, 3,
        "demo/hello-file: no prebuilt docker_image in task.toml. Leave out with --exclude-task.",
    ),
    "task too large": (
        ("run", *RECIPE, "--path", "small"), {}, 3, "of memory, too little for demo/hello-file",
    ),
    "LFS pointers": (
        ("run", *RECIPE, "--path", "pointer"), {}, 3, "tests/data.bin is a pointer) → run `git lfs",
    ),
    "no git-lfs": ((*REPO, DEMO_REPO_URL), {"PATH": "without-git-lfs"}, 3, "git-lfs: missing"),
    "no git": ((*REPO, DEMO_REPO_URL), {"PATH": "without-git"}, 3, "git itself is missing"),
    "another Harbor": (RUN, {"PYTHONPATH": "other-harbor"}, 3, "0.27.1 is not the 0.26"),
    "repo that does not answer": ((*REPO, "https://127.0.0.1:9/x/y"), {}, 3, "check --repo"),
    "repo that is none": ((*REPO, "not a repository"), {}, 3, "check --repo"),
    "unknown revision": (
        (*REPO, DEMO_REPO_URL, "--benchmark-revision", "v9"), {}, 3, "has no 'v9' → check --benchm",
    ),
    "folder without tasks": (
        ("run", *RECIPE, "--path", "empty"), {}, 3, "empty holds no task → --path wants a folder",
    ),
    "folder that is none": (("run", *RECIPE, "--path", "no"), {}, 3, "no holds no task →"),
    "two sources": (
        (*REPO, DEMO_REPO_URL, "--path", "empty"), {}, 2, "exactly one source of tasks",
    ),
    "nothing matches": (
        ("run", *RECIPE, "--path", str(DEMO_TASKS), *tasks("x-*")), {}, 3, "No tasks matched",
    ),
    "all left out": ((*RUN, "--exclude-task", "*"), {}, 3, "No task is left → check"),
    "foreign files": ((*RUN, "--run-dir", "mine"), {}, 2, "is not empty and holds no run of ours"),
    "a file": ((*RUN, "--run-dir", "mine/thesis.tex"), {}, 2, "is a file; give a directory"),
    "below a file": ((*RUN, "--run-dir", "mine/thesis.tex/x"), {}, 2, "is a file"),
    "no place for files": ((*RUN, "--run-dir", "/proc/x"), {}, 3, "cannot be used: No such file"),
    "name too long": ((*RUN, "--name", "x" * 300), {}, 3, "cannot be used: File name too long"),
    "name with a slash": ((*RUN, "--name", "a/b"), {}, 2, "a path is given by --run-dir"),
    "bad shard": ((*RUN, "--shard", "3/2"), {}, 2, "--shard takes i/n"),
    "no baseline": ((*RUN, "--baseline", "no.json"), {}, 2, "There is nothing at no.json"),
    "no state": ((*RUN, "--state", "mine/thesis.tex"), {}, 2, "holds no state of a run"),
    "resume nothing": (("resume", "empty"), {}, 2, "neither a run of ours"),
    "merge nothing": (("merge", "empty"), {}, 2, "results.json is missing"),
    "cleanup, wrong token": (("cleanup",), {"HF_TOKEN": "hf_no"}, 3, "Cannot list the Hub's jobs"),
    "cleanup, no Hub": (("cleanup",), {"HF_ENDPOINT": NOWHERE}, 3, "Cannot list the Hub's jobs"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error__is_one_line(name: str, hub: LoopbackHub, world: Path) -> None:
    arguments, env, expected, words = CASES[name]
    for key in ("PATH", "PYTHONPATH"):
        if key in env:
            env = env | {key: str(world / env[key])}
    env = {"HF_TOKEN_PATH": "/nonexistent"} | env
    before = sorted(world.glob("mine/*"))
    code, said = tbh(hub, *arguments, cwd=world, env=env)
    shutil.rmtree(world / "runs", ignore_errors=True)
    assert code == expected, said
    *progress, error = said.strip().splitlines()
    assert error.startswith("Error: ")
    assert words in error
    assert all("resolving the tasks of" in line for line in progress), said
    assert "Traceback" not in said
    assert "hf_secret" not in said
    assert hub.jobs() == []
    assert sorted(world.glob("mine/*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server-timeout", "4 hours"), "'4 hours' is not a duration; write it like 4h, 5h30m"),
        (("--time-budget", "soon"), "'soon' is not a duration"),
        (("--max-cost", "nan"), "'nan' is no finite number"),
        (("--n-concurent", "3"), "No such option '--n-concurent'. (Did you mean"),
        (("--templates", "no"), "Directory 'no' does not exist"),
    ],
)
def test_usage_error__names_the_option(
    arguments: tuple[str, ...], words: str, hub: LoopbackHub, world: Path
) -> None:
    code, said = tbh(hub, *RUN, *arguments, cwd=world)
    assert code == 2
    error = said.strip().splitlines()[-1]
    assert error.startswith("Error: ")
    assert words in error
    assert "Traceback" not in said
    assert hub.jobs() == []


def test_error__all_problems_at_once(hub: LoopbackHub, world: Path) -> None:
    code, said = tbh(
        hub, "run", *RECIPE, "--path", "no-image", "--flavor", "h2000", "--namespace", "nobody",
        "--ek", "flavor=cpu-upgrad", cwd=world,
    )  # fmt: skip
    shutil.rmtree(world / "runs")
    assert code == 3
    head, *problems = said[said.index("Error: ") :].strip().splitlines()
    assert head == "Error: Nothing was started; 4 problems:"
    assert all(line.startswith("  - ") for line in problems)
    for words in ("namespace", "server flavor", "sandbox flavor", "docker_image"):
        assert sum(words in line for line in problems) == 1
    assert hub.jobs() == []


def test_run__another_question_in_the_same_directory(hub: LoopbackHub, world: Path) -> None:
    """A run's directory is made by the first question, though its start failed."""
    arguments = (*RUN, "--run-dir", "kept")
    code, _ = tbh(hub, *arguments, "--shard", shard_without("hello-file"), cwd=world)
    assert code == 0, "an empty shard is whole: its siblings have the score"
    assert hub.jobs() == []
    for other, words in (
        (("--n-attempts", "2"), "n_attempts, shard"),
        (("--shard", "1/1"), "(different: shard)"),
        (("--flavor", "cpu-upgrade"), "server.flavor"),
    ):
        code, said = tbh(hub, *arguments, *other, cwd=world)
        assert code == 2
        assert said.startswith("Error: ")
        assert said.count("\n") == 1
        assert "kept holds another run (different: " in said
        assert words in said
    assert hub.jobs() == []


def shard_without(task: str) -> str:
    return f"{3 - shard_of(task, 2)}/2"


def test_run__what_is_wrong_leaves_a_directory_that_the_right_call_may_use(
    hub: LoopbackHub, world: Path
) -> None:
    arguments = (*RUN, "--run-dir", "again", "--shard", shard_without("hello-file"))
    code, _ = tbh(hub, *arguments, "--flavor", "h2000", cwd=world)
    assert code == 3
    code, said = tbh(hub, *arguments, cwd=world)
    assert code == 0, said
    assert "another run" not in said


def test_dry_run__starts_nothing_and_shows_no_token(hub: LoopbackHub, world: Path) -> None:
    env, calls = {"OPENAI_API_KEY": "sk-secret"}, len(hub.calls())
    code, said = tbh(hub, *RUN, "--dry-run", cwd=world, env=env)
    assert code == 0
    assert "hf jobs run" in said
    assert "harbor run -c" in said
    for secret in (hub.token, "sk-secret"):
        assert secret not in said
    assert len(hub.calls()) == calls
    assert not (world / "runs").exists()


def test_run__a_broken_template_is_found_before_anything_is_paid(
    hub: LoopbackHub, world: Path
) -> None:
    mine = world / "mine-templates"
    mine.mkdir()
    (mine / "comment.md.jinja").write_text("{{ marker }}\n{{ results.nothing }}", encoding="utf-8")
    code, said = tbh(hub, *RUN, "--templates", str(mine), cwd=world)
    assert code == 2
    assert said.startswith("Error: The template comment.md.jinja")
    assert said.count("\n") == 1
    assert hub.jobs() == []
