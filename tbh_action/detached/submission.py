"""What a detached run is asked to do, in a form that needs nothing of the machine that asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.publishing.reproduce import argv_of, options_of
from tbh_action.spec import RunSpec

FILE: Final = "submission.json"
# Where recipe files lie beside the controller.
_FILES: Final = Path("asked")
_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """`arguments` are those of `tbh run`; `files` are the recipes that they name, by path.
    `spec` is the whole question, `package` what pip installs."""

    name: str
    namespace: str
    arguments: tuple[str, ...]
    files: Mapping[str, str]
    spec: Mapping[str, Any]
    package: str
    asked_at: str
    version: int = field(default=_VERSION)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Submission:
        """Raises:
        SpecError: it is of another version.
        """
        if document.get("version") != _VERSION:
            raise SpecError("This run was submitted by another version of tbh.")
        return cls(**{**document, "arguments": tuple(document["arguments"])})


def submission(
    spec: RunSpec,
    *,
    name: str,
    namespace: str,
    package: str,
    limits: Mapping[str, Any],
    asked_at: str,
) -> Submission:
    """What the controller is to do. `limits`: `shard` and `max_cost`, None where not given.

    Raises:
        SpecError: the tasks are a folder of this machine.
    """
    if spec.benchmark.path:
        raise SpecError(
            f"A detached run cannot see the folder {spec.benchmark.path}: put the tasks into a "
            "git repository (--repo URL), or use `tbh run`."
        )
    # Server and sandboxes belong to whoever pays for the controller.
    document = spec.model_dump()
    document["namespace"] = namespace
    owned = RunSpec.model_validate(document)
    options, files = options_of(owned, _FILES)
    words = list(argv_of(options)[2:])
    for key in ("shard", "max_cost"):
        if limits.get(key) is not None:
            words += [f"--{key.replace('_', '-')}", f"{limits[key]}"]
    return Submission(
        name=name,
        namespace=namespace,
        arguments=tuple(words),
        files={path.as_posix(): text for path, text in files.items()},
        spec=owned.model_dump(mode="json"),
        package=package,
        asked_at=asked_at,
    )


def differences(old: Submission, new: Submission) -> list[str]:
    """The fields in which two submissions ask for different results."""
    ours = RunSpec.model_validate(dict(new.spec)).result_fields()
    theirs = RunSpec.model_validate(dict(old.spec)).result_fields()
    found = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    return found + ["shard"] * (_shard(old) != _shard(new))


def _shard(asked: Submission) -> str | None:
    words = asked.arguments
    return words[words.index("--shard") + 1] if "--shard" in words else None
