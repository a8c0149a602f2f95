"""A run as one tar file: whole or not at all, and nothing hostile in it does anything."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tbh_action.controller.state_file import pack, unpack
from tbh_action.errors import IncompleteError, SpecError
from tbh_action.rundir import RunDir, open_run_dir


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """A run with a trial in the job and one in the archive."""
    run_dir = RunDir(tmp_path / "runs" / "a")
    for place in (run_dir.harbor_job / "t__a", run_dir.archive(1) / "t__b"):
        (place / "agent").mkdir(parents=True)
        (place / "result.json").write_text("{}", encoding="utf-8")
    for path in (run_dir.spec, run_dir.state, run_dir.events, run_dir.root / ".lock"):
        path.write_text(path.name, encoding="utf-8")
    return run_dir


def tree(root: Path) -> dict[str, str]:
    """Path → content; a directory's is `/`."""
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8") if path.is_file() else "/"
        for path in sorted(root.rglob("*"))
    }


def test_pack__unpack_gives_the_same_but_the_lock(run_dir: RunDir, tmp_path: Path) -> None:
    pack(run_dir, tmp_path / "out" / "s.tar")
    other = open_run_dir(tmp_path / "b")
    assert unpack(tmp_path / "out" / "s.tar", other) is True
    expected = tree(run_dir.root)
    del expected[".lock"]
    assert tree(other.root) == expected
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["s.tar"]


def test_pack__a_file_inside_the_run_does_not_hold_itself(run_dir: RunDir) -> None:
    file = run_dir.root / "s.tar"
    pack(run_dir, file)
    size = file.stat().st_size
    pack(run_dir, file)
    assert file.stat().st_size == size
    with tarfile.open(file) as tar:
        assert not [name for name in tar.getnames() if "s.tar" in name]


def test_pack__links_and_pipes_are_left_out_names_of_one_file_are_not(
    run_dir: RunDir, tmp_path: Path
) -> None:
    trial = run_dir.harbor_job / "t__a"
    (tmp_path / "secret").write_text("hf_secret", encoding="utf-8")
    (trial / "link").symlink_to(tmp_path / "secret")
    (trial / "folder").symlink_to(tmp_path)
    os.mkfifo(trial / "pipe")
    os.link(trial / "result.json", trial / "twin.json")
    (trial / os.fsdecode(b"bytes-\xff")).write_text("x", encoding="utf-8")
    pack(run_dir, tmp_path / "s.tar")
    other = open_run_dir(tmp_path / "b")
    unpack(tmp_path / "s.tar", other)
    names = {path.name for path in (other.harbor_job / "t__a").iterdir()}
    assert names == {"agent", "result.json", "twin.json", os.fsdecode(b"bytes-\xff")}
    assert (other.harbor_job / "t__a" / "twin.json").read_text(encoding="utf-8") == "{}"
    assert b"hf_secret" not in (tmp_path / "s.tar").read_bytes()


def test_pack__where_nothing_can_be_written(run_dir: RunDir, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IncompleteError, match="the run itself is in") as caught:
        pack(run_dir, tmp_path / "file" / "s.tar")
    assert "\n" not in caught.value.message


def test_pack__a_failure_keeps_the_old_file(run_dir: RunDir, tmp_path: Path) -> None:
    file = tmp_path / "s.tar"
    pack(run_dir, file)
    before = file.read_bytes()
    (tmp_path / ".s.tar.new").mkdir()
    with pytest.raises(IncompleteError):
        pack(run_dir, file)
    assert file.read_bytes() == before


def test_unpack__no_file_or_a_run_already(run_dir: RunDir, tmp_path: Path) -> None:
    assert unpack(tmp_path / "none.tar", open_run_dir(tmp_path / "b")) is False
    pack(run_dir, tmp_path / "s.tar")
    run_dir.state.write_text("newer", encoding="utf-8")
    assert unpack(tmp_path / "s.tar", run_dir) is False
    assert run_dir.state.read_text(encoding="utf-8") == "newer"


def test_unpack__over_what_a_failed_start_left(run_dir: RunDir, tmp_path: Path) -> None:
    pack(run_dir, tmp_path / "s.tar")
    other = open_run_dir(tmp_path / "b")
    other.events.write_text("left", encoding="utf-8")
    (other.harbor_job / "half").mkdir(parents=True)
    (other.root / ".unpacked.new" / "junk").mkdir(parents=True)
    assert unpack(tmp_path / "s.tar", other) is True
    expected = tree(run_dir.root)
    del expected[".lock"]
    assert tree(other.root) == expected


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, target, 0o777
    return entry


def tar_of(file: Path, *entries: tarfile.TarInfo) -> Path:
    """A tar with the entries, and a spec.json last."""
    with tarfile.open(file, "w") as tar:
        for entry in (*entries, member("spec.json")):
            entry.size = 4 if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(b"evil") if entry.isreg() else None)
    return file


@pytest.mark.parametrize(
    "entries",
    [
        [member("../outside")],
        [member("harbor/../../outside")],
        [member("/tmp/tbh-outside")],
        [member("link", tarfile.SYMTYPE, "/etc/passwd")],
        [member("link", tarfile.SYMTYPE, "..")],
        [member("link", tarfile.SYMTYPE, "state.json")],
        [member("link", tarfile.SYMTYPE, ".."), member("link/outside")],
        [member("state.json"), member("hard", tarfile.LNKTYPE, "state.json")],
        [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("null", tarfile.CHRTYPE)],
        [member("disk", tarfile.BLKTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda entries: "+".join(f"{entry.name}{entry.type.decode()}" for entry in entries),
)
def test_unpack__hostile_members_and_nothing_is_left(
    tmp_path: Path, entries: list[tarfile.TarInfo]
) -> None:
    run_dir = open_run_dir(tmp_path / "deep" / "run")
    file = tar_of(tmp_path / "s.tar", *entries)
    with pytest.raises(SpecError, match="holds no state of a run") as caught:
        unpack(file, run_dir)
    assert "\n" not in caught.value.message
    assert list(run_dir.root.iterdir()) == []
    assert not Path("/tmp/tbh-outside").exists()
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "run", "s.tar"}


def test_unpack__no_owner_no_special_bits(tmp_path: Path) -> None:
    entry = member("tool")
    entry.mode, entry.uid, entry.gid = 0o6777, 12_345, 12_345
    run_dir = open_run_dir(tmp_path / "run")
    unpack(tar_of(tmp_path / "s.tar", entry), run_dir)
    status = (run_dir.root / "tool").stat()
    assert status.st_mode & 0o7022 == 0
    assert status.st_uid == os.getuid()


def no_tar(file: Path) -> None:
    file.write_text("hello", encoding="utf-8")


def empty(file: Path) -> None:
    file.touch()


def compressed(file: Path) -> None:
    with tarfile.open(file, "w:gz") as tar:
        tar.addfile(member("spec.json"))


def half(file: Path) -> None:
    tar_of(file, member("a"), member("b"))
    file.write_bytes(file.read_bytes()[:1200])


def without_spec(file: Path) -> None:
    with tarfile.open(file, "w") as tar:
        tar.addfile(member("notes.txt"))


def directory(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize("make", [no_tar, empty, compressed, half, without_spec, directory])
def test_unpack__what_is_no_state(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "s.tar")
    run_dir = open_run_dir(tmp_path / "run")
    with pytest.raises(SpecError, match="holds no state of a run") as caught:
        unpack(tmp_path / "s.tar", run_dir)
    assert "\n" not in caught.value.message
    assert list(run_dir.root.iterdir()) == []
