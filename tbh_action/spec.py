"""What was asked: everything that decides the result of a run, resolved into one value.

A spec is made from a model recipe, a benchmark recipe, `tbh.toml`, `TBH_*` variables and flags;
what comes later wins. Its fingerprint says which runs may be compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from tbh_action.durations import parse_duration
from tbh_action.errors import SpecError
from tbh_action.scoring.fingerprint import fingerprint_of, flatten

DEFAULT_BENCHMARK: Final = "terminal-bench-2.1"
# The longest single model call that is waited for. Everything that must outlast a model call (the
# agent's client, the gateway, the sandbox's idle timeout) is derived from this one number.
DEFAULT_MAX_CALL: Final = 1800.0


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False
    )


def _json(value: dict[str, Any]) -> dict[str, Any]:
    """TOML has dates and NaN; Harbor's config and the fingerprint have not."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"only JSON values can be passed on ({error})") from error
    return value


Kwargs = Annotated[dict[str, Any], AfterValidator(_json)]


class ModelSpec(_Part):
    """The model under test: its name as the server knows it, and its revision on the Hub."""

    name: str = Field(min_length=1)
    revision: str | None = None
    context_length: int | None = Field(default=None, gt=0)
    max_output_tokens: int | None = Field(default=None, gt=0)


class ServerSpec(_Part):
    """How the model is served as a Hugging Face Job. Times are seconds."""

    engine: Literal["sglang", "vllm", "llama.cpp", "other"] = "other"
    image: str
    flavor: str
    port: int = Field(gt=0, lt=65_536)
    command: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = {}
    timeout: float = 4 * 3600.0
    schedule_timeout: float = 3600.0
    load_timeout: float = 1800.0
    replicas: int = Field(default=1, ge=1)
    mount_model: bool = False

    @field_validator("timeout", "schedule_timeout", "load_timeout", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> float:
        return parse_duration(value)


class BenchmarkSpec(_Part):
    """Which tasks: exactly one of `repo` (git), `path` (local) and `dataset` (registry name)."""

    name: str
    repo: str | None = None
    path: str | None = None
    dataset: str | None = None
    revision: str | None = None
    include_task: tuple[str, ...] = ()
    exclude_task: tuple[str, ...] = ()
    n_tasks: int | None = Field(default=None, gt=0)

    @field_validator("repo")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        """Git also takes paths and `user@host:path`; only a password must not be there."""
        if value is not None and urlsplit(value).password is not None:
            raise ValueError(
                "a password in the address would be written to files; let git know it "
                "(`git credential`, or `hf auth login --add-to-git-credential`)"
            )
        return value

    @model_validator(mode="after")
    def _one_source(self) -> BenchmarkSpec:
        given = [source for source in (self.repo, self.path, self.dataset) if source]
        if len(given) != 1:
            raise ValueError("give exactly one source of tasks: repo, path or dataset")
        return self


class AgentSpec(_Part):
    """Harbor's agent, its kwargs, and a cap on its time (seconds, before the multiplier)."""

    name: str = "terminus-2"
    kwargs: Kwargs = {}
    max_time: float | None = None

    @field_validator("max_time", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> float | None:
        return None if value is None else parse_duration(value)


class EnvironmentSpec(_Part):
    """Harbor's environment for each task, and its kwargs."""

    type: str = "hf-sandbox"
    kwargs: Kwargs = {}

    @property
    def flavor(self) -> str:
        """The sandbox's flavor (Harbor's own default is cpu-basic)."""
        return str(self.kwargs.get("flavor", "cpu-basic"))


class RunSpec(_Part):
    """One question: how good is this model, so served, on these tasks, with this agent."""

    model: ModelSpec
    server: ServerSpec | None = None
    endpoint: str | None = None
    benchmark: BenchmarkSpec
    agent: AgentSpec = AgentSpec()
    environment: EnvironmentSpec = EnvironmentSpec()
    namespace: str | None = None
    n_attempts: int = Field(default=1, ge=1)
    n_concurrent: int = Field(default=3, ge=1)
    min_concurrent: int = Field(default=1, ge=1)
    max_passes: int = Field(default=4, ge=1)
    agent_timeout_multiplier: float = Field(default=1.0, gt=0)
    max_call: float = DEFAULT_MAX_CALL

    @field_validator("max_call", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> float:
        return parse_duration(value)

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{value!r} is no address; write it like https://host:8000/v1")
            if parts.username is not None or parts.query or parts.fragment:
                raise ValueError(
                    "a user, password or query in the address would be written to files; the "
                    "server's key is the variable OPENAI_API_KEY"
                )
        return value

    @model_validator(mode="after")
    def _whole(self) -> RunSpec:
        if (self.server is None) == (self.endpoint is None):
            raise ValueError("give either a server (a model recipe) or an endpoint, not both")
        if self.min_concurrent > self.n_concurrent:
            raise ValueError("min_concurrent is above n_concurrent")
        return self

    def result_fields(self) -> dict[str, Any]:
        """What decides the result, flat (`benchmark.revision` → value): the fingerprint's input.

        Concurrency, passes, names and money are left out: they decide how long a run takes and
        whether it ends, not what a task's outcome means.
        """
        parts: dict[str, Any] = {
            "model": self.model.model_dump(),
            "server": self.server.model_dump(
                include={"engine", "image", "flavor", "command", "env"}
            )
            if self.server
            else {"endpoint": True},
            "benchmark": self.benchmark.model_dump(exclude={"name", "path", "revision"}),
            "agent": self.agent.model_dump(),
            "environment": self.environment.model_dump(),
            "n_attempts": self.n_attempts,
            "agent_timeout_multiplier": self.agent_timeout_multiplier,
            "max_call": self.max_call,
        }
        if self.benchmark.path:
            parts["benchmark"]["path"] = Path(self.benchmark.path).name
        return flatten(parts)

    def fingerprint(self, resolved: dict[str, Any] | None = None) -> str:
        """SHA-256 over the result fields and what was learned later (a benchmark's commit)."""
        return fingerprint_of(self.result_fields() | (resolved or {}))


def validate_spec(document: dict[str, Any]) -> RunSpec:
    """A spec from plain values.

    Raises:
        SpecError: every problem at once, each with its place.
    """
    try:
        return RunSpec.model_validate(document)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'spec'}: "
            f"{item['msg'].removeprefix('Value error, ')}"
            for item in error.errors()
        )
        raise SpecError(f"The spec is not usable: {problems}.") from error
