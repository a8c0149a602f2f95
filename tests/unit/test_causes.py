"""Why a server died, from what it said last."""

from __future__ import annotations

import pytest

from tbh_action.server.causes import cause_of_death


@pytest.mark.parametrize(
    ("stage", "message", "logs", "words"),
    [
        (
            "ERROR",
            "Job failed with exit code 1",
            ["Loading weights", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"],
            "GPU ran out of memory",
        ),
        ("ERROR", None, ["Cannot access gated repo for url https://…"], "gated"),
        ("ERROR", None, ["401 Client Error: Unauthorized for url"], "token"),
        ("ERROR", None, ["RepositoryNotFoundError: 404 Client Error."], "does not exist"),
        ("ERROR", "ImagePullBackOff", [], "image cannot be pulled"),
        ("ERROR", "402 Client Error: Payment Required", [], "no credit"),
        ("ERROR", None, ["serve.py: error: unrecognized arguments: --mamba-x"], "arguments"),
        ("ERROR", None, ["OSError: [Errno 28] No space left on device"], "disk is full"),
        ("ERROR", None, ["[Errno 98] address already in use"], "port is taken"),
        ("ERROR", "Job timeout", [], "reached its timeout"),
        ("ERROR", "Job timed out", [], "reached its timeout"),
        ("CANCELED", None, [], "somebody cancelled"),
        (
            "ERROR",
            "Job failed with exit code 7",
            ["bye"],
            "the Hub says: Job failed with exit code 7",
        ),
        ("DELETED", None, [], "ended as DELETED without a word"),
        # Words that only look like causes.
        ("ERROR", "Job failed with exit code 1", ["--watchdog-timeout 300"], "exit code 1"),
        ("CANCELED", None, ["shape (402, 4020)", "listening on port 4020"], "somebody cancelled"),
        (
            "ERROR",
            None,
            ["request timeout=600", "CUDA out of memory"],
            "GPU ran out of memory",
        ),
    ],
)
def test_cause_of_death(stage: str, message: str | None, logs: list[str], words: str) -> None:
    assert words in cause_of_death(stage, message, logs)


def test_cause_of_death__one_line() -> None:
    assert "\n" not in cause_of_death("ERROR", "first\nsecond", [])
