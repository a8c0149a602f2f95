"""Results documents taken apart again, and several (shards, legs) joined into one.

Pure: nothing is read, and the order of the documents does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tbh_action.harbor.documents import instant
from tbh_action.harbor.trial import Tokens
from tbh_action.scoring.ledger import Attempt
from tbh_action.scoring.outcomes import Plan
from tbh_action.scoring.results import RunFacts, build, dumps

type Results = Mapping[str, Any]


def combine(
    documents: Iterable[Results], *, name: str, n_attempts: int | None = None
) -> dict[str, Any]:
    """One document from several that answer the same question for different (or the same) trials.

    Whether they may be joined (fingerprints, overlaps, missing shards) is the caller's decision.
    Slots that stand in several documents stand in the result once.
    """
    ordered = sorted(documents, key=dumps)
    plan = _plan(ordered, n_attempts)
    attempts = [attempt for document in ordered for attempt in attempts_of(document)]
    tails = {
        row["trial"]: row["log_tail"]
        for document in ordered
        for row in document["tasks"]
        if row["trial"] and row.get("log_tail")
    }
    return build(_facts(ordered, name, plan), plan, _latest(attempts), log_tails=tails)


def attempts_of(document: Results) -> list[Attempt]:
    """The trials that a document tells of: those that count, and those that they superseded."""
    times = {item["trial"]: item for item in document["timeline"]["trials"]}
    attempts = []
    for row in document["tasks"]:
        if row["trial"]:
            attempts.append(_attempt(row["task"], row, times.get(row["trial"], {})))
        for old in row["superseded_trials"]:
            attempts.append(_attempt(row["task"], old, times.get(old["trial"], {})))
    return attempts


def plan_of_results(document: Results) -> Plan:
    """The slots of each task in a document."""
    return Plan(slots=dict(Counter(row["task"] for row in document["tasks"])), sure=True)


def facts_of_results(document: Results) -> RunFacts:
    """What a document says besides its trials; warnings about trials are left to be found again."""
    return RunFacts(
        name=document["run"]["name"],
        started_at=document["run"]["started_at"],
        finished_at=document["run"]["finished_at"],
        complete=document["run"]["complete"],
        stop_reason=document["run"]["stop_reason"],
        model=document["model"],
        benchmark=document["benchmark"],
        agent=document["agent"],
        fingerprint=document["fingerprint"],
        fingerprint_fields=document["fingerprint_fields"],
        n_attempts=document["n_attempts"],
        passes=document["passes"],
        outages=document["timeline"]["outages"],
        concurrency=document["timeline"]["concurrency"],
        cost=document["cost"],
        provenance=document["provenance"],
    )


def _attempt(task: str, row: Mapping[str, Any], times: Mapping[str, Any]) -> Attempt:
    tokens = row.get("tokens")
    return Attempt(
        task=task,
        trial=row["trial"],
        failure_class=row["class"],
        scored=row["status"] != "errored",
        retryable=False,
        reason=row["reason"],
        pass_number=row["pass"],
        exceptions=(row["exception"],) if row["exception"] else (),
        message=row.get("message"),
        reward=row["reward"],
        started_at=instant(row["started_at"]),
        agent_started_at=instant(times.get("agent_started_at")),
        agent_finished_at=instant(times.get("agent_finished_at")),
        finished_at=instant(row["finished_at"]),
        tokens=Tokens(**tokens, cost_usd=None) if tokens else None,
    )


def _latest(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Each trial once; where two documents tell of one, the one that knows more."""
    best: dict[tuple[str, str], Attempt] = {}
    for attempt in attempts:
        key = (attempt.task, attempt.trial)
        if key not in best or _knows(attempt) > _knows(best[key]):
            best[key] = attempt
    return list(best.values())


def _knows(attempt: Attempt) -> tuple[int, str]:
    document = attempt.to_json()
    return (len(document), repr(sorted(document.items())))


def _plan(documents: Sequence[Results], n_attempts: int | None) -> Plan:
    slots: Counter[str] = Counter()
    for document in documents:
        slots |= Counter(plan_of_results(document).slots)
    if n_attempts is not None:
        slots = Counter(dict.fromkeys(slots, n_attempts))
    return Plan(slots=dict(slots), sure=True)


def _facts(documents: Sequence[Results], name: str, plan: Plan) -> RunFacts:
    first = documents[0]
    runs = [document["run"] for document in documents]
    reasons = sorted({run["stop_reason"] for run in runs if run["stop_reason"]})
    return RunFacts(
        name=name,
        started_at=min(filter(None, (run["started_at"] for run in runs)), default=None),
        finished_at=max(filter(None, (run["finished_at"] for run in runs)), default=None),
        complete=all(run["complete"] for run in runs),
        stop_reason="; ".join(reasons) or None,
        model=first["model"],
        benchmark=first["benchmark"],
        agent=first["agent"],
        fingerprint=first["fingerprint"],
        fingerprint_fields=first["fingerprint_fields"],
        n_attempts=max(plan.slots.values(), default=1),
        passes=_joined(document["passes"] for document in documents),
        outages=_joined(document["timeline"]["outages"] for document in documents),
        concurrency=_joined(document["timeline"]["concurrency"] for document in documents),
        cost=_cost([document["cost"] for document in documents]),
        provenance=first["provenance"],
    )


def _joined(lists: Iterable[Iterable[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """All entries once, by time."""
    unique = {dumps(item): item for items in lists for item in items}
    return [unique[key] for key in sorted(unique, key=lambda key: (_when(unique[key]), key))]


def _when(item: Mapping[str, Any]) -> str:
    return str(item.get("started_at") or item.get("at") or "")


def _cost(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the paid jobs, each once, as the last to see it saw it; unknown with any price."""
    longest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for item in _joined(cost["items"] for cost in costs):
        key = (item["kind"], item["job_id"])
        if key not in longest or item["seconds"] > longest[key]["seconds"]:
            longest[key] = item
    items = list(longest.values())
    if not items:
        known = [cost["total_usd"] for cost in costs]
        total = sum(known) if all(value is not None for value in known) else None
        return {"server_usd": None, "sandbox_usd": None, "total_usd": total, "items": []}
    server = _usd([item for item in items if item["kind"] == "server"])
    sandbox = _usd([item for item in items if item["kind"] != "server"])
    total = None if server is None or sandbox is None else round(server + sandbox, 4)
    return {
        "server_usd": server,
        "sandbox_usd": sandbox,
        "total_usd": total,
        "items": items,
    }


def _usd(items: Iterable[Mapping[str, Any]]) -> float | None:
    values = [item["usd"] for item in items]
    return None if None in values else round(sum(values), 4)
