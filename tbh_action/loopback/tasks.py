"""The demo tasks: where they lie, which image stands for which, and their git repository."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tbh_action.errors import NotStartedError

DEMO_TASKS: Final = Path(__file__).with_name("demo_tasks")
DEMO_REPO: Final = "datasets/demo/terminal-tasks"
DEMO_REPO_URL: Final = f"https://huggingface.co/{DEMO_REPO}"
DEMO_MODEL_RECIPE: Final = Path(__file__).with_name("demo-model.toml")
_LFS: Final = ("*.bin",)
_WHEN: Final = "2026-01-05T12:00:00Z"


def task_of_image(image: str) -> str:
    """The task that an image is for: `ghcr.io/tbh-demo/fix-git:1` → `fix-git`."""
    return image.rsplit("/", 1)[-1].split("@", maxsplit=1)[0].split(":", maxsplit=1)[0]


def image_build(image: str) -> str | None:
    """The shell script that makes the contents of a demo image, None for any other image."""
    script = DEMO_TASKS / task_of_image(image) / "environment" / "build.sh"
    if "/tbh-demo/" not in image or not script.is_file():
        return None
    return script.read_text(encoding="utf-8")


@functools.cache
def instructions() -> dict[str, str]:
    """Task name → instruction, for the demo tasks."""
    return {
        file.parent.name: file.read_text(encoding="utf-8").strip()
        for file in sorted(DEMO_TASKS.glob("*/instruction.md"))
    }


def make_repository(root: Path, tasks: Path = DEMO_TASKS, name: str = DEMO_REPO) -> Path:
    """A bare git repository of `tasks` at `root/name`, as the Hub would serve it: the tasks under
    `tasks/`, the `*.bin` files in Git LFS. The commit is the same each time.

    Raises:
        NotStartedError: git is missing or fails.
    """
    bare, work = root / name, root / "work"
    bare.mkdir(parents=True)
    shutil.copytree(tasks, work / "tasks", ignore=shutil.ignore_patterns("README.md"))
    lines = [f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in _LFS]
    (work / ".gitattributes").write_text("".join(lines), encoding="utf-8")
    for pattern in _LFS:
        for file in sorted(work.rglob(pattern)):
            _to_lfs(file, bare)
    git = functools.partial(_git, work)
    _git(bare, "init", "-q", "--bare", "-b", "main")
    # A shallow clone without blobs, and the fetch of a commit by its hash, as Harbor does both.
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        _git(bare, "config", key, "true")
    git("init", "-q", "-b", "main")
    # The files are pointers already: no filter may run over them.
    git("-c", "core.attributesFile=/dev/null", "-c", "filter.lfs.clean=cat", "add", ".")
    git("-c", "filter.lfs.clean=cat", "commit", "-q", "-m", "Demo tasks")
    git("push", "-q", "--no-verify", str(bare), "main")
    shutil.rmtree(work)
    return bare


def _to_lfs(file: Path, bare: Path) -> None:
    """Puts the file's bytes into the repository's LFS store, and a pointer in the file's place."""
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    place = bare / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    file.write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(data)}\n",
        encoding="utf-8",
    )


def _git(folder: Path, *arguments: str) -> None:
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "tbh-action",
        "GIT_AUTHOR_EMAIL": "demo@example.com",
        "GIT_AUTHOR_DATE": _WHEN,
        "GIT_COMMITTER_NAME": "tbh-action",
        "GIT_COMMITTER_EMAIL": "demo@example.com",
        "GIT_COMMITTER_DATE": _WHEN,
    }
    try:
        subprocess.run(
            ["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise NotStartedError("git is missing; install it (and git-lfs).") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["no word"]
        raise NotStartedError(f"git {arguments[0]} failed: {said[-1]}") from error


def write_tasks(
    folder: Path, count: int, *, seconds: Sequence[float] = (0.0,), agent_timeout: int = 120
) -> None:
    """`count` more tasks, `task-000` and so on, that the scripted model solves, each keeping its
    sandbox busy for about one of `seconds` (in turn): for measurements that need many."""
    for number in range(count):
        busy = seconds[number % len(seconds)]
        name = f"task-{number:03d}"
        place = folder / name
        for part in ("tests", "environment"):
            (place / part).mkdir(parents=True, exist_ok=True)
        files = {
            "task.toml": _TASK_TOML.format(name=name, agent_timeout=float(agent_timeout)),
            "instruction.md": (
                f"Write {number} to `/app/answer.txt`. These commands do it:\n\n"
                f"```sh\nsleep {busy:g}; echo {number} > /app/answer.txt\n```\n"
            ),
            "environment/Dockerfile": "FROM debian:12-slim\nWORKDIR /app\n",
            "tests/test.sh": (
                "#!/bin/bash\n"
                f'if [ "$(cat /app/answer.txt)" = {number} ]; then reward=1; else reward=0; fi\n'
                "echo $reward > /logs/verifier/reward.txt\n"
            ),
        }
        for path, text in files.items():
            (place / path).write_text(text, encoding="utf-8")
        (place / "tests" / "test.sh").chmod(0o755)


_TASK_TOML: Final = """\
schema_version = "1.1"

[task]
name = "demo/{name}"
description = "Write one number to a file."

[metadata]
difficulty = "easy"

[verifier]
timeout_sec = 60.0

[agent]
timeout_sec = {agent_timeout}

[environment]
build_timeout_sec = 60.0
docker_image = "ghcr.io/tbh-demo/{name}:1"
cpus = 1
memory_mb = 512
storage_mb = 1024
"""
