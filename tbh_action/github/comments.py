"""One comment for each key: found on all pages, created or updated in place, never two for long.

Several processes may write at once and GitHub has no compare-and-set, so the rules are such that
any order of writers ends in the same state: the oldest comment stays, it holds the text of the
newest run, and the others go. Each writer looks again after writing and repeats until that holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tbh_action.github.api import GitHubApi, GitHubError
from tbh_action.github.marker import Marker, parse, strip

DEFAULT_AUTHOR: Final = "github-actions[bot]"
COMMENT_CHARS: Final = 65_536
_ROUNDS: Final = 4
_NOTICE: Final = re.compile(r"<!-- tbh-notice -->.*?<!-- /tbh-notice -->\n*", re.DOTALL)

Action = Literal["created", "updated", "unchanged", "stale"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comment:
    """A comment of ours on a pull request or an issue."""

    id: int
    node_id: str
    url: str
    body: str
    marker: Marker


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What one round does: `body` into `keep` (None: a new comment), then `delete` the rest."""

    keep: Comment | None
    body: str
    write: bool
    delete: tuple[Comment, ...]
    stale: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The end of an upsert. `url` is the comment's page."""

    action: Action
    url: str


def decide(found: Iterable[Comment], ours: Marker, body: str) -> Plan:
    """The next step towards one comment with the newest text. `body` starts with `ours`.

    A comment of a later run (or a later attempt of the same run) wins over ours; of two texts of
    the same run and attempt, ours does.
    """
    comments = sorted(found, key=lambda comment: comment.id)
    if not comments:
        return Plan(keep=None, body=body, write=True, delete=(), stale=False)
    newest = max(comments, key=lambda comment: comment.marker.version)
    stale = newest.marker.version > ours.version
    wanted = newest.body if stale else body
    oldest = comments[0]
    return Plan(
        keep=oldest,
        body=wanted,
        write=_normal(oldest.body) != _normal(wanted),
        delete=tuple(comments[1:]),
        stale=stale,
    )


def _normal(body: str) -> str:
    """GitHub gives line breaks back as CRLF and trims the end."""
    return body.replace("\r\n", "\n").strip()


def compose(marker: Marker, body: str, notice: str = "") -> str:
    """A comment's whole text: marker, an optional notice, and the body without old ones."""
    rest = without_notice(strip(body)).strip()
    parts = [str(marker)]
    if notice:
        parts.append(f"<!-- tbh-notice -->\n{notice}\n<!-- /tbh-notice -->\n")
    if rest:
        parts.append(rest)
    return "\n".join(parts) + "\n"


def without_notice(body: str) -> str:
    """`body` without what `compose` put above an earlier result."""
    return _NOTICE.sub("", body)


def author(api: GitHubApi) -> str:
    """The login that this token writes as (`…[bot]` for an app's or a job's token).

    `GET /user` is refused to a job's token; `viewer` is not.
    """
    try:
        viewer = api.graphql("query { viewer { login } }").get("viewer") or {}
    except (GitHubError, ValueError):
        return DEFAULT_AUTHOR
    return str(viewer.get("login") or DEFAULT_AUTHOR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """Where comments are written: an issue's or a pull request's conversation."""

    api: GitHubApi
    repository: str
    number: int
    author: str

    @property
    def path(self) -> str:
        return f"/repos/{self.repository}/issues/{self.number}/comments"

    def ours(self, key: str) -> list[Comment]:
        """Comments by us that start with the marker of `key` (a digest), over all pages."""
        return [
            comment
            for item in self.api.pages(self.path)
            if (comment := self._read(item)) is not None and comment.marker.key == key
        ]

    def _read(self, item: dict[str, Any]) -> Comment | None:
        body = item.get("body") or ""
        marker = parse(body)
        if marker is None or (item.get("user") or {}).get("login") != self.author:
            return None
        return Comment(
            id=item["id"],
            node_id=item.get("node_id", ""),
            url=item.get("html_url", ""),
            body=body,
            marker=marker,
        )

    def upsert(self, marker: Marker, body: str) -> Written:
        """Writes `body` (as `compose` made it) unless a newer run was here.

        Raises:
            GitHubError: GitHub refused, or kept failing.
        """
        action: Action = "unchanged"
        known: dict[int, Comment] = {}
        for _ in range(_ROUNDS):
            # What we wrote may be missing from the list for a moment: replicas lag.
            found = known | {comment.id: comment for comment in self.ours(marker.key)}
            plan = decide(found.values(), marker, body)
            if not plan.write and not plan.delete:
                return Written(action="stale" if plan.stale else action, url=_url(plan.keep))
            if plan.write and plan.keep is None:
                created = self._create(plan.body)
                known[created.id] = created
                action = "created"
            elif plan.write and plan.keep is not None:
                if not self._update(plan.keep, plan.body):
                    known.pop(plan.keep.id, None)
                    continue
                action = "updated" if action == "unchanged" else action
            for comment in plan.delete:
                self.delete(comment)
                known.pop(comment.id, None)
        return Written(action=action, url=_url(plan.keep))

    def _create(self, body: str) -> Comment:
        item = self.api.request("POST", self.path, json={"body": body}).json()
        comment = self._read(item)
        if comment is None:
            # Kept, it would be found by nobody, and each run would add another.
            self.api.request("DELETE", f"/repos/{self.repository}/issues/comments/{item['id']}")
            raise GitHubError(
                f"GitHub shows our comment as one by {(item.get('user') or {}).get('login')!r}, "
                f"not by {self.author!r}, so later runs could not find it; it was deleted again."
            )
        return comment

    def _update(self, comment: Comment, body: str) -> bool:
        """False when somebody deleted the comment in the meantime."""
        try:
            self.api.request(
                "PATCH",
                f"/repos/{self.repository}/issues/comments/{comment.id}",
                json={"body": body},
            )
        except GitHubError as error:
            if error.status in (404, 410):
                return False
            raise
        return True

    def delete(self, comment: Comment) -> None:
        """Deletes a comment; one that is gone already is fine."""
        try:
            self.api.request("DELETE", f"/repos/{self.repository}/issues/comments/{comment.id}")
        except GitHubError as error:
            if error.status not in (404, 410):
                raise

    def minimise(self, comment: Comment) -> None:
        """Folds a comment away as outdated (`minimizeComment`)."""
        self.api.graphql(
            "mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) "
            "{ minimizedComment { isMinimized } } }",
            {"id": comment.node_id},
        )


def _url(comment: Comment | None) -> str:
    return comment.url if comment else ""
