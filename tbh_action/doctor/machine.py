"""What this machine has: Harbor, git-lfs, tmux, disk, loopback, namespaces."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from tbh_action.doctor.check import Check, fail, ok, warn

HARBOR: Final = (0, 26)
_PIN: Final = "pip install 'harbor[hf-sandbox]>=0.26,<0.27'"
_GIB: Final = 1024**3


def check_harbor() -> Check:
    """Is the Harbor that tbh was written for installed?"""
    try:
        return judge_harbor(metadata.version("harbor"))
    except metadata.PackageNotFoundError:
        return judge_harbor(None)


def judge_harbor(version: str | None) -> Check:
    """Harbor's files and hooks change between minor versions: another one is refused."""
    if version is None:
        return fail("Harbor", "not installed beside tbh", _PIN)
    parts = version.split(".")
    if tuple(int(part) if part.isdigit() else -1 for part in parts[:2]) != HARBOR:
        return fail("Harbor", f"{version} is not the 0.26 that tbh knows", _PIN)
    return ok("Harbor", version)


def check_git_lfs() -> Check:
    """Without git-lfs Harbor goes on with pointer files in place of the tasks' data."""
    cure = "apt-get install git-lfs, or brew install git-lfs; then `git lfs install`"
    if shutil.which("git") is None:
        return fail("git-lfs", "git itself is missing", cure.replace("git-lfs", "git git-lfs", 1))
    if shutil.which("git-lfs") is None:
        return fail("git-lfs", "missing: tasks would get pointer files for their data", cure)
    done = _run(["git", "lfs", "version"])
    if done is None or done.returncode != 0:
        return fail("git-lfs", "installed, but `git lfs version` fails", cure)
    return ok("git-lfs", done.stdout.split()[0] if done.stdout.split() else "there")


def check_tmux() -> Check:
    """Only the demo's sandboxes run on this machine; the Hub's bring their own tmux."""
    if shutil.which("tmux"):
        return ok("tmux", "there")
    return warn("tmux", "missing: `tbh demo` needs it", "apt-get install tmux, brew install tmux")


def check_isolation() -> Check:
    """Can the demo's sandboxes get a file system of their own on this machine?"""
    if os.geteuid() == 0 and _works(["unshare", "--mount", "--propagation", "private", "true"]):
        return ok("isolation", "mount namespaces (unshare)")
    if _works(["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]):
        return ok("isolation", "bubblewrap")
    return warn(
        "isolation",
        "neither unshare nor bwrap works: `tbh demo` cannot isolate its sandboxes",
        "apt-get install bubblewrap, or run as root on Linux; runs on the Hub don't need it",
    )


def check_disk(directory: Path) -> Check:
    """Trials, logs and the dataset's checkout need room."""
    place = directory.expanduser().absolute()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        return fail("disk", f"{place} cannot be written to", "give another --run-dir")
    return judge_disk(shutil.disk_usage(place).free, place)


def judge_disk(free: int, place: Path) -> Check:
    """`free`: bytes. A full run's job directory has been seen to take some gigabytes."""
    words = f"{free / _GIB:.1f} GiB free at {place}"
    if free < 1 * _GIB:
        return fail("disk", words, "free some, or give another --run-dir")
    if free < 5 * _GIB:
        return warn("disk", words, "a full run's trials and logs may need 5 GiB")
    return ok("disk", words)


def check_loopback() -> Check:
    """Can Harbor reach a port of ours on 127.0.0.1? The gateway and the controller listen there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            with socket.create_connection(address, timeout=5):
                pass
    except OSError as error:
        return fail("gateway", f"127.0.0.1 cannot be used: {error}", "allow loopback connections")
    return judge_proxy(os.environ)


def judge_proxy(environ: Mapping[str, str]) -> Check:
    """A proxy that is not told to leave loopback alone would get the gateway's calls."""
    proxy = _variable(environ, "http_proxy") or _variable(environ, "all_proxy")
    spared = {part.strip() for part in _variable(environ, "no_proxy").split(",")}
    if proxy and not spared & {"*", "127.0.0.1", "127.0.0.0/8"}:
        return fail(
            "gateway",
            "HTTP_PROXY is set and covers 127.0.0.1",
            "add 127.0.0.1,localhost to NO_PROXY",
        )
    return ok("gateway", "loopback works")


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _works(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    done = _run(command)
    return done is not None and done.returncode == 0


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=20, encoding="utf-8"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
