"""Where a run stands: `state.json`, replaced as a whole at each change.

Everything paid is in it before it is waited for, so that the next process (or `tbh cleanup`) can
stop or adopt what a killed one left.
"""

from __future__ import annotations

import hashlib
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
# A label holds 63 characters: a run's name, two dashes and six digits that no other run has.
_STEM_LENGTH: Final = 50
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
        """What of this run may still cost money, as far as is known."""
        return [job for job in self.paid if not job.ended and not job.borrowed]


def new_state(name: str) -> RunState:
    """The state of a run that has just been asked for."""
    return RunState(run_id=f"{_stem(name)}--{secrets.token_hex(3)}", started_at=utc_now())


def _stem(name: str) -> str:
    """What the labels of a run begin with: its name, or where that is too long or holds what no
    label may, a part of it and its digest. Two names never share one."""
    label = label_value(name)
    if label == name and len(label) <= _STEM_LENGTH:
        return label
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:6]
    return f"{label[: _STEM_LENGTH - 7]}-{digest}"


def belongs_to(run_label: str, name: str) -> bool:
    """Whether the run label of a paid job is one that a run called `name` gives."""
    if run_label == label_value(name):
        return True
    return bool(re.fullmatch(re.escape(_stem(name)) + r"--[0-9a-f]{6}", run_label))


def save(run_dir: RunDir, state: RunState) -> None:
    """Writes `state.json` atomically."""
    write_json(run_dir.state, asdict(state))


def load(run_dir: RunDir) -> RunState | None:
    """The state on disk, None when there is none.

    Raises:
        SpecError: the file is not a state of this version.
    """
    try:
        document = json.loads(run_dir.state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SpecError(f"Cannot read {run_dir.state}: {error}") from error
    try:
        if document["version"] != STATE_VERSION:
            raise ValueError(document["version"])
        return _state(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(
            f"{run_dir.state} is damaged or of another version of tbh; start a new run."
        ) from error


def _state(document: dict[str, Any]) -> RunState:
    passes = [PassRecord(**record) for record in document["passes"]]
    paid = {
        kind: [
            PaidJob(**{key: value for key, value in job.items() if key in _PAID_FIELDS})
            for job in document[kind]
        ]
        for kind in ("servers", "sandboxes")
    }
    return RunState(**document | {"passes": passes} | paid)
