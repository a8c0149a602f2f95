"""Where detached runs are kept: `runs/<name>/` of the private dataset `<namespace>/tbh-runs`."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tbh_action.errors import NotStartedError, SpecError
from tbh_action.labels import label_value
from tbh_action.server.hub_errors import explain, hub_errors, retry_after, status_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DATASET: Final = "tbh-runs"
# So that the labels of two runs always differ (see `state.belongs_to`).
_LONGEST_NAME: Final = 50
# The client itself tries a download several times, over half a minute, and a commit once.
_TRIES: Final = {"make": 4, "read": 2, "write": 4}
_PAUSE: Final = 2.0
# No other try cures these; 409 and 412 mean that somebody else's commit came first.
_REFUSALS: Final = frozenset({400, 401, 402, 403, 404, 422})


class Store:
    """One run's part of the dataset. Every failure of the Hub is a NotStartedError that says so."""

    def __init__(
        self,
        api: HfApi,
        namespace: str,
        name: str,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()
        self._api = api
        self._sleep = sleep
        self.namespace = namespace
        self.name = name
        self.repo = f"{namespace}/{DATASET}"

    @property
    def url(self) -> str:
        return f"hf://datasets/{self.repo}/runs/{self.name}"

    def open(self) -> None:
        """Makes the dataset if it is absent.

        Raises:
            SpecError: it is public: a run's transcripts would be too, and the benchmark's answers.
        """
        self._call(
            "make",
            lambda: self._api.create_repo(
                self.repo, repo_type="dataset", private=True, exist_ok=True
            ),
        )
        info = self._call("read", lambda: self._api.dataset_info(self.repo))
        if not info.private:
            raise SpecError(
                f"The dataset {self.repo} is public, and a run in progress should not be: make it "
                "private, or rename it, and submit again."
            )

    def read(self, file: str) -> dict[str, Any] | None:
        """A JSON file of the run, None when there is none (or no dataset).

        Raises:
            SpecError: it is not the JSON object that we wrote.
        """
        with tempfile.TemporaryDirectory(prefix="tbh-store-") as folder:
            try:
                path = self._call(
                    "read",
                    lambda: self._api.hf_hub_download(
                        self.repo,
                        f"runs/{self.name}/{file}",
                        repo_type="dataset",
                        local_dir=folder,
                    ),
                )
            except _AbsentError:
                return None
            try:
                document = json.loads(Path(path).read_text(encoding="utf-8"))
            except ValueError as error:
                raise SpecError(f"{self.url}/{file} is no JSON: {error}.") from error
        if not isinstance(document, dict):
            raise SpecError(f"{self.url}/{file} holds no JSON object.")
        return document

    def download(self, folder: Path) -> Path:
        """The whole run, below `folder`. The directory is empty when nothing is stored."""
        place = folder / "runs" / self.name
        with contextlib.suppress(_AbsentError):
            self._call(
                "read",
                lambda: self._api.snapshot_download(
                    self.repo,
                    repo_type="dataset",
                    allow_patterns=f"runs/{self.name}/*",
                    local_dir=folder,
                ),
            )
        place.mkdir(parents=True, exist_ok=True)
        return place

    def write(self, files: Mapping[str, bytes], message: str, *, drop: Iterable[str] = ()) -> None:
        """One commit with all of `files`; `drop` are files of the run that it takes away."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        base = f"runs/{self.name}"

        def commit() -> Any:
            # The client writes into its operations: each try gets new ones.
            operations: list[Any] = [
                CommitOperationAdd(f"{base}/{path}", data) for path, data in files.items()
            ]
            operations += [CommitOperationDelete(f"{base}/{path}") for path in drop]
            return self._api.create_commit(
                self.repo, operations, commit_message=message, repo_type="dataset"
            )

        self._call("write", commit)

    def _call[T](self, what: str, call: Callable[[], T]) -> T:
        last = ""
        for attempt in range(_TRIES[what]):
            try:
                return call()
            except hub_errors(RuntimeError) as raised:
                # The client wraps what happens in an upload or while it looks for a file.
                error = raised if status_of(raised) else raised.__cause__ or raised
                last = explain(error)
                if status_of(error) == 404 and what == "read":
                    raise _AbsentError(self._cannot(what, last)) from error
                if status_of(error) in _REFUSALS:
                    raise NotStartedError(self._cannot(what, last)) from error
                if attempt + 1 < _TRIES[what]:
                    self._sleep(retry_after(error) or _PAUSE * (attempt + 1))
        raise NotStartedError(self._cannot(what, last))

    def _cannot(self, what: str, why: str) -> str:
        return (
            f"Cannot {what} the dataset {self.repo}: {why.rstrip('.')}. "
            "Check the network, and that the token may write to it."
        )


def open_store(api: HfApi, name: str, namespace: str | None) -> Store:
    """The store of the run NAME; the token's owner is the namespace where none is given.

    Raises:
        SpecError: NAME cannot be both a directory's name and a label.
        NotStartedError: the Hub does not know the token.
    """
    if len(name) > _LONGEST_NAME or label_value(name) != name:
        raise SpecError(
            f"{name[:80]!r} cannot be the name of a detached run: at most {_LONGEST_NAME} ASCII "
            "letters, digits, `.`, `_` and `-`, with a letter or digit at both ends."
        )
    if namespace is None:
        try:
            namespace = str(api.whoami()["name"])
        except hub_errors(ValueError, KeyError, TypeError) as error:
            raise NotStartedError(
                f"The Hub does not say whose token this is: {explain(error)}. Set HF_TOKEN, or "
                "run `hf auth login`."
            ) from error
    return Store(api, namespace, name)


class _AbsentError(NotStartedError):
    """There is no such dataset or file."""
