"""Does a model server really answer? Four questions, the last one a real conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

PROBE_TIMEOUT: Final = 20.0
# A heavy reasoner thinks before its first word; the first completion also compiles kernels.
COMPLETION_TIMEOUT: Final = 300.0
_FAILED: Final = (httpx.HTTPError, httpx.InvalidURL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One look at a server.

    `refused`: the proxy or server rejected our token, which says nothing about the server's health.
    `wrong`: the server answers and says no to the question itself (another model, a chat template
    that takes no conversation): waiting will not change it.
    """

    ok: bool
    detail: str
    refused: bool = False
    wrong: bool = False
    context_length: int | None = None


def server_root(base_url: str) -> str:
    """The server's root for a base URL that ends in `/v1` (where `/health` lives)."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")


def auth(token: str | None) -> dict[str, str]:
    """The header that the jobs proxy and OpenAI-compatible servers want."""
    return {"Authorization": f"Bearer {token}"} if token else {}


async def probe_health(client: httpx.AsyncClient, base_url: str, token: str | None) -> Probe:
    """`GET /health` answers 200. A server without that route (404) is judged by its models."""
    try:
        response = await client.get(
            f"{server_root(base_url)}/health", headers=auth(token), timeout=PROBE_TIMEOUT
        )
    except _FAILED as error:
        return Probe(ok=False, detail=f"/health: {_words(error)}")
    if response.status_code == 404:
        return Probe(ok=True, detail="the server has no /health")
    return _judged("/health", response)


async def probe_models(
    client: httpx.AsyncClient, base_url: str, token: str | None, model: str
) -> Probe:
    """`GET /v1/models` names the model; the window that it reports is passed on."""
    url = f"{server_root(base_url)}/v1/models"
    try:
        response = await client.get(url, headers=auth(token), timeout=PROBE_TIMEOUT)
        judged = _judged("/v1/models", response)
        if not judged.ok:
            return judged
        entries = [entry for entry in response.json()["data"] if isinstance(entry, dict)]
    except _FAILED as error:
        return Probe(ok=False, detail=f"/v1/models: {_words(error)}")
    except (ValueError, KeyError, TypeError):
        return Probe(ok=False, detail="/v1/models: the answer is not a list of models")
    for entry in entries:
        if entry.get("id") == model:
            window = entry.get("max_model_len") or entry.get("context_length")
            return Probe(
                ok=True,
                detail="ok",
                context_length=window if type(window) is int and window > 0 else None,
            )
    names = ", ".join(str(entry.get("id")) for entry in entries[:3]) or "nothing"
    return Probe(ok=False, wrong=True, detail=f"the server serves {names}, not {model}")


async def probe_completion(
    client: httpx.AsyncClient,
    base_url: str,
    token: str | None,
    model: str,
    *,
    limit: float = COMPLETION_TIMEOUT,
) -> Probe:
    """A short conversation of several turns gets a choice back: the chat template works."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": 16,
        "messages": [
            {"role": "user", "content": "Say ready."},
            {"role": "assistant", "content": "ready"},
            {"role": "user", "content": "Say ready again."},
        ],
    }
    url = f"{server_root(base_url)}/v1/chat/completions"
    try:
        response = await client.post(url, headers=auth(token), json=body, timeout=limit)
        judged = _judged("/v1/chat/completions", response)
        if not judged.ok:
            return judged
        if not response.json()["choices"]:
            return Probe(ok=False, detail="a completion came back without a choice")
    except _FAILED as error:
        return Probe(ok=False, detail=f"/v1/chat/completions: {_words(error)}")
    except (ValueError, KeyError, TypeError):
        return Probe(ok=False, detail="a completion came back that is no chat completion")
    return Probe(ok=True, detail="ok")


async def probe_all(
    client: httpx.AsyncClient, base_url: str, token: str | None, model: str
) -> Probe:
    """Health, then models, then a conversation; the first failure, or ok with the window."""
    health = await probe_health(client, base_url, token)
    if not health.ok:
        return health
    models = await probe_models(client, base_url, token, model)
    if not models.ok:
        return models
    completion = await probe_completion(client, base_url, token, model)
    return models if completion.ok else completion


def _judged(what: str, response: httpx.Response) -> Probe:
    if response.status_code == 200:
        return Probe(ok=True, detail="ok")
    refused = response.status_code in (401, 403)
    # Not 404: a proxy may say that for a server whose port is not open yet.
    wrong = response.status_code in (400, 422)
    host = urlsplit(str(response.request.url)).netloc
    text = " ".join(response.text.split())[:200]
    detail = f"{what} at {host} answered {response.status_code}"
    if refused:
        detail += " (the token was refused)"
    words = f"{detail}: {text}" if text else detail
    return Probe(ok=False, refused=refused, wrong=wrong, detail=words)


def _words(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
