"""What was spent, what will be, and what the ceiling says about it.

Prices are the Hub's (`list_jobs_hardware`), USD per minute by flavor; durations are each job's
running time as the Hub counts it (scheduling is free). A flavor without a price makes the sum
unknown (None), never smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from tbh_action.durations import format_duration

if TYPE_CHECKING:
    from tbh_action.server.hf_job import PaidJob


@dataclass(frozen=True, kw_only=True, slots=True)
class CostItem:
    """One paid job: `seconds` of running time so far, `usd` None when its price is unknown."""

    kind: str
    job_id: str
    flavor: str
    seconds: float
    usd: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Spend:
    """What the run's paid jobs have cost so far. None: the price of some flavor is unknown."""

    items: tuple[CostItem, ...]
    server_usd: float | None
    sandbox_usd: float | None

    @property
    def total_usd(self) -> float | None:
        return _sum([self.server_usd, self.sandbox_usd])

    def to_json(self, passed: int | None = None) -> dict[str, Any]:
        """The `cost` of results.json; `passed` is the number of passed trials."""
        total = self.total_usd
        return {
            "server_usd": _rounded(self.server_usd),
            "sandbox_usd": _rounded(self.sandbox_usd),
            "total_usd": _rounded(total),
            "per_passed_usd": _rounded(total / passed) if total is not None and passed else None,
            "items": [
                {
                    "kind": item.kind,
                    "job_id": item.job_id,
                    "flavor": item.flavor,
                    "seconds": round(item.seconds, 1),
                    "usd": _rounded(item.usd),
                }
                for item in self.items
            ],
        }


def spend(jobs: Iterable[PaidJob], prices: Mapping[str, float], now: datetime) -> Spend:
    """What `jobs` have cost until `now` (aware). Jobs that never got an id cost nothing."""
    items = tuple(_item(job, prices, now) for job in jobs if job.job_id)
    servers = [item.usd for item in items if item.kind == "server"]
    sandboxes = [item.usd for item in items if item.kind != "server"]
    return Spend(items=items, server_usd=_sum(servers), sandbox_usd=_sum(sandboxes))


def running_seconds(job: PaidJob, now: datetime) -> float:
    """Paid seconds so far: what the Hub said, or until now for a job that still runs. A job that
    outlived its own timeout without our seeing its end is counted up to that timeout."""
    if job.ended or job.started_at is None:
        return max(0.0, job.seconds)
    started = datetime.fromisoformat(job.started_at)
    elapsed = max(0.0, (now - started).total_seconds())
    if job.timeout is not None:
        elapsed = min(elapsed, job.timeout)
    return max(job.seconds, elapsed)


def _item(job: PaidJob, prices: Mapping[str, float], now: datetime) -> CostItem:
    seconds = running_seconds(job, now)
    price = prices.get(job.flavor)
    usd = None if price is None else seconds / 60 * price
    return CostItem(kind=job.kind, job_id=job.job_id, flavor=job.flavor, seconds=seconds, usd=usd)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What an hour costs now: all servers of the run together, and one sandbox. USD per hour."""

    servers: float
    sandbox: float


def rates(
    prices: Mapping[str, float], *, server_flavor: str | None, replicas: int, sandbox_flavor: str
) -> Rates | None:
    """None when a price is unknown; a server that is not ours (None) costs nothing."""
    server = 0.0 if server_flavor is None else prices.get(server_flavor)
    sandbox = prices.get(sandbox_flavor)
    if server is None or sandbox is None:
        return None
    return Rates(servers=server * replicas * 60, sandbox=sandbox * 60)


def projected(rate: Rates, *, seconds: Sequence[float], concurrency: int) -> float:
    """USD that trials of these expected seconds will still cost, run `concurrency` at a time.

    The servers are paid for the makespan, estimated by its lower bound (Graham): the longest
    trial, or the sum shared evenly.
    """
    if not seconds:
        return 0.0
    total = sum(seconds)
    makespan = max(*seconds, total / max(1, concurrency))
    return (makespan * rate.servers + total * rate.sandbox) / 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What the ceiling allows: everything, no new trial, or nothing (the running ones are ended
    as well, since each of their minutes would be above the ceiling)."""

    state: Literal["open", "no_new_trials", "drain"]
    reason: str


def budget(
    spent: float | None,
    max_cost: float | None,
    *,
    rate: Rates | None = None,
    running: Sequence[float] = (),
    candidate: float | None = None,
) -> Budget:
    """What may still be started.

    `running` are the expected remaining seconds of the running trials, `candidate` the expected
    seconds of the one that asks. A trial may start when what is spent, what it takes to end the
    running ones, and the trial itself stay within the ceiling: so the ceiling is met by not
    starting, and reached only when trials take longer than expected.
    """
    if max_cost is None:
        return Budget(state="open", reason="no ceiling")
    if spent is None:
        return Budget(state="no_new_trials", reason="--max-cost is set and a price is unknown")
    if spent >= max_cost:
        return Budget(
            state="drain", reason=f"spent ${spent:.2f}, the ceiling is ${max_cost:.2f} (--max-cost)"
        )
    if rate is None:
        return Budget(state="open", reason=f"${max_cost - spent:.2f} left")
    seconds = [*running] if candidate is None else [*running, candidate]
    more = projected(rate, seconds=seconds, concurrency=max(1, len(seconds)))
    if spent + more > max_cost:
        longest = format_duration(max(seconds))
        return Budget(
            state="no_new_trials",
            reason=f"spent ${spent:.2f}; to end {len(seconds)} trials (up to {longest}) would "
            f"bring it to ${spent + more:.2f}, above ${max_cost:.2f} (--max-cost)",
        )
    return Budget(state="open", reason=f"${max_cost - spent:.2f} left")


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
