"""One attempt: a request to one server, its answer passed on or kept until it is whole."""

from __future__ import annotations

from typing import Final

import httpx

from tbh_action.gateway.call import Answer, end_to_end
from tbh_action.gateway.retry import RETRIABLE_STATUSES, Trouble
from tbh_action.gateway.usage import StreamUsage, usage_in_json
from tbh_action.retry_after import parse_retry_after

# An answer up to this size is kept until it is whole, so that a server that dies in its middle
# costs a retry and not a trial. A larger one is passed on as it comes.
KEPT_ANSWER: Final = 8 << 20
_KEPT_REFUSAL: Final = 64 << 10


async def forward(
    transport: httpx.AsyncHTTPTransport, request: httpx.Request, answer: Answer
) -> Trouble | None:
    """Sends `request` and passes the server's answer to `answer`.

    Returns the trouble when the answer was not passed as a whole; `answer.started` then says
    whether the caller has a part of it.
    """
    try:
        # The transport, not a client: a client would follow redirects and keep cookies of one
        # trial for the next.
        response = await transport.handle_async_request(request)
        try:
            if response.status_code in RETRIABLE_STATUSES:
                return await _keep_refusal(response, answer)
            await _pass_on(response, answer)
        finally:
            await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        return Trouble(kind="refused", words=_words("the server can't be reached", error))
    except httpx.ReadTimeout:
        return Trouble(kind="silent", words="the server did not answer in time")
    except httpx.HTTPError as error:
        return Trouble(kind="reset", words=_words("the connection broke", error))
    return None


async def _pass_on(response: httpx.Response, answer: Answer) -> None:
    streamed = response.headers.get("content-type", "").startswith("text/event-stream")
    headers = end_to_end(response.headers.raw)
    reader = StreamUsage()
    kept: list[bytes] = []
    size = 0
    async for chunk in response.aiter_raw():
        if streamed:
            reader.feed(chunk)
        if answer.started:
            await answer.more(chunk)
            continue
        kept.append(chunk)
        size += len(chunk)
        if streamed or size > KEPT_ANSWER:
            await answer.start(response.status_code, headers)
            await answer.more(b"".join(kept))
            kept.clear()
    if answer.started:
        reader.feed(b"\n")
        answer.usage = reader.usage
        await answer.end()
        return
    body = b"".join(kept)
    await answer.whole(response.status_code, _without_length(headers), body)
    # After the caller has its answer: reading a large one must not delay it.
    answer.usage = reader.usage if streamed else usage_in_json(body)


async def _keep_refusal(response: httpx.Response, answer: Answer) -> Trouble:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _KEPT_REFUSAL:
            break
    headers = _without_length(end_to_end(response.headers.raw))
    answer.refusal = (response.status_code, headers, body)
    return Trouble(
        kind="status",
        status=response.status_code,
        words=f"the server answers {response.status_code}",
        retry_after=parse_retry_after(response.headers.get("retry-after")),
    )


def _without_length(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name != b"content-length"]


def _words(what: str, error: httpx.HTTPError) -> str:
    return f"{what} ({str(error).strip() or type(error).__name__})"
