"""Bundles in a results store on the Hub: their addresses, fetching one, finding its place."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tbh_action.comparison.earlier import HUB_PREFIX, EarlierRun
from tbh_action.errors import NotStartedError, SpecError

RUNS: Final = "runs"


def run_address(repo: str, key: str) -> str:
    """What a person gives to `tbh verify`."""
    return f"{HUB_PREFIX}{repo}/{RUNS}/{key}"


def key_of(results: Mapping[str, Any], others: Sequence[EarlierRun]) -> str:
    """The folder of a run in a store: its name, with its start where another run has that name.

    A run keeps its folder when it is published again.
    """
    run = results["run"]
    name = _plain(str(run["name"])) or "run"
    taken = {other.source.split("/")[-2]: other.results["run"] for other in others}
    known = taken.get(name)
    if known is None or known.get("started_at") == run["started_at"]:
        return name
    return f"{name}-{_plain(str(run['started_at']).replace(':', ''))}"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")


@contextlib.contextmanager
def bundle_at(place: str) -> Iterator[Path]:
    """The directory of a bundle: `place` itself, or for a while a copy of what the Hub has.

    Raises:
        SpecError: `place` is no address of a run.
        NotStartedError: the Hub can't be reached, or has no such run.
    """
    if not place.startswith(HUB_PREFIX):
        yield Path(place).expanduser()
        return
    parts = place.removeprefix(HUB_PREFIX).strip("/").split("/")
    if len(parts) != 4 or parts[2] != RUNS:
        raise SpecError(f"{place} is no run in a store; give {HUB_PREFIX}ORG/NAME/{RUNS}/RUN.")
    repo, folder = "/".join(parts[:2]), f"{RUNS}/{parts[3]}"
    with tempfile.TemporaryDirectory(prefix="tbh-bundle-") as root:
        _download(place, repo, folder, Path(root))
        if not (Path(root) / folder).is_dir():
            raise NotStartedError(f"{HUB_PREFIX}{repo} has no run {parts[3]!r}.")
        yield Path(root) / folder


def _download(place: str, repo: str, folder: str, target: Path) -> None:
    """Real files, not the cache's links, which nothing here follows."""
    from huggingface_hub import snapshot_download

    from tbh_action.server.hub_errors import explain, hub_errors

    patterns = [f"{folder}/*"]
    try:
        snapshot_download(repo, repo_type="dataset", allow_patterns=patterns, local_dir=target)
    except hub_errors(ValueError) as error:
        raise NotStartedError(f"{place} can't be fetched: {explain(error)}.") from error
