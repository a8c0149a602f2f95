"""What breaks in the demo: one example of each way in which a trial may end."""

from __future__ import annotations

from typing import Any


def demo_faults() -> list[dict[str, Any]]:
    """The demo's fault rules, for `LoopbackHub(faults=…)` or `--faults`.

    `private-image` may not be started (403, at once and for good); `word-count` and `sort-numbers`
    lose their first sandbox, the one while the agent works, the other while it is verified, and
    are repaired by a second pass; `broken-mirror` loses every sandbox.
    """
    return [
        {
            "name": "image not allowed",
            "call": "jobs.create",
            "match": {"kind": "sandbox", "task": "private-image"},
            "action": {
                "status": 403,
                "body": {"error": "You don't have access to the image of this job."},
            },
        },
        {
            "name": "sandbox lost at work",
            "call": "sandbox.exec",
            "match": {"task": "word-count", "attempt": 1, "command": "wc -w"},
            "action": {"status": 500, "body": {"error": "internal error"}},
        },
        {
            "name": "sandbox lost while verifying",
            "call": "sandbox.exec",
            "match": {"task": "sort-numbers", "attempt": 1, "command": r"/tests/test\.sh"},
            "action": {"drop": "middle"},
        },
        {
            "name": "sandbox never well",
            "call": "sandbox.exec",
            "match": {"task": "broken-mirror", "command": "tac"},
            "action": {"status": 500, "body": {"error": "disk failure"}},
        },
    ]
