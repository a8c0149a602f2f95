"""A score on the model's page: `.eval_results/<benchmark>.yaml`, proposed as a pull request.

The format is the Hub's (huggingface.co/docs/hub/eval-results), written by the client's own
`EvalResultEntry`. The model's owner decides whether to merge.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml  # type: ignore[import-untyped]

from tbh_action.errors import IncompleteError, NotStartedError, SpecError
from tbh_action.harbor.documents import mapping
from tbh_action.publishing.leaderboard import doubts

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry, HfApi

_DATASET: Final = re.compile(r"(?:^|/)datasets/([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
_ORIGIN: Final = "Terminal-Bench run by tbh-action"

type Outcome = Literal["there already", "open already", "updated", "opened"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What became of a proposal; `url` is None when the model's page has the score already."""

    outcome: Outcome
    path: str
    url: str | None


def benchmark_dataset(results: Mapping[str, Any]) -> str:
    """The Hub dataset that the tasks came from.

    Raises:
        SpecError: they came from elsewhere.
    """
    source = str(mapping(results.get("benchmark")).get("source") or "")
    found = _DATASET.search(source)
    if found is None:
        raise SpecError(
            f"The tasks came from {source or 'an unknown place'}, which is no dataset on the Hub: "
            "a model's page can only show scores of benchmarks on the Hub."
        )
    return found[1]


def task_of(api: HfApi, dataset: str) -> str:
    """The benchmark's name for its task, from its own `eval.yaml`.

    Raises:
        NotStartedError: the dataset has no usable `eval.yaml`: it is no benchmark on the Hub.
    """
    text = _read(api, dataset, "eval.yaml", "dataset", "main")
    if text is None:
        raise NotStartedError(
            f"{dataset} has no eval.yaml, so it is no benchmark on the Hub, and no model's page "
            "can show its scores."
        )
    tasks = mapping(_yaml(text)).get("tasks")
    ids = [mapping(task).get("id") for task in tasks] if isinstance(tasks, list) else []
    if len(ids) != 1 or not isinstance(ids[0], str):
        raise NotStartedError(f"The eval.yaml of {dataset} names {len(ids)} tasks, not one.")
    return ids[0]


def entry_of(
    results: Mapping[str, Any], *, dataset: str, task: str, source_url: str
) -> EvalResultEntry:
    """The entry: percent of all planned trials, and the conditions in words.

    Raises:
        IncompleteError: the run is not complete: its number is none yet.
    """
    from huggingface_hub import EvalResultEntry

    rate = results["rates"]["all"]
    if not results["run"]["complete"] or rate is None:
        raise IncompleteError(
            "The run is not complete, so its score is not proposed for the model's page; "
            "`tbh resume` goes on with it."
        )
    revision = str(results["benchmark"].get("revision") or "")
    return EvalResultEntry(
        dataset_id=dataset,
        task_id=task,
        value=round(100 * rate, 1),
        dataset_revision=revision if re.fullmatch(r"[0-9a-f]{40}", revision) else None,
        date=results["run"]["finished_at"],
        source_url=source_url,
        source_name=_ORIGIN,
        notes=_notes(results),
    )


def _notes(results: Mapping[str, Any]) -> str:
    """How it was measured, on one line; what differs from the leaderboard's rules is a part."""
    counts, low_high = results["counts"], results["intervals"]["all"]
    parts = [
        f"agent: {results['agent']['name']}",
        f"{results['n_attempts']} attempt(s) a task",
        f"95 % interval {100 * low_high[0]:.1f} to {100 * low_high[1]:.1f}",
        f"{counts['errored']} of {counts['planned']} unscored and counted as failed",
        *doubts(results),
    ]
    return "; ".join(dict.fromkeys(parts))


def file_with(existing: str | None, entry: EvalResultEntry) -> str:
    """The file with `entry` in it; other people's entries stay.

    Raises:
        SpecError: the file that is there is no list of entries.
    """
    from huggingface_hub import eval_result_entries_to_yaml

    ours = eval_result_entries_to_yaml([entry])[0]
    others = _yaml(existing) if existing is not None else []
    if not isinstance(others, list) or not all(isinstance(item, dict) for item in others):
        raise SpecError("The model's .eval_results file is no list of entries; change it by hand.")
    kept = [item for item in others if not _is_ours(item, ours)]
    out = io.StringIO()
    yaml.safe_dump([*kept, ours], out, sort_keys=False, allow_unicode=True, width=1000)
    return out.getvalue()


def _is_ours(item: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """An entry of ours for the same task: the same score measured again."""
    there, here = mapping(item.get("dataset")), ours["dataset"]
    return (there.get("id"), there.get("task_id")) == (here["id"], here["task_id"]) and mapping(
        item.get("source")
    ).get("name") == _ORIGIN


def propose(api: HfApi, model: str, name: str, entry: EvalResultEntry) -> Proposal:
    """Opens a pull request with the entry on `model`, or brings ours that is open up to date.

    Calling it again changes nothing.
    """
    from huggingface_hub import CommitOperationAdd

    path = f".eval_results/{name}.yaml"
    title = f"Add the {name} result"
    current = _read(api, model, path, "model", "main")
    wanted = file_with(current, entry)
    if current == wanted:
        return Proposal(outcome="there already", path=path, url=None)
    operations = [CommitOperationAdd(path, wanted.encode())]
    author = str(api.whoami()["name"])
    for pull in api.get_repo_discussions(model, discussion_type="pull_request", author=author):
        if pull.title != title or pull.status not in ("open", "draft"):
            continue
        revision = f"refs/pr/{pull.num}"
        there = _read(api, model, path, "model", revision)
        wanted_there = file_with(there if there is not None else current, entry)
        if there == wanted_there:
            return Proposal(outcome="open already", path=path, url=pull.url)
        operations = [CommitOperationAdd(path, wanted_there.encode())]
        api.create_commit(model, operations, commit_message=title, revision=revision)
        return Proposal(outcome="updated", path=path, url=pull.url)
    commit = api.create_commit(
        model, operations, commit_message=title, commit_description=_words(entry), create_pr=True
    )
    return Proposal(outcome="opened", path=path, url=commit.pr_url)


def _words(entry: EvalResultEntry) -> str:
    return (
        f"{entry.value} % on [{entry.dataset_id}](https://huggingface.co/datasets/"
        f"{entry.dataset_id}), {entry.notes}.\n\nAll trials are at {entry.source_url}; "
        "`tbh verify` computes the score from them again."
    )


def _read(api: HfApi, repo: str, path: str, kind: str, revision: str) -> str | None:
    """A small text file of a repository; None when it is not there.

    Asked for by commit, so that no cache answers with an older one.
    """
    from huggingface_hub import hf_hub_download

    commit = api.repo_info(repo, repo_type=kind, revision=revision).sha
    if not api.get_paths_info(repo, [path], repo_type=kind, revision=commit):
        return None
    local = hf_hub_download(
        repo,
        path,
        repo_type=kind,
        revision=commit,
        endpoint=api.endpoint,
        token=api.token,
    )
    return Path(local).read_text(encoding="utf-8")


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
