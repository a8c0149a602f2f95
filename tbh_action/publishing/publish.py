"""A run's bundle on the Hub: a dataset that is a results store, written so that it can be repeated.

    README.md HISTORY.md    made from all runs of the store
    data/<run>.jsonl        the viewer's table
    runs/<run>/…            the bundle

Only what differs from what is there is sent, and `results.json` comes with the last commit: a store
never shows half a run, a broken upload goes on where it broke, and publishing twice changes
nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tbh_action.comparison.earlier import HUB_PREFIX, EarlierRun, read_earlier, read_results
from tbh_action.errors import NotStartedError, SpecError
from tbh_action.publishing.bundle import Bundle
from tbh_action.publishing.published import RUNS, key_of, run_address
from tbh_action.publishing.store_page import CARD, HISTORY, card, history_page, table
from tbh_action.scoring import results
from tbh_action.server.hub_errors import explain, hub_errors, status_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# One commit takes that many files and bytes; the Hub ends longer requests.
_COMMIT_FILES: Final = 1000
_COMMIT_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 4
_OIDC_RESOURCE: Final = "HF_OIDC_RESOURCE"
_OIDC_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"

type Content = Path | bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A results store as it is now. `files` are SHA-256 (large files) or git ids, by path;
    `head` is None when there is no such dataset yet."""

    repo: str
    head: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    card: str | None = None
    runs: tuple[EarlierRun, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What publishing would do: all files that the store will have of this run, those among them
    that it lacks, and what it has and should not."""

    key: str
    files: Mapping[str, Content]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not (self.changed or self.deleted)


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """`commits` is empty when the store had everything already."""

    address: str
    url: str
    commits: tuple[str, ...]
    change: Change


def read_store(api: HfApi, repo: str) -> Store:
    """The store on the Hub.

    Raises:
        SpecError: `repo` is no name of a dataset.
        NotStartedError: the Hub can't be reached, or refuses.
    """
    from huggingface_hub import RepoFile, hf_hub_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    if repo.count("/") != 1:
        raise SpecError(f"--to {repo}: give the dataset as ORG/NAME.")
    try:
        head = api.repo_info(repo, repo_type="dataset").sha
        tree = api.list_repo_tree(repo, recursive=True, revision=head, repo_type="dataset")
        files = {
            entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
            for entry in tree
            if isinstance(entry, RepoFile)
        }
        text = None
        if CARD in files:
            local = hf_hub_download(repo, CARD, repo_type="dataset", revision=head)
            text = Path(local).read_text(encoding="utf-8")
    except RepositoryNotFoundError:
        return Store(repo=repo)
    except HFValidationError as error:
        raise SpecError(f"--to {repo}: {error}") from error
    except hub_errors() as error:
        raise NotStartedError(f"{HUB_PREFIX}{repo} can't be read: {explain(error)}.") from error
    has_runs = any(path.startswith(f"{RUNS}/") for path in files)
    runs = read_earlier(f"{HUB_PREFIX}{repo}").runs if has_runs else ()
    return Store(repo=repo, head=head, files=files, card=text, runs=runs)


def changes(bundle: Bundle, store: Store) -> Change:
    """What `bundle` changes in `store`. Reads the bundle's files, and nothing else."""
    document = results.read(bundle.root / "results.json")
    key = key_of(document, store.runs)
    folder = f"{RUNS}/{key}"
    ours = EarlierRun(
        results=read_results(bundle.root / "results.json"),
        source=f"{HUB_PREFIX}{store.repo}/{folder}/results.json",
    )
    runs = [run for run in store.runs if run.source != ours.source] + [ours]
    files: dict[str, Content] = {
        f"{folder}/{path}": bundle.root / path for path in sorted(bundle.files)
    }
    files[f"data/{key}.jsonl"] = table(document, key).encode()
    files[HISTORY] = history_page(runs, store.repo).encode()
    files[CARD] = card(store.card, runs, store.repo).encode()
    return Change(
        key=key,
        files=files,
        changed=tuple(
            path
            for path, content in files.items()
            if path not in store.files or not _is(content, store.files[path])
        ),
        deleted=tuple(
            path for path in store.files if path.startswith(f"{folder}/") and path not in files
        ),
    )


def size_of(content: Content) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _is(content: Content, oid: str) -> bool:
    """Whether a file is the one that the Hub calls `oid`."""
    data = content.read_bytes() if isinstance(content, Path) else content
    if len(oid) == 64:
        return hashlib.sha256(data).hexdigest() == oid
    blob = b"blob %d\0" % len(data) + data
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest() == oid


def upload(api: HfApi, bundle: Bundle, repo: str, *, private: bool = False) -> Published:
    """Makes the store hold the bundle; creates the store when it is absent.

    Someone else's commit in between is read, and the pages are made anew.

    Raises:
        SpecError: `repo` is no name of a dataset.
        NotStartedError: the Hub refused or broke off; calling again goes on from there.
    """
    commits: list[str] = []
    for number in range(1, _TRIES + 1):
        store = read_store(api, repo)
        try:
            if store.head is None:
                api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
                store = read_store(api, repo)
            change = changes(bundle, store)
            commits += _commit(api, store, change)
        except hub_errors(RuntimeError, ValueError) as error:
            if status_of(error) == 412 and number < _TRIES:
                continue
            raise NotStartedError(
                f"Publishing to {repo} broke off: {explain(error)}. "
                "The same command goes on where it broke."
            ) from error
        url = f"{api.endpoint}/datasets/{repo}/tree/main/{RUNS}/{change.key}"
        return Published(
            address=run_address(repo, change.key), url=url, commits=tuple(commits), change=change
        )
    raise AssertionError("the loop ends with a return or an error")


def _commit(api: HfApi, store: Store, change: Change) -> Iterator[str]:
    """Sends what changed, the parts that make a run visible last."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    folder = f"{RUNS}/{change.key}"
    last = (f"{folder}/results.json", f"{folder}/MANIFEST.json", f"data/{change.key}.jsonl")
    final = {path for path in (*last, CARD, HISTORY) if path in change.changed}
    parts = list(_parts([path for path in change.changed if path not in final], change.files))
    if final or change.deleted:
        parts = parts or [[]]
        parts[-1] = [*parts[-1], *sorted(final)]
    parent = store.head
    for number, part in enumerate(parts, start=1):
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path, change.files[path]) for path in part
        ]
        if number == len(parts):
            operations += [CommitOperationDelete(path) for path in change.deleted]
        suffix = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        commit = api.create_commit(
            store.repo,
            operations,
            commit_message=f"Results of {change.key}{suffix}",
            repo_type="dataset",
            parent_commit=parent,
        )
        parent = commit.oid
        yield commit.oid


def _parts(paths: Sequence[str], files: Mapping[str, Content]) -> Iterator[list[str]]:
    """`paths` in portions that one commit can take."""
    part: list[str] = []
    room = _COMMIT_BYTES
    for path in paths:
        size = size_of(files[path])
        if part and (len(part) >= _COMMIT_FILES or size > room):
            yield part
            part, room = [], _COMMIT_BYTES
        part.append(path)
        room -= size
    if part:
        yield part


@contextlib.contextmanager
def keyless(resource: str) -> Iterator[None]:
    """Lets the client exchange the CI job's identity for a token for `resource` alone
    (`datasets/ORG/NAME`, or a model's name), where there is no stored token, or where the user
    has asked for it with HF_OIDC_RESOURCE.

    Raises:
        NotStartedError: the exchange failed.
    """
    from huggingface_hub import get_token
    from huggingface_hub.errors import OIDCError

    before = os.environ.get(_OIDC_RESOURCE)
    if not before and (not os.environ.get(_OIDC_URL) or get_token()):
        yield
        return
    os.environ[_OIDC_RESOURCE] = resource
    try:
        yield
    except OIDCError as error:
        raise NotStartedError(f"No keyless access to {resource}: {explain(error)}.") from error
    finally:
        if before is None:
            del os.environ[_OIDC_RESOURCE]
        else:
            os.environ[_OIDC_RESOURCE] = before
