from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tbh_action.github.api import GitHubApi, GitHubError, graphql_url, wait_before_retry

NOW = 1_000.0


def waits(status: int, message: str = "", tries: int = 1, **headers: str) -> float | None:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return wait_before_retry(status, named, message, tries=tries, now=NOW)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
def test_wait_before_retry__what_github_refuses_is_never_sent_again(status: int) -> None:
    assert waits(status) is None


def test_wait_before_retry__a_server_error_waits_longer_each_time() -> None:
    assert [waits(502, tries=n) for n in (1, 2, 3)] == [1, 2, 4]


@pytest.mark.parametrize("status", [403, 429])
def test_wait_before_retry__retry_after_is_kept_to(status: int) -> None:
    assert waits(status, retry_after="7") == 7


def test_wait_before_retry__an_empty_primary_limit_waits_for_its_reset() -> None:
    assert waits(403, x_ratelimit_remaining="0", x_ratelimit_reset="1030") == 31
    assert waits(403, x_ratelimit_remaining="0") == 60
    assert waits(403, x_ratelimit_remaining="5") is None


def test_wait_before_retry__a_secondary_limit_without_header_waits_a_minute_then_doubles() -> None:
    text = "You have exceeded a secondary rate limit."
    assert [waits(403, text, tries=n) for n in (1, 2)] == [60, 120]


@pytest.mark.parametrize(
    ("rest", "graphql"),
    [
        ("https://api.github.com", "https://api.github.com/graphql"),
        ("https://git.example.com/api/v3", "https://git.example.com/api/graphql"),
        ("https://git.example.com/api/v3/", "https://git.example.com/api/graphql"),
    ],
)
def test_graphql_url__follows_the_rest_address(rest: str, graphql: str) -> None:
    assert graphql_url(rest) == graphql


def client(
    handler: Callable[[httpx.Request], httpx.Response], sleeps: list[float] | None = None
) -> GitHubApi:
    slept = sleeps if sleeps is not None else []
    return GitHubApi(
        "secret-token",
        url="https://git.example.com/api/v3",
        transport=httpx.MockTransport(handler),
        sleep=slept.append,
        clock=lambda: NOW,
    )


def test_request__survives_errors_and_drops_and_sends_the_same_again() -> None:
    answers = iter([502, None, 429, 201])
    bodies = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        status = next(answers)
        if status is None:
            raise httpx.ReadError("reset")
        return httpx.Response(status, headers={"retry-after": "3"}, json={"id": 1})

    sleeps: list[float] = []
    assert client(handler, sleeps).request("POST", "/x", json={"a": 1}).status_code == 201
    assert sleeps == [1, 2, 3]
    assert set(bodies) == {b'{"a":1}'}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "the token is not valid"),
        (403, "pull-requests: write"),
        (404, "not found"),
        (422, "refuses the content"),
    ],
)
def test_request__a_refusal_is_one_call_and_says_what_to_do(status: int, says: str) -> None:
    calls = []

    def handler(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return httpx.Response(status, json={"message": "No", "errors": [{"field": "body"}]})

    with pytest.raises(GitHubError, match=says) as caught:
        client(handler).request("PATCH", "/repos/o/r")
    assert len(calls) == 1
    assert caught.value.status == status
    assert "secret-token" not in caught.value.format_message()


def test_request__gives_up_when_the_limit_lasts_too_long() -> None:
    sleeps: list[float] = []
    api = client(lambda _: httpx.Response(403, headers={"retry-after": "900"}), sleeps)
    with pytest.raises(GitHubError, match="rate limit is reached"):
        api.request("GET", "/x")
    assert sleeps == []


def test_pages__follows_links_but_never_to_another_host() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params.get("page", "1"))
        host = "git.example.com" if page < 3 else "evil.example.com"
        link = f'<https://{host}/api/v3/list?page={page + 1}>; rel="next"'
        assert request.url.host == "git.example.com"
        return httpx.Response(200, json=[page], headers={"link": link})

    assert list(client(handler).pages("/list")) == [1, 2, 3]


def test_graphql__an_error_inside_a_200_is_an_error() -> None:
    api = client(lambda _: httpx.Response(200, json={"data": None, "errors": [{"message": "No"}]}))
    with pytest.raises(GitHubError, match="says: No"):
        api.graphql("query { viewer { login } }")
