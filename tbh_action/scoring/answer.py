"""From a run's files to its answer: results.json, then the report. It can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.comparison.baseline import Baseline, baseline_or_reason
from tbh_action.comparison.judge import Judgement, judged
from tbh_action.controller.spec_file import Asked
from tbh_action.controller.state import RunState
from tbh_action.harbor import archive
from tbh_action.harbor.logs import MAX_ALL_TAILS, log_tail
from tbh_action.policy import cost
from tbh_action.redact import Redactor
from tbh_action.report.markdown import Links
from tbh_action.report.write import write_all
from tbh_action.rundir import RunDir, read_lines
from tbh_action.scoring import ledger, results
from tbh_action.scoring.ledger import Attempt
from tbh_action.scoring.outcomes import plan_of

_OUTAGES: Final = ("gateway_outage", "server_outage")
_PASS_KEYS: Final = (
    "number", "kind", "started_at", "finished_at", "trials", "repeated", "repaired", "exit_code",
    "reason",
)  # fmt: skip


def make_results(
    run_dir: RunDir,
    asked: Asked,
    state: RunState,
    tasks: Iterable[str],
    *,
    provenance: Mapping[str, Any],
    warnings: Iterable[str] = (),
) -> dict[str, Any]:
    """The results document of a run as its files have it now, without comparison and gate."""
    attempts = ledger.read_attempts(run_dir.attempts)
    spend = cost.spend(state.paid, state.prices, datetime.now(UTC))
    facts = results.RunFacts(
        name=run_dir.name,
        started_at=state.started_at,
        finished_at=state.finished_at,
        complete=state.status == "complete",
        stop_reason=state.stop_reason,
        model={"name": asked.spec.model.name, "revision": asked.spec.model.revision},
        benchmark={
            "name": asked.spec.benchmark.name,
            "source": _source(asked),
            "revision": state.benchmark_commit or asked.spec.benchmark.revision,
        },
        agent={"name": asked.spec.agent.name, "kwargs": asked.spec.agent.kwargs},
        fingerprint=asked.fingerprint,
        fingerprint_fields=asked.fields,
        n_attempts=asked.spec.n_attempts,
        passes=[{key: asdict(record)[key] for key in _PASS_KEYS} for record in state.passes],
        outages=list(_events(run_dir, _OUTAGES, ("started_at", "finished_at", "reason"))),
        concurrency=list(_events(run_dir, ("concurrency",), ("at", "limit", "reason"))),
        cost=spend.to_json() if state.prices else None,
        provenance=provenance,
        warnings=list(warnings),
    )
    plan = plan_of(tasks, asked.spec.n_attempts)
    return results.build(facts, plan, attempts, log_tails=log_tails(run_dir, attempts))


def write_answer(
    run_dir: RunDir,
    document: Mapping[str, Any],
    judgement: Judgement,
    *,
    links: Links | None = None,
    templates: Path | None = None,
) -> dict[str, Any]:
    """Judges, redacts and writes results.json and the report; returns what was written.

    Raises:
        SpecError: the baseline or a template is not usable.
    """
    baseline: Baseline | None = None
    if judgement.baseline is not None:
        baseline = baseline_or_reason(judgement.baseline, document)
    redactor = Redactor.from_environment()
    final: dict[str, Any] = redactor.document(judged(document, baseline, judgement))
    results.write(run_dir.results, final)
    write_all(final, run_dir.report, templates=templates, links=links, redactor=redactor)
    return final


def log_tails(run_dir: RunDir, attempts: Iterable[Attempt]) -> dict[str, str]:
    """The end of the log of each trial that did not pass, by trial; bounded in all."""
    tails: dict[str, str] = {}
    room = MAX_ALL_TAILS
    for attempt in attempts:
        directory = None if attempt.passed else archive.find_trial(run_dir, attempt.trial)
        tail = log_tail(directory, scored=attempt.scored) if directory else None
        if tail and len(tail) <= room:
            tails[attempt.trial] = tail
            room -= len(tail)
    return tails


def _source(asked: Asked) -> str | None:
    benchmark = asked.spec.benchmark
    if benchmark.path:
        return Path(benchmark.path).name
    return benchmark.repo or benchmark.dataset


def _events(
    run_dir: RunDir, kinds: tuple[str, ...], keys: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    for event in read_lines(run_dir.events):
        if event.get("event") in kinds:
            yield {key: event.get(key) for key in keys}
