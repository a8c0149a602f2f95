"""What the Hub's client raises when the Hub refuses, breaks off or is not there.

The client is built on httpx2: a refused connection or a broken answer is an `httpx2.HTTPError`,
which is no `OSError`; an error status is a `HfHubHTTPError`, which is both. A token that is no
ASCII (a letter that a keyboard or a paste added) is a `UnicodeEncodeError` of the header.
"""

from __future__ import annotations

from tbh_action.retry_after import parse_retry_after


def hub_errors(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """The types to catch around a call to the Hub, and `more`. Imported late: httpx2 is heavy."""
    import httpx2

    return (OSError, httpx2.HTTPError, UnicodeEncodeError, *more)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that `error` carries, if it has one."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def retry_after(error: BaseException) -> float | None:
    """Seconds that the Hub asked to wait (`Retry-After`, at most a minute), if it did."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    seconds = parse_retry_after(headers.get("retry-after"))
    return min(60.0, seconds) if seconds else None


def explain(error: BaseException) -> str:
    """One line of what the Hub said, at most 300 characters, with the status where there is one."""
    status = status_of(error)
    message = getattr(error, "server_message", None) or str(error)
    text = " ".join(str(message).split())[:300] or type(error).__name__
    return f"{status}: {text}" if status and str(status) not in text else text
