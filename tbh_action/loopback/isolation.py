"""How a sandbox gets namespaces of its own on this machine, or why it can't.

Mount and PID namespaces come from util-linux's `unshare`: as root directly, else in a user
namespace, else through a sudo that asks for no password (as on GitHub's runners, whose kernel
refuses user namespaces). This keeps tasks apart and cleans up after them. It is no wall against
hostile code: the loopback Hub runs on a developer's machine or in CI, with tasks that are known.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tbh_action.errors import NotStartedError

SERVER_FILE: Final = Path(__file__).with_name("sbx_server.py")
_UNSHARE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_PRIVATE: Final = ("--propagation", "private", "--")


def candidates(*, root: bool, sudo: bool) -> list[tuple[str, ...]]:
    """The ways to try, best first, as the beginnings of a command line."""
    if root:
        return [(*_UNSHARE, *_PRIVATE)]
    ways: list[tuple[str, ...]] = [(*_UNSHARE, "--map-root-user", *_PRIVATE)]
    if sudo:
        ways.append(("sudo", "-n", *_UNSHARE, *_PRIVATE))
    return ways


def server_command(way: tuple[str, ...]) -> list[str]:
    """The command that runs one sandbox's server as process 1 of its namespaces."""
    return [*way, sys.executable, "-I", "-S", "-B", str(SERVER_FILE)]


@functools.cache
def launcher() -> tuple[str, ...]:
    """The first way that works here, tried once.

    Raises:
        NotStartedError: none does; the message says what would help.
    """
    if sys.platform != "linux":
        raise NotStartedError(
            "The loopback Hub's sandboxes need Linux namespaces: run it on Linux, or in a Linux "
            "container or virtual machine started with the rights to mount."
        )
    if shutil.which("unshare") is None:
        raise NotStartedError(
            "The loopback Hub's sandboxes need the command `unshare`: install util-linux."
        )
    refusals = []
    for way in candidates(root=os.geteuid() == 0, sudo=shutil.which("sudo") is not None):
        refusal = try_way(way)
        if refusal is None:
            return way
        refusals.append(refusal)
    raise NotStartedError(
        "This system forbids the mount and PID namespaces that the loopback Hub's sandboxes need "
        f"({'; '.join(refusals)}). Run it as root, or allow user namespaces: "
        "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, "
        "`--privileged` for a container."
    )


def try_way(way: tuple[str, ...]) -> str | None:
    """None when a sandbox's file system can be built this way, else why not."""
    with tempfile.TemporaryDirectory(prefix="tbh-check-") as root:
        question = json.dumps({"check": True, "root": root}) + "\n"
        try:
            done = subprocess.run(
                server_command(way),
                input=question,
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{way[0]}: {error}"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or ["no word"]
    return f"{way[0]}: {lines[-1]}"
