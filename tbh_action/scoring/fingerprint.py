"""Flat fields and their fingerprint: which runs were asked the same question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def fingerprint_of(fields: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the fields' canonical JSON."""
    text = json.dumps(dict(fields), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as one level: `{"a": {"b": 1}}` becomes `{"a.b": 1}`, sorted."""
    rows: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            rows |= flatten(item, f"{prefix}{key}.")
        else:
            rows[f"{prefix}{key}"] = list(item) if isinstance(item, tuple) else item
    return dict(sorted(rows.items()))
