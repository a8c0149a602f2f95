"""Repositories of the loopback Hub, in memory: commits, branches, pull requests, large files.

Objects are named as git and git-lfs name them, so that a client can tell whether a file that it
has is the file that is there.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

MAIN: Final = "main"
# The Hub keeps what is larger in its large-file storage.
REGULAR_LIMIT: Final = 10 * 1024 * 1024
KINDS: Final = ("model", "dataset", "space")


class RefusedError(Exception):
    """A call that the Hub refuses: its status, its words, its `X-Error-Code`."""

    def __init__(self, status: int, text: str, code: str = "") -> None:
        super().__init__(text)
        self.status, self.text, self.code = status, text, code


def blob_oid(data: bytes) -> str:
    """The git object id of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def upload_mode(size: int, sample: bytes) -> str:
    """Where a file of this size and beginning is kept."""
    return "lfs" if size and (size > REGULAR_LIMIT or b"\0" in sample) else "regular"


@dataclass(frozen=True, slots=True)
class File:
    """A file in a tree: its git id (of the pointer, for a large one), size, SHA-256 if large."""

    oid: str
    size: int
    sha256: str | None = None

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid

    def document(self, path: str) -> dict[str, Any]:
        """The file as tree and paths-info calls describe it."""
        row: dict[str, Any] = {"type": "file", "path": path, "oid": self.oid, "size": self.size}
        if self.sha256:
            row["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return row


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, with the whole tree after it."""

    oid: str
    parent: str | None
    title: str
    at: str
    tree: Mapping[str, File]


@dataclass(kw_only=True, slots=True)
class Pull:
    """A pull request (or, without a head, a discussion)."""

    number: int
    title: str
    description: str
    author: str
    at: str
    status: str = "open"
    is_pull: bool = True


@dataclass(kw_only=True, slots=True)
class Repository:
    """One repository. `refs` are branch names and `refs/pr/N`."""

    kind: str
    id: str
    private: bool
    created_at: str
    refs: dict[str, Commit] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    pulls: list[Pull] = field(default_factory=list)

    def at(self, revision: str) -> Commit:
        """The commit that `revision` (branch, pull request, commit id) means."""
        found = self.refs.get(revision) or self.commits.get(revision)
        if found is None:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def file(self, revision: str, path: str) -> File:
        file = self.at(revision).tree.get(path)
        if file is None:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        return file

    def head(self, revision: str, tree: Mapping[str, File], title: str, at: str) -> Commit:
        """A new commit on top of `revision`, which now means it."""
        parent = self.refs.get(revision)
        seed = json.dumps([parent and parent.oid, title, len(self.commits), sorted(tree)])
        names = seed + "".join(tree[path].oid for path in sorted(tree))
        oid = hashlib.sha1(names.encode(), usedforsecurity=False).hexdigest()
        commit = Commit(oid, parent.oid if parent else None, title, at, dict(tree))
        self.commits[oid] = self.refs[revision] = commit
        return commit

    def document(self, revision: str) -> dict[str, Any]:
        """The repository as the info calls describe it."""
        commit = self.at(revision)
        return {
            "_id": blob_oid(self.id.encode())[:24],
            "id": self.id,
            "modelId": self.id,
            "sha": commit.oid,
            "private": self.private,
            "gated": False,
            "disabled": False,
            "createdAt": self.created_at,
            "lastModified": commit.at,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [{"rfilename": path} for path in sorted(commit.tree)],
        }


class Repositories:
    """All repositories, and the contents of their files."""

    def __init__(self, namespaces: Iterable[str]) -> None:
        self._namespaces = frozenset(namespaces)
        self._all: dict[tuple[str, str], Repository] = {}
        self._blobs: dict[str, bytes] = {}
        self.large: dict[str, bytes] = {}

    def create(self, kind: str, name: str, *, private: bool) -> Repository:
        """A new repository with one commit, as on the Hub."""
        if kind not in KINDS or name.count("/") != 1:
            raise RefusedError(400, f"Invalid repo: {kind} {name}")
        if name.partition("/")[0] not in self._namespaces:
            raise RefusedError(403, "You don't have the rights to create a repo there.")
        if (kind, name) in self._all:
            raise RefusedError(409, f"You already created this {kind} repo")
        at = _now()
        repository = Repository(kind=kind, id=name, private=private, created_at=at)
        file = self.keep(b"*.parquet filter=lfs diff=lfs merge=lfs -text\n")
        repository.head(MAIN, {".gitattributes": file}, "initial commit", at)
        self._all[kind, name] = repository
        return repository

    def get(self, kind: str, name: str) -> Repository:
        found = self._all.get((kind, name))
        if found is None:
            raise RefusedError(404, "Repository not found", "RepoNotFound")
        return found

    def keep(self, data: bytes) -> File:
        """`data` as a regular file."""
        oid = blob_oid(data)
        self._blobs[oid] = data
        return File(oid, len(data))

    def keep_large(self, sha256: str) -> File:
        """A large file whose content was uploaded before."""
        if sha256 not in self.large:
            raise RefusedError(400, f"Your push was rejected: LFS object {sha256} does not exist")
        size = len(self.large[sha256])
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        return File(blob_oid(pointer.encode()), size, sha256)

    def content(self, file: File) -> bytes:
        return self.large[file.sha256] if file.sha256 else self._blobs[file.oid]

    def commit(
        self, repository: Repository, revision: str, body: bytes, *, as_pull: str | None
    ) -> tuple[Commit, Pull | None]:
        """Carries out a commit's NDJSON; for the user `as_pull` as a pull request."""
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        header = lines[0]["value"] if lines and lines[0].get("key") == "header" else {}
        if not header.get("summary"):
            raise RefusedError(400, "A commit needs a header with a summary.")
        parent = repository.at(revision)
        if header.get("parentCommit") not in (None, parent.oid):
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        tree = dict(parent.tree)
        for line in lines[1:]:
            self._apply(tree, line["key"], line["value"])
        if as_pull is None:
            return repository.head(revision, tree, header["summary"], _now()), None
        pull = self.open(repository, header["summary"], header.get("description", ""), as_pull)
        repository.refs[f"refs/pr/{pull.number}"] = parent
        ref = f"refs/pr/{pull.number}"
        return repository.head(ref, tree, header["summary"], _now()), pull

    def _apply(self, tree: dict[str, File], key: str, value: Mapping[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            tree[path] = self.keep(base64.b64decode(value["content"]))
        elif key == "lfsFile":
            tree[path] = self.keep_large(value["oid"])
        elif key == "deletedFile":
            if tree.pop(path, None) is None:
                raise RefusedError(404, "A file with this name doesn't exist", "EntryNotFound")
        elif key == "deletedFolder":
            for name in [name for name in tree if name.startswith(f"{path.rstrip('/')}/")]:
                del tree[name]
        else:
            raise RefusedError(400, f"Unknown operation {key!r}")

    def open(
        self,
        repository: Repository,
        title: str,
        description: str,
        author: str,
        *,
        is_pull: bool = True,
    ) -> Pull:
        """A new discussion or pull request."""
        pull = Pull(
            number=len(repository.pulls) + 1,
            title=title,
            description=description,
            author=author,
            at=_now(),
            is_pull=is_pull,
        )
        repository.pulls.append(pull)
        return pull


def folders(tree: Mapping[str, File]) -> list[str]:
    """Every folder of a tree."""
    return sorted(
        {path[:at] for path in tree for at, char in enumerate(path) if char == "/"},
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
