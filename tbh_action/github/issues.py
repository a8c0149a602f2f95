"""One issue for each model that got worse: opened, updated in place, closed when it recovers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from tbh_action.github.api import GitHubApi
from tbh_action.github.marker import Marker, parse

LABEL: Final = "terminal-bench"

Action = Literal["opened", "updated", "closed", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What was done, and the issue's page (empty when nothing was)."""

    action: Action
    url: str = ""


def update_issue(
    api: GitHubApi, repository: str, marker: Marker, *, title: str, body: str, worse: bool
) -> Done:
    """Opens or updates the issue with `marker`'s key while `worse`; closes it when not.

    `body` starts with the marker. Issues are ours when they carry our label and the marker: only
    people with write access can set a label.

    Raises:
        GitHubError: GitHub refused, or kept failing.
    """
    found = _ours(api, repository, marker.key)
    path = f"/repos/{repository}/issues"
    if not worse:
        if found is None:
            return Done(action="none")
        api.request("PATCH", f"{path}/{found['number']}", json={"body": body, "state": "closed"})
        return Done(action="closed", url=found["html_url"])
    if found is not None:
        api.request("PATCH", f"{path}/{found['number']}", json={"title": title, "body": body})
        return Done(action="updated", url=found["html_url"])
    document = {"title": title, "body": body, "labels": [LABEL]}
    created: dict[str, Any] = api.request("POST", path, json=document).json()
    return Done(action="opened", url=created["html_url"])


def _ours(api: GitHubApi, repository: str, key: str) -> dict[str, Any] | None:
    """The oldest open issue of ours with `key`."""
    oldest: dict[str, Any] | None = None
    for issue in api.pages(f"/repos/{repository}/issues", {"state": "open", "labels": LABEL}):
        mark = parse(issue.get("body") or "")
        if mark is None or mark.key != key or "pull_request" in issue:
            continue
        if oldest is None or issue["number"] < oldest["number"]:
            oldest = issue
    return oldest
