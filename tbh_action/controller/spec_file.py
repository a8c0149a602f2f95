"""`spec.json`: what was asked, resolved, with its fingerprint. Written once, then only compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.harbor.tasks import TaskList
from tbh_action.policy.shard import Shard, parse_shard
from tbh_action.rundir import RunDir, write_json
from tbh_action.scoring.fingerprint import fingerprint_of
from tbh_action.spec import RunSpec, validate_spec

SPEC_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A run's question on disk. `fields` is what the fingerprint is made of."""

    spec: RunSpec
    shard: Shard | None
    fields: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.fields)


def write_asked(run_dir: RunDir, spec: RunSpec, shard: Shard | None, tasks: TaskList) -> Asked:
    """Writes `spec.json`; what is learned from the tasks becomes a part of the fingerprint."""
    asked = Asked(spec=spec, shard=shard, fields=spec.result_fields() | learned(tasks))
    write_json(
        run_dir.spec,
        {
            "version": SPEC_VERSION,
            "spec": spec.model_dump(mode="json"),
            "shard": str(shard) if shard else None,
            "fingerprint": asked.fingerprint,
            "fingerprint_fields": asked.fields,
        },
    )
    return asked


def learned(tasks: TaskList) -> dict[str, Any]:
    """What decides the result and is known only once the tasks are there: their content."""
    lines = sorted(f"{task.name} {task.digest or task.git_commit or ''}" for task in tasks.tasks)
    digest = hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()
    return {"benchmark.n_planned": len(tasks.tasks), "benchmark.content": digest}


def read_asked(run_dir: RunDir) -> Asked | None:
    """The question in `spec.json`, None when there is none yet.

    Raises:
        SpecError: the file is not one of this version.
    """
    try:
        document = json.loads(run_dir.spec.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SpecError(f"Cannot read {run_dir.spec}: {error}") from error
    try:
        if document["version"] != SPEC_VERSION:
            raise ValueError(document["version"])
        return Asked(
            spec=validate_spec(document["spec"]),
            shard=parse_shard(document["shard"]) if document["shard"] else None,
            fields=dict(document["fingerprint_fields"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SpecError(
            f"{run_dir.spec} is damaged or of another version of tbh; start a new run."
        ) from error


def refuse_another(run_dir: RunDir, asked: Asked, spec: RunSpec, shard: Shard | None) -> None:
    """A run directory holds one run: another question is refused.

    Raises:
        SpecError: with the fields that differ.
    """
    ours, theirs = (
        each.result_fields() | {"benchmark.revision": each.benchmark.revision}
        for each in (spec, asked.spec)
    )
    different = sorted(
        key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
    )
    if shard != asked.shard:
        different.append("shard")
    if different:
        raise SpecError(
            f"{run_dir.root} holds another run (different: {', '.join(different[:6])}); "
            "give another --name or --run-dir."
        )
