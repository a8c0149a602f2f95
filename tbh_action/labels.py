"""The labels that make every paid thing of a run findable on the Hub."""

from __future__ import annotations

import re
from typing import Final

PROJECT_LABEL: Final = "project"
PROJECT: Final = "tbh-action"
RUN_LABEL: Final = "tbh-run"
TRIAL_LABEL: Final = "tbh-trial"
MODEL_LABEL: Final = "model"
NONCE_LABEL: Final = "tbh-nonce"
# What a job is, where its other labels do not say it: `controller`.
KIND_LABEL: Final = "tbh-kind"


def label_value(text: str) -> str:
    """`text` as a label's value: at most 63 of the characters that label filters accept."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:63].strip("-._") or "none"
