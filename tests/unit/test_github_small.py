"""The smaller parts: names of runs, legs, releases, issues, notes, the scripts of the action."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tbh_action import __version__
from tbh_action.commands.comment import comment_command
from tbh_action.errors import SpecError
from tbh_action.github.api import GitHubApi
from tbh_action.github.changelog import FILE, notes
from tbh_action.github.context import Context
from tbh_action.github.entry import with_name
from tbh_action.github.inputs import Call
from tbh_action.github.issues import update_issue
from tbh_action.github.legs import plan
from tbh_action.github.marker import Marker
from tbh_action.loopback.github import LoopbackGitHub
from tbh_action.publishing.releases import Evaluated, Release, new_releases

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tbh_action/github"
SHA = "0123456789abcdef0123456789abcdef01234567"


# --- names --------------------------------------------------------------------------------------


def named(command: str, *arguments: str, run_dir: str = "", job: str = "a") -> list[str]:
    context = Context(repository="o/r", job=job, run_id="12")
    return with_name(Call(command=command, arguments=arguments), context, run_dir)


def test_with_name__run_and_cleanup_of_one_job_agree_and_two_jobs_differ() -> None:
    (run,) = named("run")
    (cleanup,) = named("cleanup")
    assert run.removeprefix("--name=") == cleanup.removeprefix("--run=")
    assert run.startswith("--name=ci-12-")
    assert named("run", job="b") != [run]


def test_with_name__a_given_name_stays_and_other_commands_get_none() -> None:
    assert named("run", "--name=x") == ["--name=x"]
    assert named("merge", "--fail-on=never", "--", "a") == ["--fail-on=never"]


def test_with_name__cleanup_follows_the_runs_directory(tmp_path: Path) -> None:
    assert named("cleanup", "--run=x", run_dir=f"{tmp_path}/mine") == [
        "--run=mine",
        f"--runs-dir={tmp_path}",
    ]


# --- legs ---------------------------------------------------------------------------------------


def test_plan__shards_name_and_legs() -> None:
    env = {"TBH_SHARDS": "3", "TBH_LEGS": " 2 ", "TBH_RECIPE": "recipes/My Model.toml"}
    found = plan(env | {"GITHUB_REPOSITORY": "o/r"})
    assert json.loads(found["shards"]) == [1, 2, 3]
    assert (found["count"], found["legs"]) == ("3", "2")
    assert found["name"].startswith("My-Model-")
    assert found["name"] != plan(env | {"GITHUB_REPOSITORY": "o/other"})["name"]
    assert found["name"] != plan(env | {"TBH_MODEL_REVISION": "v2"})["name"]


@pytest.mark.parametrize("text", ["0", "21", "-1", "1.5", "x", "٢"])
def test_plan__a_wrong_number_names_its_input(text: str) -> None:
    with pytest.raises(SpecError, match="input `shards`"):
        plan({"TBH_SHARDS": text})


def test_plan__a_shared_server_is_one_more_part_to_clean_up() -> None:
    each, shared = ({"TBH_SHARDS": "2", "TBH_SERVER": text} for text in ("", "shared"))
    assert json.loads(plan(each)["parts"]) == ["s1", "s2"]
    assert json.loads(plan(shared)["parts"]) == ["s1", "s2", "server"]
    assert (plan(each)["server"], plan(shared)["server"]) == ("each", "shared")


@pytest.mark.parametrize(
    "env", [{"TBH_SERVER": "one"}, {"TBH_SERVER": "shared", "TBH_ENDPOINT": "https://x/v1"}]
)
def test_plan__a_server_that_cannot_be_names_its_input(env: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="input `server`"):
        plan(env)


# --- releases -----------------------------------------------------------------------------------


def release(revision: str, ref: str = "main", model: str = "o/m") -> Release:
    return Release(model=model, revision=revision, ref=ref)


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ([], True),
        ([Evaluated(model="o/m", revision=SHA, benchmark="b")], False),
        ([Evaluated(model="o/m", revision=SHA[:7], benchmark="b")], False),
        ([Evaluated(model="o/m", revision=SHA[:6], benchmark="b")], True),
        ([Evaluated(model="o/m", revision="v1", benchmark="b")], False),
        ([Evaluated(model="o/other", revision=SHA, benchmark="b")], True),
        ([Evaluated(model="o/m", revision="", benchmark="b")], True),
        ([Evaluated(model="o/m", revision=SHA, benchmark="another")], True),
    ],
)
def test_new_releases__by_commit_or_tag(known: list[Evaluated], new: bool) -> None:
    found = new_releases([release(SHA, "v1")], known, benchmark="b")
    assert bool(found) is new


def test_new_releases__main_is_no_revision_and_a_commit_counts_once() -> None:
    known = [Evaluated(model="o/m", revision="main", benchmark="b")]
    both = [release(SHA, "v2"), release(SHA, "v1")]
    assert new_releases([release(SHA)], known, benchmark=None) == [release(SHA)]
    assert new_releases(both, [], benchmark=None) == both[:1]


# --- issues -------------------------------------------------------------------------------------


@pytest.fixture
def hub() -> Iterator[LoopbackGitHub]:
    with LoopbackGitHub() as server:
        yield server


def test_update_issue__opened_updated_closed(hub: LoopbackGitHub) -> None:
    api = GitHubApi("token", url=hub.url)
    marker = Marker(key="0" * 16, run_number=1)

    def write(worse: bool, text: str) -> str:
        body = f"{marker}\n{text}"
        return update_issue(api, "o/r", marker, title="Worse", body=body, worse=worse).action

    assert [write(False, "a"), write(True, "b"), write(True, "c")] == ["none", "opened", "updated"]
    (issue,) = hub.issues
    assert (issue["state"], issue["labels"]) == ("open", [{"name": "terminal-bench"}])
    assert issue["body"].endswith("c")
    assert [write(False, "d"), write(False, "e"), write(True, "f")] == ["closed", "none", "opened"]
    assert [item["state"] for item in hub.issues] == ["closed", "open"]


# --- tbh comment --------------------------------------------------------------------------------


@pytest.fixture
def comment_env(hub: LoopbackGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("GITHUB_", "TBH_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GITHUB_TOKEN", "token")
    monkeypatch.setenv("GITHUB_API_URL", hub.url)


@pytest.mark.usefixtures("comment_env")
def test_comment_command__writes_minimises_and_deletes(hub: LoopbackGitHub, tmp_path: Path) -> None:
    where = ["--repo", "octo/repo", "--pr", "5", "--key", "k"]
    copy = tmp_path / "results.json"
    copy.write_bytes((ROOT / "tests/data/results-sample.json").read_bytes())
    written = CliRunner().invoke(comment_command, [*where, "--results", str(copy)])
    assert written.exit_code == 0, written.output
    (comment,) = hub.comments
    assert "of 89 passed" in comment["body"]
    assert CliRunner().invoke(comment_command, [*where, "--minimise"]).exit_code == 0
    assert hub.minimized == {comment["node_id"]}
    assert CliRunner().invoke(comment_command, [*where, "--delete"]).exit_code == 0
    assert hub.comments == []


@pytest.mark.usefixtures("comment_env")
def test_comment_command__two_states_at_once_are_refused() -> None:
    ended = CliRunner().invoke(comment_command, ["--finish", "--delete"])
    assert ended.exit_code == 2
    assert "Give only one of --finish, --delete" in ended.output


@pytest.mark.usefixtures("comment_env")
def test_comment_command__a_refused_token_warns_and_ends_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    ended = CliRunner().invoke(
        comment_command, ["--repo", "octo/repo", "--pr", "5", "--in-progress"]
    )
    assert ended.exit_code == 0
    assert "the token is not valid" in ended.output


# --- release notes --------------------------------------------------------------------------------


def test_notes__one_section_of_the_changelog() -> None:
    text = "# Changelog\n\n## 1.1.0 (2026-01-02)\n\n- b\n\n## 1.0.0 (2026-01-01)\n\n- a\n"
    assert notes(text, "1.1.0", package="1.1.0") == "- b\n"
    assert notes(text, "1.0.0", package="1.0.0") == "- a\n"


def test_notes__another_version_or_a_missing_section_is_refused() -> None:
    with pytest.raises(SpecError, match=r"The package is 2\.0\.0"):
        notes("", "1.0.0", package="2.0.0")
    with pytest.raises(SpecError, match="has no section"):
        notes("## 1.0.0 (unreleased)\n", "1.0.0", package="1.0.0")


def test_changelog__has_a_section_for_the_version() -> None:
    assert f"## {__version__} (" in FILE.read_text(encoding="utf-8")


# --- scripts --------------------------------------------------------------------------------------


def run_script(name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPTS / name), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_find_python__takes_one_that_is_new_enough(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    ended = run_script("find-python.sh", GITHUB_OUTPUT=str(out), PATH=path)
    assert ended.returncode == 0, ended.stderr
    assert "found=true" in out.read_text(encoding="utf-8")


def test_find_python__an_old_one_does_not_count(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "bin").mkdir()
    for name in ("python3.12", "python3.13", "python3.14", "python3", "python"):
        fake = tmp_path / "bin" / name
        fake.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        fake.chmod(0o755)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    run_script("find-python.sh", GITHUB_OUTPUT=str(out), PATH=path)
    assert out.read_text(encoding="utf-8") == "found=false\n"


def test_install__an_environment_of_the_same_lock_is_used_again(tmp_path: Path) -> None:
    out, venv = tmp_path / "out", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    lock = (ROOT / "requirements.lock").read_bytes()
    stamp = subprocess.run(["cksum"], input=lock, capture_output=True, check=True).stdout
    (venv / ".tbh-action").write_bytes(stamp.strip())
    ended = run_script(
        "install.sh",
        GITHUB_OUTPUT=str(out),
        RUNNER_TEMP=str(tmp_path),
        TBH_ACTION_VENV=str(venv),
        TBH_PYTHON="/nowhere/python",
    )
    assert ended.returncode == 0, ended.stderr
    assert out.read_text(encoding="utf-8") == f"python={venv}/bin/python\nroot={ROOT}\n"


def test_lock__every_package_is_pinned_with_its_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    joined = text.replace("\\\n", " ")
    packages = [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(packages) > 20
    for line in packages:
        assert "==" in line.split()[0], line
        assert "--hash=sha256:" in line, line


def test_store__a_branch_begins_grows_and_is_fetched(tmp_path: Path) -> None:
    bare = tmp_path / "octo/repo"
    bare.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    env = {"GITHUB_SERVER_URL": tmp_path.as_uri(), "GITHUB_REPOSITORY": "octo/repo"}
    first, second = tmp_path / "first", tmp_path / "second"
    assert run_script("store.sh", "fetch", "results", str(first), **env).returncode == 0
    (first / "a").mkdir()
    (first / "a/results.json").write_text("{}", encoding="utf-8")
    pushed = run_script("store.sh", "push", "results", str(first), "add a", **env)
    assert pushed.returncode == 0, pushed.stderr
    assert run_script("store.sh", "fetch", "results", str(second), **env).returncode == 0
    assert (second / "a/results.json").exists()
    again = run_script("store.sh", "push", "results", str(second), "nothing", **env)
    assert "Nothing new" in again.stdout


def test_store__a_repository_that_is_away_is_no_empty_store(tmp_path: Path) -> None:
    env = {"GITHUB_SERVER_URL": tmp_path.as_uri(), "GITHUB_REPOSITORY": "octo/none"}
    assert run_script("store.sh", "fetch", "results", str(tmp_path / "x"), **env).returncode == 3
