"""GitHub's REST and GraphQL API, as far as comments and issues need it.

Waiting and repeating follow GitHub's own rules:
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
A request that GitHub refused for what it says (4xx, 422 above all) is never sent again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import httpx

from tbh_action.errors import TbhError

DEFAULT_URL: Final = "https://api.github.com"
_TRIES: Final = 5
# The longest that a report waits for GitHub in all. The benchmark is done by then (or has not
# begun); a runner that idles costs more than a comment that comes with the next run.
_PATIENCE: Final = 180.0

_MEANINGS: Final[Mapping[int, str]] = {
    401: "the token is not valid; pass `github-token: ${{ github.token }}`",
    403: "the token may not do this; give the job `permissions: pull-requests: write` "
    "(`issues: write` for issues). Runs from forks get a token that can only read",
    404: "not found, or the token may not see it; check the repository and the number",
    410: "it is gone, or issues are turned off in this repository",
    422: "GitHub refuses the content",
}


class GitHubError(TbhError):
    """A call to GitHub failed for good. `status` is 0 when no answer came."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """What decides whether a request is sent again."""

    status: int
    headers: Mapping[str, str]
    message: str


def wait_before_retry(
    status: int, headers: Mapping[str, str], message: str, *, tries: int, now: float
) -> float | None:
    """Seconds to wait before the same request is sent again; None means never.

    `tries` counts the requests so far (1 after the first), `now` is seconds since the epoch,
    `headers` is looked up in lower case.
    """
    if status >= 500:
        return 2.0 ** (tries - 1)
    if status not in (403, 429):
        return None
    after = _number(headers.get("retry-after"))
    if after is not None:
        return max(after, 1.0)
    if headers.get("x-ratelimit-remaining") == "0":
        reset = _number(headers.get("x-ratelimit-reset"))
        return 60.0 if reset is None else max(reset - now + 1.0, 1.0)
    if status == 429 or "rate limit" in message.lower() or "abuse" in message.lower():
        return 60.0 * 2.0 ** (tries - 1)
    return None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def graphql_url(api_url: str) -> str:
    """The GraphQL address that belongs to a REST address (`/api/v3` on Enterprise Server)."""
    base = api_url.rstrip("/")
    return base.removesuffix("/v3") + "/graphql"


class GitHubApi:
    """One client with one token. `transport` and `sleep` are for tests."""

    def __init__(
        self,
        token: str,
        *,
        url: str = DEFAULT_URL,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url.rstrip("/") or DEFAULT_URL
        self._sleep = sleep
        self._clock = clock
        self._client = httpx.Client(
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {token}",
                "User-Agent": "tbh-action",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            timeout=30.0,
            transport=transport,
            follow_redirects=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> httpx.Response:
        """The answer to one call; `path` may be a whole address (a `Link` header's).

        Raises:
            GitHubError: refused, or still failing after some tries.
        """
        url = path if path.startswith(("http://", "https://")) else f"{self.url}{path}"
        waited = 0.0
        for tries in range(1, _TRIES + 1):
            answer, response = self._once(method, url, json, params)
            if response is not None and response.is_success:
                return response
            wait = wait_before_retry(
                answer.status, answer.headers, answer.message, tries=tries, now=self._clock()
            )
            if wait is None or tries == _TRIES or waited + wait > _PATIENCE:
                raise _failure(method, url, answer, limited=wait is not None)
            self._sleep(wait)
            waited += wait
        raise AssertionError("the loop above returns or raises")

    def _once(
        self, method: str, url: str, json: Any, params: Mapping[str, str | int] | None
    ) -> tuple[_Answer, httpx.Response | None]:
        try:
            response = self._client.request(
                method, url, json=json, params=dict(params) if params else None
            )
        except httpx.HTTPError as error:
            # No answer is treated like a 5xx. A POST may have been done all the same: whoever
            # creates something looks for doubles afterwards.
            text = f"{type(error).__name__}: {error}"
            return _Answer(status=599, headers={}, message=text), None
        headers = {key.lower(): value for key, value in response.headers.items()}
        return _Answer(
            status=response.status_code, headers=headers, message=_message(response)
        ), response

    def pages(self, path: str, params: Mapping[str, str | int] | None = None) -> Iterator[Any]:
        """Every item of a list, over all of its pages (`Link: …; rel="next"`)."""
        response = self.request("GET", path, params={"per_page": 100, **(params or {})})
        while True:
            yield from response.json()
            following = response.links.get("next", {}).get("url")
            if not following or not self._same_host(following):
                return
            response = self.request("GET", following)

    def _same_host(self, url: str) -> bool:
        """The token goes nowhere else, whatever a `Link` header says."""
        ours, theirs = httpx.URL(self.url), httpx.URL(url)
        return (ours.scheme, ours.host, ours.port) == (theirs.scheme, theirs.host, theirs.port)

    def graphql(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The `data` of a GraphQL answer.

        Raises:
            GitHubError: the call failed, or the answer holds errors.
        """
        response = self.request(
            "POST",
            graphql_url(self.url),
            json={"query": query, "variables": dict(variables or {})},
        )
        document = response.json()
        if document.get("errors"):
            messages = "; ".join(str(item.get("message")) for item in document["errors"])
            raise GitHubError(f"GitHub's GraphQL API says: {messages[:300]}.", status=200)
        data: dict[str, Any] = document.get("data") or {}
        return data


def _message(response: httpx.Response) -> str:
    try:
        document = response.json()
    except ValueError:
        return ""
    if not isinstance(document, dict):
        return ""
    details = document.get("errors")
    text = str(document.get("message", ""))
    return f"{text} {details}" if details else text


def _failure(method: str, url: str, answer: _Answer, *, limited: bool) -> GitHubError:
    path = httpx.URL(url).path
    said = f" ({' '.join(answer.message.split())[:200]})" if answer.message else ""
    if answer.status == 599:
        return GitHubError(f"GitHub did not answer {method} {path}{said}.")
    meaning = _MEANINGS.get(answer.status, "GitHub has a problem; try again later")
    if limited and answer.status in (403, 429):
        meaning = "GitHub's rate limit is reached; the next run writes it"
    return GitHubError(
        f"GitHub answered {answer.status} to {method} {path}{said}: {meaning}.",
        status=answer.status,
    )
