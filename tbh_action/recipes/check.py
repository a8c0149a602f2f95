"""A recipe tried for a minute: its server is started, asked one thing, and always stopped."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from tbh_action.controller import state
from tbh_action.durations import format_duration
from tbh_action.errors import IncompleteError, NotStartedError
from tbh_action.policy import cost
from tbh_action.policy.hardware import flavors_of, prices_of
from tbh_action.rundir import RunDir
from tbh_action.server.bring_up import POLL, ReadyServer, until_ready
from tbh_action.server.health import auth
from tbh_action.server.hub_errors import explain, hub_errors
from tbh_action.server.paid_servers import PaidServers

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

QUESTION: Final = "What is 17 times 23? Think briefly, then answer with the number."
_ANSWER_TOKENS: Final = 2048
_ANSWER_SECONDS: Final = 300.0
# The job ends by itself that long after the latest moment at which it could be of use to us.
_MARGIN: Final = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One completion: its text, whether thoughts came apart from it, tokens written, seconds."""

    text: str
    thoughts: bool
    tokens: int | None
    seconds: float
    finish_reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What was seen. `context_length`: the window that the server reports, if it does."""

    seconds_to_answer: float
    context_length: int | None
    answer: Answer
    usd: float | None


def bounded(spec: RunSpec) -> RunSpec:
    """`spec` with a server that lives no longer than the check can need it."""
    server = spec.server
    assert server is not None
    limit = min(server.timeout, server.load_timeout + _ANSWER_SECONDS + _MARGIN)
    return spec.model_copy(
        update={"server": server.model_copy(update={"timeout": limit, "replicas": 1})}
    )


async def try_recipe(
    api: HfApi,
    spec: RunSpec,
    run_dir: RunDir,
    *,
    say: Callable[[str], None],
    stopped: asyncio.Event,
    poll: float = POLL,
) -> Tried:
    """Starts the server, asks it one thing, cancels it. `stopped`: set it to give up early.

    Raises:
        NotStartedError: the server did not come up or did not answer.
        IncompleteError: stopped early, or the job may still be running.
    """
    spec = bounded(spec)
    known = state.new_state(run_dir.name)
    known.prices = await asyncio.to_thread(_prices, api)

    def record(job: PaidJob) -> None:
        known.record(job)
        state.save(run_dir, known)

    servers = PaidServers(api, spec, known.run_id, record=record)
    work = asyncio.ensure_future(_ask(api, spec, servers, say, poll))
    stop = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise IncompleteError("The check was stopped.")
        seconds, ready, answer = work.result()
    finally:
        work.cancel()
        stop.cancel()
        left = await servers.cancel_all()
        await asyncio.gather(work, stop, return_exceptions=True)
        if left:
            say(f"MAY STILL RUN: {left[0].job_id}; stop it: tbh cleanup --run {run_dir.name}")
    spent = cost.spend(servers.jobs, known.prices, datetime.now(UTC))
    return Tried(
        seconds_to_answer=seconds,
        context_length=ready.context_length,
        answer=answer,
        usd=spent.total_usd,
    )


async def _ask(
    api: HfApi, spec: RunSpec, servers: PaidServers, say: Callable[[str], None], poll: float
) -> tuple[float, ReadyServer, Answer]:
    assert spec.server is not None
    started = time.monotonic()
    job = await servers.create()
    say(
        f"server job {job.job_id} created on {spec.server.flavor}; it ends by itself after "
        f"{format_duration(spec.server.timeout)} at the latest"
    )
    ready = await until_ready(api, spec, job, record=servers.note, say=say, poll=poll)
    seconds = time.monotonic() - started
    return seconds, ready, await _complete(ready, spec.model.name)


async def _complete(ready: ReadyServer, model: str) -> Answer:
    body = {
        "model": model,
        "max_tokens": _ANSWER_TOKENS,
        "messages": [{"role": "user", "content": QUESTION}],
    }
    started = time.monotonic()
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as client:
            response = await client.post(
                f"{ready.base_url}/chat/completions", headers=auth(ready.token), json=body
            )
            response.raise_for_status()
            return read_answer(response.json(), time.monotonic() - started)
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
        raise NotStartedError(
            f"The server came up, but does not answer a question: {explain(error)}"
        ) from error


def read_answer(document: Any, seconds: float) -> Answer:
    """An OpenAI-style completion (KeyError, IndexError, TypeError when it is none)."""
    choice = document["choices"][0]
    message = choice["message"]
    usage = document.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return Answer(
        text=str(message.get("content") or ""),
        thoughts=bool(message.get("reasoning_content") or message.get("reasoning")),
        tokens=tokens if isinstance(tokens, int) else None,
        seconds=seconds,
        finish_reason=choice.get("finish_reason"),
    )


def remarks(spec: RunSpec, tried: Tried) -> list[str]:
    """What should be looked at in the recipe, one sentence each; [] when all is well."""
    found = []
    asked, seen = spec.model.context_length, tried.context_length
    if asked and seen and asked != seen:
        found.append(f"The recipe says a window of {asked:,}, the server reports {seen:,}.")
    if asked is None and seen is None:
        found.append("Neither recipe nor server says how long the window is: set context_length.")
    if re.search(r"</?think(ing)?>|<\|channel\|>", tried.answer.text):
        found.append("Thoughts stand in the answer: set a reasoning parser in the command.")
    if not tried.answer.text.strip():
        found.append(
            "The answer is empty"
            + (
                ", and was cut at its token limit."
                if tried.answer.finish_reason == "length"
                else "."
            )
        )
    return found


def new_check_dir(parent: Path, model: str) -> RunDir:
    """A directory for the record of one check.

    Raises:
        NotStartedError: it cannot be made.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rpartition("/")[2])[:40] or "model"
    root = (parent / f"check-{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}").expanduser().resolve()
    try:
        root.mkdir(parents=True)
    except OSError as error:
        raise NotStartedError(f"Cannot make the directory {root}: {error.strerror}.") from error
    return RunDir(root)


def _prices(api: HfApi) -> dict[str, float]:
    try:
        return prices_of(flavors_of(api.list_jobs_hardware()))
    except hub_errors(KeyError, ValueError):
        return {}
