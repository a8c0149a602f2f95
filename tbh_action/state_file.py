"""A run as one tar file, so that the next leg can go on elsewhere (`--state FILE.tar`)."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tbh_action.errors import NotStartedError, SpecError
from tbh_action.rundir import RunDir


def pack(run_dir: RunDir, file: Path) -> None:
    """Writes the whole run directory to `file`, replacing it as a whole.

    Raises:
        NotStartedError: it cannot be written.
    """
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(new, "w") as tar:
            for entry in sorted(run_dir.root.iterdir()):
                if entry.name != ".lock":
                    tar.add(entry, arcname=entry.name, filter=_plain)
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise NotStartedError(f"Cannot write the state to {file}: {error}.") from error


def unpack(file: Path, run_dir: RunDir) -> bool:
    """Puts the run in `file` into `run_dir`. False when there is no file, or the directory holds
    a run already (which then counts: it is never older than what it was unpacked from).

    Raises:
        SpecError: the file is no such tar file.
    """
    if not file.exists() or run_dir.spec.exists():
        return False
    try:
        with tarfile.open(file) as tar:
            # "data" refuses links that leave the directory, devices and absolute paths.
            tar.extractall(run_dir.root, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise SpecError(f"{file} holds no state of a run: {error}.") from error
    return True


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and directories only: what tasks left as links or devices is no part of a result."""
    if not (entry.isreg() or entry.isdir()):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
