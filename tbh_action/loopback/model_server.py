"""An OpenAI-compatible server around the scripted model: what a loopback server job runs.

A process of its own, as on the Hub: it loads for a while (`/health` says 503), prints its log, and
can be killed. It listens on a Unix socket that the Hub's proxy forwards to, and ends when standard
input does, so that it never outlives the Hub.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tbh_action.loopback.plays import Reply, reply_to, text_of


class ModelServer:
    """The routes, and the moment from which the model is loaded."""

    def __init__(self, *, model: str, context: int, load: float, think: float) -> None:
        self.model = model
        self.context = context
        self.think = think
        self.loaded_at = time.monotonic() + load

    def app(self) -> Starlette:
        """The server as an ASGI application."""
        routes = [
            Route("/health", self.health),
            Route("/v1/models", self.models),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    @property
    def loading(self) -> bool:
        return time.monotonic() < self.loaded_at

    async def health(self, _: Request) -> Response:
        return Response(status_code=503 if self.loading else 200)

    async def models(self, _: Request) -> Response:
        if self.loading:
            return _error(503, "the model is loading")
        entry = {
            "id": self.model,
            "object": "model",
            "owned_by": "loopback",
            "max_model_len": self.context,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def chat(self, request: Request) -> Response:
        if self.loading:
            return _error(503, "the model is loading")
        try:
            body = await request.json()
            messages = body["messages"]
            reply = reply_to(messages)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return _error(400, f"bad request: {error}")
        if body.get("model") != self.model:
            return _error(404, f"The model `{body.get('model')}` does not exist.")
        usage = usage_of(messages, reply.text)
        if usage["total_tokens"] > self.context:
            asked = usage["total_tokens"]
            return _error(
                400,
                f"This model's maximum context length is {self.context} tokens. However, you "
                f"requested {asked} tokens.",
                code="context_length_exceeded",
            )
        await asyncio.sleep(max(self.think, reply.think))
        _log(f"chat task={reply.task or '-'} turn={reply.turn} tokens={usage['total_tokens']}")
        if body.get("stream"):
            return StreamingResponse(
                self._stream(reply, usage, body), media_type="text/event-stream"
            )
        return JSONResponse(self._completion(reply.text, usage))

    def _completion(self, text: str, usage: Mapping[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{secrets.token_hex(8)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }

    async def _stream(
        self, reply: Reply, usage: Mapping[str, Any], body: Mapping[str, Any]
    ) -> AsyncIterator[str]:
        head = self._head("chat.completion.chunk")
        for at in range(0, len(reply.text), 40):
            delta = {"role": "assistant", "content": reply.text[at : at + 40]}
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield _event({**head, "choices": [choice]})
            await asyncio.sleep(0)
        yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event({**head, "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"


def usage_of(messages: Sequence[Mapping[str, Any]], answer: str) -> dict[str, Any]:
    """Token counts, four characters each. All but the last message of a longer conversation was
    seen in the call before: that is what a prefix cache would hold."""
    sizes = [len(text_of(message)) // 4 + 4 for message in messages]
    cached = sum(sizes[:-1]) if len(sizes) > 1 else 0
    prompt, completion = sum(sizes), len(answer) // 4 + 1
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def _error(status: int, message: str, code: str | None = None) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "code": code or status}
    return JSONResponse({"error": error}, status_code=status)


def _log(line: str) -> None:
    print(line, flush=True)  # noqa: T201 (this is the job's log)


def _end_with_the_hub() -> None:
    while sys.stdin.buffer.read(1 << 10):
        pass
    os._exit(0)


def _announce_when_loaded(seconds: float, model: str) -> None:
    time.sleep(seconds)
    _log(f"Model {model} loaded in {seconds:.1f} s. The server is fired up and ready to roll!")


def main() -> None:
    """`python -m tbh_action.loopback.model_server --socket PATH --model NAME …`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--load", type=float, default=2.0, help="seconds until it is ready")
    parser.add_argument("--think", type=float, default=0.1, help="seconds for each reply")
    options = parser.parse_args()
    threading.Thread(target=_end_with_the_hub, daemon=True).start()
    _log(f"Loading {options.model} (scripted, context {options.context})")
    server = ModelServer(
        model=options.model, context=options.context, load=options.load, think=options.think
    )
    wait = threading.Thread(
        target=_announce_when_loaded, args=(options.load, options.model), daemon=True
    )
    wait.start()
    uvicorn.run(
        server.app(), uds=str(options.socket), log_level="error", lifespan="off", access_log=False
    )


if __name__ == "__main__":
    main()
