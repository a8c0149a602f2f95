"""Are the benchmark's tasks reachable, and do their large files really hold their content?"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tbh_action.doctor.check import Check, fail, ok, warn

if TYPE_CHECKING:
    from tbh_action.spec import BenchmarkSpec

_LIST_TIMEOUT: Final = 60.0
_FETCH_TIMEOUT: Final = 180.0
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def check_dataset(benchmark: BenchmarkSpec) -> Check:
    """The source answers, and has the revision that is asked for."""
    if benchmark.path:
        return _check_path(Path(benchmark.path))
    if benchmark.repo:
        return _check_repository(benchmark.repo, benchmark.revision)
    return ok("dataset", f"{benchmark.dataset} of Harbor's registry, looked up when the run starts")


def _check_path(path: Path) -> Check:
    tasks = len(list(path.glob("*/task.toml"))) if path.is_dir() else 0
    if not tasks:
        return fail("dataset", f"{path} holds no task", "--path wants a folder of */task.toml")
    return ok("dataset", f"{path}: {tasks} tasks")


def _check_repository(repo: str, revision: str | None) -> Check:
    pattern = [] if revision is None or _COMMIT.fullmatch(revision) else [revision]
    done = _git(["ls-remote", "--", repo, *(pattern or ["HEAD"])], timeout=_LIST_TIMEOUT)
    if done is None:
        return fail("dataset", f"{repo} does not answer", "check the network, then try again")
    if done.returncode != 0:
        said = _words(done.stderr)
        return fail("dataset", f"{repo}: {said[:200]}", "check --repo, and that it is public")
    if pattern and not done.stdout.strip():
        return fail("dataset", f"{repo} has no {revision!r}", "check --benchmark-revision")
    commit = done.stdout.split("\t")[0][:10]
    return ok("dataset", f"{repo} at {(revision or commit)[:10]}")


def check_lfs_content(repo: str, revision: str | None = None) -> Check:
    """Fetches the smallest of the repository's LFS files: its bytes are there, not a pointer only.

    Fetches one commit without checking it out: seconds, and no other large file.
    """
    cure = "check git-lfs and the network; the dataset's owner may have lost the files"
    if shutil.which("git-lfs") is None:
        return warn("dataset files", "cannot be looked at without git-lfs", "install git-lfs")
    with tempfile.TemporaryDirectory(prefix="tbh-doctor-") as folder:
        here = Path(folder)
        for step in (
            ["init", "--quiet"],
            ["remote", "add", "origin", repo],
            ["fetch", "--quiet", "--depth", "1", "origin", revision or "HEAD"],
        ):
            done = _git(step, here, _FETCH_TIMEOUT)
            if done is None or done.returncode != 0:
                return warn("dataset files", f"{repo} cannot be fetched to look", cure)
        files = _lfs_files(here)
        if not files:
            return ok("dataset files", "none of them are in LFS")
        size, oid, name = min(files)
        done = _git(
            ["lfs", "fetch", "origin", "FETCH_HEAD", f"--include={name}", "--exclude="],
            here,
            _FETCH_TIMEOUT,
        )
        stored = here / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
        if done is None or done.returncode != 0 or not stored.exists():
            return fail("dataset files", f"LFS does not give {name} ({size} bytes)", cure)
    return ok("dataset files", f"{len(files)} in LFS, {name} fetched to see")


def _lfs_files(repository: Path) -> list[tuple[int, str, str]]:
    """`(size, oid, path)` of each LFS pointer in what was fetched."""
    done = _git(["lfs", "ls-files", "--json", "FETCH_HEAD"], repository, _LIST_TIMEOUT)
    if done is None or done.returncode != 0:
        return []
    files = json.loads(done.stdout or "{}").get("files") or []
    return [(int(file["size"]), str(file["oid"]), str(file["name"])) for file in files]


def _words(stderr: str) -> str:
    """git's own reason: its `fatal:` line, not the advice that follows it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "remote:", "ERROR"))]
    return (fatal or lines or ["git says nothing"])[0]


def _git(
    arguments: list[str], directory: Path | None = None, timeout: float = _LIST_TIMEOUT
) -> subprocess.CompletedProcess[str] | None:
    """git without a prompt for a password; None when it hangs or is missing."""
    # The content is fetched on purpose, one file: a checkout must not fetch them all.
    env = os.environ | {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
