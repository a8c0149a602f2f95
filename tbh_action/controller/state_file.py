"""A run as one tar file, so that the next leg can go on elsewhere (`--state FILE.tar`)."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from tbh_action.errors import IncompleteError, SpecError
from tbh_action.rundir import RunDir

_SPEC: Final = "spec.json"
_UNPACKED: Final = ".unpacked.new"


def pack(run_dir: RunDir, file: Path) -> None:
    """Writes the whole run directory to `file`, replacing it as a whole.

    Files and directories only: what tasks left as links or devices is no part of a result.

    Raises:
        IncompleteError: it cannot be written; the run directory still holds everything.
    """
    file = file.expanduser().absolute()
    new = file.with_name(f".{file.name}.new")
    left_out = {run_dir.root / ".lock", file.resolve(), new.resolve()}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(new, "w") as tar:
            for path in _entries(run_dir.root):
                if path not in left_out:
                    _add(tar, path, str(path.relative_to(run_dir.root)))
        new.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise IncompleteError(
            f"Cannot write the state to {file}: {error.strerror or error}; "
            f"the run itself is in {run_dir.root}."
        ) from error


def unpack(file: Path, run_dir: RunDir) -> bool:
    """Puts the run in `file` into `run_dir`, all of it or nothing. False when there is no file, or
    the directory holds a run already (which then counts: it is never older than what it was
    unpacked from).

    Raises:
        SpecError: the file is no such tar file.
    """
    file = file.expanduser()
    if not file.exists() or run_dir.spec.exists():
        return False
    folder = run_dir.root / _UNPACKED
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with tarfile.open(file, "r:") as tar:
            tar.extractall(folder, filter=_checked)  # noqa: S202 (that is what the filter is for)
        if not (folder / _SPEC).is_file():
            raise tarfile.TarError("it has no spec.json")
        # The spec comes last: without it the next call starts this again.
        for entry in sorted(folder.iterdir(), key=lambda path: path.name == _SPEC):
            _replace(entry, run_dir.root / entry.name)
    except (OSError, tarfile.TarError) as error:
        raise SpecError(f"{file} holds no state of a run: {error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def _entries(root: Path) -> Iterator[Path]:
    """Everything below `root` in a fixed order, a directory before what is in it."""
    for folder, directories, files in os.walk(root, onerror=_raise):
        directories.sort()
        for name in sorted(directories + files):
            yield Path(folder) / name


def _raise(error: OSError) -> None:
    raise error


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """`tar.add` would write a file with two names once, and a link in place of the other."""
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = status.st_mode & 0o777, int(status.st_mtime)
    if S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    elif S_ISREG(status.st_mode):
        entry.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(entry, file)


def _checked(entry: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """The "data" filter refuses paths that leave the directory; `pack` writes no links either."""
    if not (entry.isreg() or entry.isdir()):
        raise tarfile.SpecialFileError(entry)
    if entry.name.startswith("/"):
        raise tarfile.AbsolutePathError(entry)
    return tarfile.data_filter(entry, folder)


def _replace(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    source.replace(target)
