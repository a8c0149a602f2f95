"""Driving the real `tbh` against a loopback Hub: what the tests of whole runs share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_REPO_URL

TBH = (sys.executable, "-m", "tbh_action")
DEMO = ("--recipe", str(DEMO_MODEL_RECIPE), "--repo", DEMO_REPO_URL)


def tasks(*names: str) -> list[str]:
    """`--include-task` for each name."""
    return [word for name in names for word in ("--include-task", name)]


def start(
    hub: LoopbackHub, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """`tbh ARGUMENTS` in a clean environment (no TBH_* or GITHUB_* of the caller's)."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TBH_", "GITHUB_", "OPENAI_"))
    }
    return subprocess.Popen(
        [*TBH, *arguments],
        cwd=cwd,
        env=clean | hub.environment() | dict(env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def tbh(
    hub: LoopbackHub, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The exit code and everything that was printed."""
    process = start(hub, *arguments, cwd=cwd, env=env)
    said, _ = process.communicate(timeout=200)
    return process.returncode, said


def results(run_dir: Path) -> dict[str, Any]:
    """The run's results.json."""
    document: dict[str, Any] = json.loads((run_dir / "results.json").read_text(encoding="utf-8"))
    return document


def outcomes(run_dir: Path) -> dict[str, str]:
    """Task → status, or class where it is unscored."""
    return {
        row["task"].removeprefix("demo/"): row["class"]
        if row["status"] == "errored"
        else row["status"]
        for row in results(run_dir)["tasks"]
    }


def files_with(secret: str, root: Path) -> list[str]:
    """The files below `root` that hold `secret`."""
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    ]
