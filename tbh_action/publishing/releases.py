"""Which revisions of a model on the Hub have no results yet.

The decision is pure; the Hub is asked through its own client, the store through `earlier`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tbh_action.errors import NotStartedError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_SHORTEST = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One revision of a model: its commit, and the branch or tag that it was found by."""

    model: str
    revision: str
    ref: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """A revision that has results, in any state: a run that failed is not repeated each night."""

    model: str
    revision: str
    benchmark: str


def new_releases(
    found: Iterable[Release], evaluated: Iterable[Evaluated], *, benchmark: str | None
) -> list[Release]:
    """Those of `found` without results (of `benchmark`, when given), each commit once."""
    known = [item for item in evaluated if benchmark in (None, item.benchmark)]
    fresh: dict[tuple[str, str], Release] = {}
    for release in found:
        if not any(_same(release, item) for item in known):
            fresh.setdefault((release.model, release.revision), release)
    return list(fresh.values())


def _same(release: Release, item: Evaluated) -> bool:
    """By commit (also a shortened one) or by the tag's name."""
    if release.model != item.model or not item.revision:
        return False
    by_commit = len(item.revision) >= _SHORTEST and release.revision.startswith(item.revision)
    return by_commit or item.revision == release.ref != "main"


def releases_on_hub(api: HfApi, model: str, *, tags: str | None) -> list[Release]:
    """`main`'s newest commit, or with `tags` (a glob) each tag that matches, the last one first.

    Raises:
        NotStartedError: the Hub can't be asked, or knows no such model.
    """
    from tbh_action.server.hub_errors import explain, hub_errors

    try:
        if tags is None:
            info = api.model_info(model, revision="main")
            return [Release(model=model, revision=str(info.sha), ref="main")]
        refs = api.list_repo_refs(model)
    except hub_errors() as error:
        raise NotStartedError(
            f"Cannot ask the Hub for {model}: {explain(error)}. Check the name and HF_TOKEN."
        ) from error
    matching = [tag for tag in refs.tags if fnmatch.fnmatchcase(tag.name, tags)]
    return [
        Release(model=model, revision=tag.target_commit, ref=tag.name) for tag in reversed(matching)
    ]


def evaluated_in(store: str) -> tuple[list[Evaluated], tuple[str, ...]]:
    """What the results store (a directory or `hf://datasets/…`) holds, and its unreadable files.

    Raises:
        SpecError, NotStartedError: as `read_earlier`.
    """
    from tbh_action.comparison.earlier import read_earlier

    earlier = read_earlier(store)
    rows = [
        Evaluated(
            model=run.model,
            revision=run.revision,
            benchmark=str((run.results.get("benchmark") or {}).get("name") or ""),
        )
        for run in earlier.runs
    ]
    return rows, earlier.problems
