"""Which parts of a run's fingerprint are the model under test, and which are how it was measured.

Two releases of a model differ in name, revision and serving: that is what a comparison is about.
Everything else (tasks and their revision, agent, timeouts, attempts, sandbox) has to be the same,
or the difference of two scores says nothing about the models. A field that is not known here
counts as a measurement condition: the careful side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tbh_action.scoring.fingerprint import fingerprint_of

# What the agent is told about the model (context window, prices) belongs to the model.
MODEL_SIDE: Final = ("model.", "server.", "agent.kwargs.model_info")


def is_model_side(field: str) -> bool:
    """Whether `field` may differ between two runs that are compared."""
    return field.startswith(MODEL_SIDE)


def measurement_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The measurement conditions among fingerprint fields; an absent one and null are the same."""
    return {
        key: value for key, value in fields.items() if value is not None and not is_model_side(key)
    }


def measurement_fingerprint(fields: Mapping[str, Any]) -> str:
    """SHA-256 of the measurement conditions: runs that share it may be compared."""
    return fingerprint_of(measurement_fields(fields))


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields that differ, sorted: `{"field", "ours", "theirs"}`, null for one that is absent.

    A field that only one run has and whose value there is null is no difference: it was added by
    a later version and does nothing.
    """
    return [
        {"field": key, "ours": ours.get(key), "theirs": theirs.get(key)}
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]
