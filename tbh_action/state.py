"""Where a run stands: `state.json`, replaced as a whole at each change.

Everything paid is in it before it is waited for, so that the next process (or `tbh cleanup`) can
stop or adopt what a killed one left.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.labels import label_value
from tbh_action.rundir import RunDir, utc_now, write_json
from tbh_action.server.hf_job import PaidJob

STATE_VERSION: Final = 1
_PAID_FIELDS: Final = frozenset(field.name for field in fields(PaidJob))


@dataclass(kw_only=True, slots=True)
class PassRecord:
    """One Harbor process over the run's job."""

    number: int
    kind: str
    started_at: str
    finished_at: str | None = None
    trials: int = 0
    repeated: int = 0
    repaired: int = 0
    exit_code: int | None = None
    reason: str = ""
    cut_short: bool = False


@dataclass(kw_only=True, slots=True)
class RunState:
    """The run's state. `run_id` is the label's value on everything paid."""

    run_id: str
    started_at: str
    status: str = "new"
    stop_reason: str | None = None
    finished_at: str | None = None
    passes: list[PassRecord] = field(default_factory=list)
    servers: list[PaidJob] = field(default_factory=list)
    sandboxes: list[PaidJob] = field(default_factory=list)
    prices: dict[str, float] = field(default_factory=dict)
    benchmark_commit: str | None = None
    context_length: int | None = None
    harbor_pid: int | None = None
    spend_usd: float | None = None
    version: int = STATE_VERSION

    def record(self, job: PaidJob) -> None:
        """Adds or replaces the record of a paid job (servers by nonce, sandboxes by id)."""
        known = self.servers if job.kind == "server" else self.sandboxes
        for place, old in enumerate(known):
            same = old.nonce == job.nonce if job.nonce else old.job_id == job.job_id
            if same:
                known[place] = job
                return
        known.append(job)

    @property
    def paid(self) -> list[PaidJob]:
        return [*self.servers, *self.sandboxes]

    @property
    def running(self) -> list[PaidJob]:
        """What may still cost money, as far as is known."""
        return [job for job in self.paid if not job.ended]


def new_state(name: str) -> RunState:
    """The state of a run that has just been asked for."""
    run_id = f"{label_value(name)[:50]}-{secrets.token_hex(3)}"
    return RunState(run_id=run_id, started_at=utc_now())


def belongs_to(run_label: str, name: str) -> bool:
    """Whether the run label of a paid job is one that a run called `name` gives."""
    wanted = label_value(name)
    return run_label == wanted or bool(
        re.fullmatch(re.escape(wanted[:50]) + r"-[0-9a-f]{6}", run_label)
    )


def save(run_dir: RunDir, state: RunState) -> None:
    """Writes `state.json` atomically."""
    write_json(run_dir.state, asdict(state))


def load(run_dir: RunDir) -> RunState | None:
    """The state on disk, None when there is none.

    Raises:
        SpecError: the file is not a state of this version.
    """
    try:
        document: dict[str, Any] = json.loads(run_dir.state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SpecError(f"Cannot read {run_dir.state}: {error}") from error
    if document.get("version") != STATE_VERSION:
        raise SpecError(f"{run_dir.state} is of another version of tbh; start a new run.")
    document["passes"] = [PassRecord(**record) for record in document["passes"]]
    for kind in ("servers", "sandboxes"):
        document[kind] = [
            PaidJob(**{key: value for key, value in job.items() if key in _PAID_FIELDS})
            for job in document[kind]
        ]
    return RunState(**document)
