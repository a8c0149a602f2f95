"""`tbh comment`: the pull request comment (or the issue) of a run, apart from the run itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tbh_action.errors import SpecError

if TYPE_CHECKING:
    from tbh_action.github.surface import Page

_STATES: Final = ("in_progress", "finish", "minimise", "delete", "issue")


@click.command("comment")
@click.argument("run_dir", type=click.Path(path_type=Path), required=False)
@click.option("--results", type=click.Path(path_type=Path), help="A results.json instead.")
@click.option("--pr", type=click.IntRange(min=1), help="The pull request [of the CI's event].")
@click.option("--repo", "repository", metavar="OWNER/NAME", help="[GITHUB_REPOSITORY]")
@click.option(
    "--comment",
    "mode",
    type=click.Choice(["auto", "always", "on-change", "never"]),
    default="auto",
    show_default=True,
    help="`on-change` writes when a task flipped, the gate failed, or a comment is there already.",
)
@click.option(
    "--comment-key",
    "--key",
    "key",
    default="",
    envvar="TBH_COMMENT_KEY",
    help="Tells apart comments of one job.",
)
@click.option("--title", default="Terminal-Bench", help="What is running, for --in-progress.")
@click.option("--in-progress", is_flag=True, help="Say that a run is on its way.")
@click.option("--finish", is_flag=True, help="End an `in progress` that nobody else ended.")
@click.option("--minimise", is_flag=True, help="Fold the comment away as outdated.")
@click.option("--delete", is_flag=True, help="Delete the comment.")
@click.option(
    "--issue", is_flag=True, help="Open, update or close an issue instead: is the model worse?"
)
def comment_command(run_dir: Path | None, results: Path | None, **options: Any) -> None:
    """Create or update the comment of a run: one for each workflow, job, matrix leg and key.

    The token is GITHUB_TOKEN; it needs `pull-requests: write` (`issues: write` for --issue).
    Failures warn: they change no exit code but that of wrong usage.
    """
    from tbh_action.github.api import GitHubError
    from tbh_action.github.runner import Runner
    from tbh_action.github.surface import open_page

    states = [name for name in _STATES if options[name]]
    if len(states) > 1:
        raise SpecError(f"Give only one of --{', --'.join(states)}.".replace("_", "-"))
    runner = Runner()
    page = open_page(
        mode=options["mode"],
        key=options["key"],
        number=options["pr"],
        repository=options["repository"] or "",
        env=os.environ,
        runner=runner,
    )
    state = states[0] if states else "result"
    try:
        _write(page, state, run_dir, results, options)
    except GitHubError as error:
        runner.warn("No comment", error.message)


def _write(
    page: Page, state: str, run_dir: Path | None, file: Path | None, options: dict[str, Any]
) -> None:
    from tbh_action.github.marker import digest

    if state in ("result", "issue"):
        results, text = _results(run_dir, file)
        if state == "issue":
            _issue(page, results, text, options["repository"])
        elif _has_thread(page, options):
            page.comment(results, text)
        return
    if not _has_thread(page, options):
        return
    assert page.thread is not None
    if state == "in_progress":
        page.announce(options["title"])
    elif state == "finish":
        page.close("was interrupted")
    else:
        for comment in page.thread.ours(digest(page.key)):
            if state == "minimise":
                page.thread.minimise(comment)
            else:
                page.thread.delete(comment)


def _has_thread(page: Page, options: dict[str, Any]) -> bool:
    if page.thread is None and page.mode == "auto" and page.context.event and not options["pr"]:
        click.echo("No comment: this run belongs to no pull request, or has no GITHUB_TOKEN.")
    elif page.thread is None and page.mode != "never":
        page.runner.warn(
            "No comment",
            "it needs GITHUB_TOKEN, a repository and a pull request (--repo, --pr, or an event "
            "that has one)",
        )
    return page.thread is not None


def _results(run_dir: Path | None, file: Path | None) -> tuple[dict[str, Any], Path]:
    """The document, and where the comment's text is (rendered beside it where it is missing)."""
    from tbh_action.scoring.results import read

    if (run_dir is None) == (file is None):
        raise SpecError("Give a run directory or --results FILE.")
    path = file if file is not None else Path(run_dir or "") / "results.json"
    results = read(path)
    text = path.parent / "report" / "comment.md"
    if not text.exists():
        from tbh_action.report.write import write_all

        write_all(results, text.parent)
    return results, text


def _issue(page: Page, results: dict[str, Any], text: Path, repository: str | None) -> None:
    from tbh_action.escape import one_line, shorten
    from tbh_action.github.annotations import headline
    from tbh_action.github.api import GitHubApi
    from tbh_action.github.comments import compose
    from tbh_action.github.issues import update_issue
    from tbh_action.github.marker import Marker, digest
    from tbh_action.report.limits import fit_comment

    context = page.context
    where, token = repository or context.repository, os.environ.get("GITHUB_TOKEN", "")
    if not where or not token:
        page.runner.warn("No issue", "it needs GITHUB_TOKEN and a repository (--repo)")
        return
    model = (results.get("model") or {}).get("name") or "model"
    benchmark = (results.get("benchmark") or {}).get("name") or "benchmark"
    marker = Marker(
        key=digest(f"issue\n{model}\n{benchmark}"),
        run_number=context.run_number,
        attempt=context.run_attempt,
    )
    body = compose(marker, text.read_text(encoding="utf-8"))
    if context.run_url:
        body += f"\n[The run](<{context.run_url}>)\n"
    gate = results.get("gate") or {}
    worse = bool(gate.get("failed")) or (results.get("comparison") or {}).get("verdict") == (
        "regression"
    )
    with GitHubApi(token, url=context.api_url) as api:
        done = update_issue(
            api,
            where,
            marker,
            title=shorten(one_line(f"{model} is worse on {benchmark}: {headline(results)}"), 250),
            body=fit_comment(body),
            worse=worse,
        )
    click.echo(f"issue: {done.action} {done.url}".rstrip())
