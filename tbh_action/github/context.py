"""What GitHub tells a job about itself: the event, the pull request, the place to write to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbh_action.github.api import DEFAULT_URL


@dataclass(frozen=True, kw_only=True, slots=True)
class PullRequest:
    """The pull request of an event. `from_fork` means: a token that can only read, no secrets."""

    number: int
    head_sha: str
    from_fork: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The environment of one job. Empty strings stand for what is not known (outside GitHub)."""

    event: str = ""
    repository: str = ""
    workflow: str = ""
    job: str = ""
    matrix: str = ""
    comment_job: str = ""
    run_id: str = ""
    run_number: int = 0
    run_attempt: int = 1
    sha: str = ""
    api_url: str = DEFAULT_URL
    server_url: str = "https://github.com"
    pull_request: PullRequest | None = None

    @property
    def run_url(self) -> str:
        """The page of this workflow run, or an empty string outside GitHub."""
        if not (self.repository and self.run_id):
            return ""
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    def key(self, user_key: str = "") -> str:
        """Who writes: two jobs, two legs of a matrix, two keys never share a comment.

        `comment_job` names another job of this workflow, without a matrix, whose comment is meant.
        """
        who = (self.comment_job, "") if self.comment_job else (self.job, self.matrix)
        return "\n".join((self.workflow, *who, user_key))


def read_context(env: Mapping[str, str]) -> Context:
    """The context from `GITHUB_*` variables and the event's payload, which may be absent."""
    payload = _payload(env.get("GITHUB_EVENT_PATH", ""))
    pull_request = _pull_request(payload)
    return Context(
        event=env.get("GITHUB_EVENT_NAME", ""),
        repository=env.get("GITHUB_REPOSITORY", ""),
        workflow=env.get("GITHUB_WORKFLOW", ""),
        job=env.get("GITHUB_JOB", ""),
        matrix=_matrix(env.get("TBH_MATRIX", "")),
        comment_job=env.get("TBH_COMMENT_JOB", "").strip(),
        run_id=env.get("GITHUB_RUN_ID", ""),
        run_number=_whole(env.get("GITHUB_RUN_NUMBER", ""), 0),
        run_attempt=_whole(env.get("GITHUB_RUN_ATTEMPT", ""), 1),
        # On a pull request GITHUB_SHA is the merge commit, which nobody knows by sight.
        sha=pull_request.head_sha if pull_request else env.get("GITHUB_SHA", ""),
        api_url=env.get("GITHUB_API_URL", "") or DEFAULT_URL,
        server_url=env.get("GITHUB_SERVER_URL", "") or "https://github.com",
        pull_request=pull_request,
    )


def _payload(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _pull_request(payload: Mapping[str, Any]) -> PullRequest | None:
    """From a `pull_request` event, or a comment on a pull request (`issue_comment`)."""
    found = payload.get("pull_request")
    if isinstance(found, dict) and isinstance(found.get("number"), int):
        head, base = found.get("head") or {}, found.get("base") or {}
        ours = (base.get("repo") or {}).get("full_name")
        theirs = (head.get("repo") or {}).get("full_name")
        # A fork that was deleted has no repository any more: that is a fork, too.
        fork = ours is not None and ours != theirs
        return PullRequest(number=found["number"], head_sha=head.get("sha") or "", from_fork=fork)
    issue = payload.get("issue")
    if isinstance(issue, dict) and "pull_request" in issue and isinstance(issue.get("number"), int):
        return PullRequest(number=issue["number"], head_sha="", from_fork=False)
    return None


def _matrix(text: str) -> str:
    """The matrix's JSON in one spelling; `{}`, `null` and nothing are no matrix."""
    try:
        document = json.loads(text) if text.strip() else None
    except ValueError:
        return text.strip()
    return json.dumps(document, sort_keys=True) if document else ""


def _whole(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() else default
