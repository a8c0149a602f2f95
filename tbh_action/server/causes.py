"""Why a model server died, in words, from its last log lines and the Hub's message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# Order matters: the first match is the most telling one.
_CAUSES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"CUDA out of memory|OutOfMemoryError|out of memory|HIP out of memory",
        "the GPU ran out of memory; use a larger flavor or a lower memory fraction or context",
    ),
    (
        r"GatedRepo|gated repo|awaiting a review|access to model .* is restricted",
        "the model's repository is gated for this token; accept its terms on the Hub",
    ),
    (
        r"RepositoryNotFound|is not a valid model identifier|Repository Not Found",
        "the model's repository does not exist, or this token may not see it",
    ),
    (
        r"401 Client Error|Invalid user token|403 Client Error",
        "the Hub refused the server's token; check HF_TOKEN and its scopes",
    ),
    (
        r"manifest unknown|ImagePull|pull access denied|image .*not found",
        "the image cannot be pulled; check its name and tag",
    ),
    (
        r"[Pp]ayment [Rr]equired|402 Client Error|insufficient credit|no credit",
        "the namespace has no credit left",
    ),
    (
        r"unrecognized arguments|invalid choice|No such option|error: argument",
        "the server does not know one of its arguments; the image is of another version",
    ),
    (
        r"No space left on device",
        "the disk is full; use a flavor with more storage, or --mount-model",
    ),
    (
        r"[Aa]ddress already in use",
        "the port is taken inside the job",
    ),
)
# Logs are full of this word (`--watchdog-timeout 300`): only the Hub's own message is believed.
_TIMED_OUT: Final = re.compile(r"timed? ?out", re.IGNORECASE)


def cause_of_death(stage: str, message: str | None, logs: Sequence[str]) -> str:
    """One clause: `the GPU ran out of memory; …`, or what the Hub says when no cause is known."""
    text = "\n".join([message or "", *logs])
    for pattern, words in _CAUSES:
        if re.search(pattern, text):
            return words
    if message and _TIMED_OUT.search(message):
        return "the job reached its timeout"
    if stage == "CANCELED":
        return "somebody cancelled the job"
    if message:
        return f"the Hub says: {' '.join(message.split())[:200]}"
    return f"the job ended as {stage} without a word"
