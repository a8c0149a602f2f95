"""A run as GitHub shows it, from its first line to its last: two calls around the work.

    with begin(title="…", comment="auto") as page:
        …
        page.finish(results, report_dir, outputs={…})

`begin` looks for what would make the run pointless (a fork without secrets, a comment that must be
written and can't) before anything is paid. After that, reporting only ever warns. Outside GitHub
all of it does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from tbh_action.errors import NotStartedError
from tbh_action.github.annotations import choose, headline
from tbh_action.github.api import GitHubApi, GitHubError
from tbh_action.github.comments import Comment, Thread, author, compose
from tbh_action.github.context import Context, read_context
from tbh_action.github.marker import Marker, State, digest
from tbh_action.github.runner import Runner, in_github

Mode = Literal["auto", "always", "on-change", "never"]
MODES: Final[tuple[Mode, ...]] = ("auto", "always", "on-change", "never")
_SECRETS: Final = ("HF_TOKEN", "HF_ENDPOINT_TOKEN", "OPENAI_API_KEY", "GITHUB_TOKEN")
FORK_ADVICE: Final = (
    "The pull request comes from a fork, and GitHub gives such runs no secrets. A maintainer can "
    "measure it: dispatch the workflow for this commit after reading it (docs/workflows.md, "
    "“Pull requests from forks”), or set the input `forks: skip` to leave such runs out."
)


@dataclass(kw_only=True, slots=True)
class Page:
    """The comment, summary, outputs and annotations of one run."""

    context: Context
    runner: Runner
    mode: Mode = "never"
    key: str = ""
    thread: Thread | None = None
    finished: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.finished and self.thread is not None:
            interrupted = kind is None or not issubclass(kind, Exception)
            self.close("was interrupted" if interrupted else "did not start")

    def _marker(self, state: State) -> Marker:
        return Marker(
            key=digest(self.key),
            run_number=self.context.run_number,
            attempt=self.context.run_attempt,
            sha=self.context.sha if len(self.context.sha) >= 7 else "",
            state=state,
        )

    def announce(self, title: str) -> None:
        """Says in the comment that the run is on its way; an earlier result stays below it.

        Raises:
            GitHubError: it can't be written (then neither can the result).
        """
        if self.thread is None:
            return
        found = self.thread.ours(digest(self.key))
        if self.mode == "on-change" and not found:
            return
        marker = self._marker("in-progress")
        notice = f"> [!NOTE]\n> **{_plain(title)}** is running{self._where()}."
        self.thread.upsert(marker, _fitting(marker, _newest_body(found), notice))

    def finish(
        self,
        results: Mapping[str, Any],
        report_dir: Path,
        *,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        """Outputs, summary, annotations and comment of a run that has results."""
        self.finished = True
        if in_github(self.runner.env):
            self.runner.write_outputs(outputs_of(results, report_dir) | dict(outputs or {}))
            self._summary(report_dir / "summary.md")
            self.runner.annotate(choose(results))
        self.comment(results, report_dir / "comment.md")

    def _summary(self, file: Path) -> None:
        from tbh_action.report.limits import fit, utf8_bytes

        text = _read(file)
        if text and self.runner.env.get("GITHUB_STEP_SUMMARY"):
            room = max(self.runner.summary_room() - 1, 0)
            where = f"See [this run](<{self.context.run_url}>)." if self.context.run_url else ""
            self.runner.append_summary(fit(text, limit=room, size=utf8_bytes, where=where))

    def comment(self, results: Mapping[str, Any], file: Path) -> None:
        """Writes the result into the comment; a failure is a warning."""
        if self.thread is None:
            return
        text = _read(file) or headline(results)
        try:
            if self.mode == "on-change" and not (
                changed(results) or self.thread.ours(digest(self.key))
            ):
                return
            marker = self._marker("done")
            written = self.thread.upsert(marker, _fitting(marker, text))
            print(f"comment {written.action}: {written.url}", flush=True)  # noqa: T201
        except GitHubError as error:
            self.runner.warn("No comment", error.message)

    def close(self, what: str) -> None:
        """Ends an "in progress" comment of this run that nobody else ends; else does nothing."""
        self.finished = True
        if self.thread is None:
            return
        try:
            for comment in self.thread.ours(digest(self.key)):
                marker = self._marker("done")
                if comment.marker.state == "in-progress" and (
                    comment.marker.version <= marker.version
                ):
                    notice = f"> [!WARNING]\n> The last run {what}, so it has no result here"
                    body = _fitting(marker, comment.body, f"{notice}{self._where()}.")
                    self.thread.upsert(marker, body)
        except GitHubError as error:
            self.runner.warn("Comment left in progress", error.message)

    def _where(self) -> str:
        return f" ([log](<{self.context.run_url}>))" if self.context.run_url else ""


def begin(
    *,
    title: str,
    comment: str = "auto",
    comment_key: str = "",
    env: Mapping[str, str] | None = None,
    runner: Runner | None = None,
) -> Page:
    """Masks the secrets, and says in the comment that a run is on its way.

    Raises:
        NotStartedError: `comment: always` can't be kept, or there is nothing to pay with because
            the pull request comes from a fork.
    """
    environment = os.environ if env is None else env
    out = runner or Runner(environment)
    for name in _SECRETS:
        out.mask(environment.get(name))
    page = open_page(mode=comment, key=comment_key, env=environment, runner=out)
    pull_request = page.context.pull_request
    if pull_request is not None and pull_request.from_fork and not environment.get("HF_TOKEN"):
        raise NotStartedError(FORK_ADVICE)
    problem = _why_silent(page, environment)
    if not problem:
        try:
            page.announce(title)
        except GitHubError as error:
            problem = error.message
            page.thread = None
    if problem and page.mode == "always":
        raise NotStartedError(f"`comment: always` can't be kept: {problem}")
    if problem and page.mode != "never" and pull_request is not None:
        out.warn("There will be no comment", problem)
    return page


def _why_silent(page: Page, env: Mapping[str, str]) -> str:
    """Why no comment can be written, as far as that is known without a call; else nothing."""
    if page.thread is not None:
        return ""
    if page.context.pull_request is None:
        return "this run belongs to no pull request"
    if not env.get("GITHUB_TOKEN"):
        return "there is no GITHUB_TOKEN; pass `github-token: ${{ github.token }}`"
    return "it is turned off"


def open_page(
    *,
    mode: str,
    key: str = "",
    number: int | None = None,
    repository: str = "",
    env: Mapping[str, str],
    runner: Runner,
) -> Page:
    """The page of this job, connected to its comment thread when there is one to write to."""
    if mode not in MODES:
        raise NotStartedError(f"--comment takes {', '.join(MODES)}, not {mode!r}.")
    context = read_context(env)
    page = Page(context=context, runner=runner, mode=mode, key=context.key(key))
    where = repository or context.repository
    pull_request = context.pull_request.number if context.pull_request else None
    target = number if number is not None else pull_request
    token = env.get("GITHUB_TOKEN", "")
    if mode != "never" and token and where and target is not None:
        api = GitHubApi(token, url=context.api_url)
        page.thread = Thread(api=api, repository=where, number=target, author=author(api))
    return page


def changed(results: Mapping[str, Any]) -> bool:
    """Is there anything that a reviewer must hear about? Without a comparison: yes."""
    comparison = results.get("comparison")
    if not comparison:
        return True
    counts = comparison.get("counts") or {}
    flips = sum(counts.get(name) or 0 for name in ("fixed", "broken", "newly_unscored"))
    gate_failed = (results.get("gate") or {}).get("failed")
    return bool(flips or gate_failed or comparison.get("verdict") != "pass")


def outputs_of(results: Mapping[str, Any], report_dir: Path) -> dict[str, str]:
    """The action's outputs. A figure that is not known is an empty string."""
    counts, rates = results.get("counts") or {}, results.get("rates") or {}
    comparison, cost = results.get("comparison") or {}, results.get("cost") or {}
    servers = [item for item in cost.get("items") or [] if item.get("kind") == "server"]
    return {
        "pass-rate": _figure(rates.get("all")),
        "passed": _figure(counts.get("passed")),
        "failed": _figure(counts.get("failed")),
        "errored": _figure(counts.get("errored")),
        "complete": "true" if (results.get("run") or {}).get("complete") else "false",
        "verdict": str(comparison.get("verdict") or ""),
        "cost": _figure(cost.get("total_usd")),
        "results-json": str(report_dir.parent / "results.json"),
        "report-dir": str(report_dir),
        "run-dir": str(report_dir.parent),
        "server-job-id": str(servers[-1].get("job_id") or "") if servers else "",
    }


def _figure(value: float | None) -> str:
    return "" if value is None else f"{round(value, 6):g}"


def _plain(text: str) -> str:
    from tbh_action.escape import markdown_text, shorten

    return markdown_text(shorten(text, 200))


def _newest_body(found: list[Comment]) -> str:
    return max(found, key=lambda item: item.marker.version).body if found else ""


def _fitting(marker: Marker, text: str, notice: str = "") -> str:
    from tbh_action.report.limits import fit_comment

    return fit_comment(compose(marker, text, notice), where="The job summary has all of it.")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""
