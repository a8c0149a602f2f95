"""Shards and legs of one question, joined into one answer: what may be joined, and the joining."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tbh_action.errors import SpecError
from tbh_action.scoring.combine import combine

_SHOWN = 5


def merge(
    documents: Mapping[str, Mapping[str, Any]], *, name: str, allow_missing: bool = False
) -> dict[str, Any]:
    """One results document from several, keyed by where each comes from (for messages).

    The order does not matter. Comparison and gate are left to be made again.

    Raises:
        SpecError: other fingerprints, slots that disagree, or tasks of the benchmark that are in
            none of them (unless `allow_missing`).
    """
    _same_question(documents)
    _no_contradiction(documents)
    joined = combine(documents.values(), name=name)
    _whole(joined, len(documents), allow_missing=allow_missing)
    return joined


def _same_question(documents: Mapping[str, Mapping[str, Any]]) -> None:
    first, *others = documents
    reference = documents[first]
    for place in others:
        document = documents[place]
        if document["fingerprint"] == reference["fingerprint"] is not None:
            continue
        ours, theirs = reference["fingerprint_fields"], document["fingerprint_fields"]
        different = sorted(
            key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
        )
        raise SpecError(
            f"{place} asks another question than {first} "
            f"(different: {', '.join(different[:_SHOWN]) or 'no fingerprint'}); "
            "only shards and legs of one spec can be merged."
        )


def _no_contradiction(documents: Mapping[str, Mapping[str, Any]]) -> None:
    """A slot may stand in several documents (legs), but with one score only: either the trials
    are the same, or one of them is unscored."""
    scored: dict[tuple[str, int], tuple[str, str, Any]] = {}
    clashes = []
    for place, document in documents.items():
        for row in document["tasks"]:
            if row["status"] == "errored":
                continue
            slot = (row["task"], row["attempt"])
            known = scored.setdefault(slot, (place, row["status"], row["trial"]))
            if known[1] != row["status"]:
                clashes.append(
                    f"{row['task']} ({known[1]} in {known[0]}, {row['status']} in {place})"
                )
    if clashes:
        raise SpecError(
            f"{len(clashes)} tasks were scored twice and disagree: {'; '.join(clashes[:_SHOWN])}. "
            "Leave out the run that should not count."
        )


def _whole(joined: Mapping[str, Any], parts: int, *, allow_missing: bool) -> None:
    planned = joined["fingerprint_fields"].get("benchmark.n_planned")
    missing = (planned or 0) - joined["n_tasks"]
    if missing > 0 and not allow_missing:
        raise SpecError(
            f"{missing} of the benchmark's {planned} tasks are in none of the {parts} parts: a "
            "shard is missing. Add it, or give --allow-missing."
        )
