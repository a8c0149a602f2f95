"""A stand-in for GitHub's API on 127.0.0.1: comments, issues, pages, limits, faults on demand.

It answers as GitHub's documentation says; each route names its page. Only what `tbh` calls is
there. The state is in memory; one lock makes each call atomic, as each call on GitHub is.

    python -m tbh_action.loopback.github --port 0 --token t=github-actions[bot]
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

BODY_CHARS: Final = 65_536
_DOCS: Final = "https://docs.github.com"


@dataclass(kw_only=True, slots=True)
class Fault:
    """Answers instead of the route, `times` times, to calls that match."""

    method: str = ".*"
    path: str = ".*"
    status: int = 500
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    after: bool = False  # do the work first, then answer with the fault: the answer is lost


@dataclass(kw_only=True, slots=True)
class User:
    """Who a token is, and whether it may write."""

    login: str
    write: bool = True

    def document(self) -> dict[str, Any]:
        return {"login": self.login, "type": "Bot" if self.login.endswith("[bot]") else "User"}


class LoopbackGitHub:
    """The server and its state. `with LoopbackGitHub() as hub: hub.url …`"""

    def __init__(self, tokens: dict[str, User] | None = None, *, port: int = 0) -> None:
        self.tokens = tokens or {"token": User(login="github-actions[bot]")}
        self.comments: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.minimized: set[str] = set()
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str]] = []
        self._ids = 1000
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", port))
        self._server = uvicorn.Server(
            uvicorn.Config(self.app(), log_level="error", lifespan="off", access_log=False)
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()

    # --- state -----------------------------------------------------------------------------------

    def add_comment(
        self, number: int, body: str, *, login: str, repository: str = "octo/repo"
    ) -> dict[str, Any]:
        """A comment as if `login` had written it."""
        self._ids += 1
        base = f"{self.url}/repos/{repository}/issues"
        comment = {
            "id": self._ids,
            "node_id": f"IC_{self._ids}",
            "body": body,
            "user": User(login=login).document(),
            "html_url": f"https://github.com/{repository}/pull/{number}#issuecomment-{self._ids}",
            "issue_url": f"{base}/{number}",
            "url": f"{base}/comments/{self._ids}",
        }
        self.comments.append(comment)
        return comment

    def bodies(self, number: int) -> list[str]:
        """The texts under one issue or pull request, oldest first."""
        return [c["body"] for c in self.comments if c["issue_url"].endswith(f"/{number}")]

    # --- routes ----------------------------------------------------------------------------------

    def app(self) -> Starlette:
        issues = "/repos/{owner}/{repo}/issues"
        return Starlette(
            routes=[
                self._route(f"{issues}/{{number:int}}/comments", "GET", self._list_comments),
                self._route(f"{issues}/{{number:int}}/comments", "POST", self._create_comment),
                self._route(f"{issues}/comments/{{id:int}}", "PATCH", self._update_comment),
                self._route(f"{issues}/comments/{{id:int}}", "DELETE", self._delete_comment),
                self._route(issues, "GET", self._list_issues),
                self._route(issues, "POST", self._create_issue),
                self._route(f"{issues}/{{number:int}}", "PATCH", self._update_issue),
                self._route("/user", "GET", self._user),
                self._route("/graphql", "POST", self._graphql),
                # Not GitHub's: for a test in another process.
                Route("/_loopback/faults", self._add_fault, methods=["POST"]),
                Route("/_loopback/state", self._state, methods=["GET"]),
            ]
        )

    def _route(
        self, path: str, method: str, answer: Callable[[Request, User, Any], Response]
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            text = await request.body()
            with self._lock:
                return self._answer(request, text, answer)

        return Route(path, _named(endpoint, answer.__name__), methods=[method])

    def _answer(
        self,
        request: Request,
        text: bytes,
        answer: Callable[[Request, User, Any], Response],
    ) -> Response:
        self.calls.append((request.method, request.url.path))
        fault = self._fault(request)
        if fault is not None and not fault.after:
            return _refused(fault.status, fault.message, headers=fault.headers)
        header = request.headers.get("authorization", "")
        user = self.tokens.get(header.removeprefix("Bearer ").strip())
        if user is None:
            # https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api
            return _refused(401, "Bad credentials")
        if request.method != "GET" and not user.write and request.url.path != "/graphql":
            # https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api
            return _refused(403, "Resource not accessible by integration")
        try:
            document = json.loads(text) if text else {}
        except ValueError:
            return _refused(400, "Problems parsing JSON")
        response = answer(request, user, document)
        if fault is not None:
            return _refused(fault.status, fault.message, headers=fault.headers)
        return response

    def _fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if (
                fault.times > 0
                and re.fullmatch(fault.method, request.method)
                and re.search(fault.path, request.url.path)
            ):
                fault.times -= 1
                return fault
        return None

    def _list_comments(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/issues/comments#list-issue-comments
        number = request.path_params["number"]
        prefix = f"/repos/{_repository(request)}/issues/{number}"
        rows = [c for c in self.comments if c["issue_url"].endswith(prefix)]
        return self._page(request, rows)

    def _create_comment(self, request: Request, user: User, document: Any) -> Response:
        # https://docs.github.com/en/rest/issues/comments#create-an-issue-comment
        if (refusal := _bad_body(document)) is not None:
            return refusal
        comment = self.add_comment(
            request.path_params["number"],
            document["body"],
            login=user.login,
            repository=_repository(request),
        )
        return JSONResponse(comment, status_code=201)

    def _update_comment(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/issues/comments#update-an-issue-comment
        comment = self._comment(request)
        if comment is None:
            return _refused(404, "Not Found")
        if (refusal := _bad_body(document)) is not None:
            return refusal
        comment["body"] = document["body"]
        return JSONResponse(comment)

    def _delete_comment(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/issues/comments#delete-an-issue-comment
        comment = self._comment(request)
        if comment is None:
            return _refused(404, "Not Found")
        self.comments.remove(comment)
        return Response(status_code=204)

    def _comment(self, request: Request) -> dict[str, Any] | None:
        wanted = request.path_params["id"]
        return next((c for c in self.comments if c["id"] == wanted), None)

    def _list_issues(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/issues/issues#list-repository-issues
        state = request.query_params.get("state", "open")
        labels = [name for name in request.query_params.get("labels", "").split(",") if name]
        rows = [
            issue
            for issue in self.issues
            if state in ("all", issue["state"])
            and all(name in [label["name"] for label in issue["labels"]] for name in labels)
        ]
        return self._page(request, rows[::-1])

    def _create_issue(self, request: Request, user: User, document: Any) -> Response:
        # https://docs.github.com/en/rest/issues/issues#create-an-issue
        if not document.get("title"):
            return _refused(422, "Validation Failed")
        if (refusal := _bad_body(document)) is not None:
            return refusal
        number = len(self.issues) + 1
        issue = {
            "number": number,
            "title": document["title"],
            "body": document["body"],
            "state": "open",
            "labels": [{"name": name} for name in document.get("labels", [])],
            "user": user.document(),
            "html_url": f"https://github.com/{_repository(request)}/issues/{number}",
        }
        self.issues.append(issue)
        return JSONResponse(issue, status_code=201)

    def _update_issue(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/issues/issues#update-an-issue
        number = request.path_params["number"]
        issue = next((item for item in self.issues if item["number"] == number), None)
        if issue is None:
            return _refused(404, "Not Found")
        if "body" in document and (refusal := _bad_body(document)) is not None:
            return refusal
        issue.update({k: v for k, v in document.items() if k in ("title", "body", "state")})
        return JSONResponse(issue)

    def _user(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        # https://docs.github.com/en/rest/users/users#get-the-authenticated-user
        if user.login.endswith("[bot]"):
            return _refused(403, "Resource not accessible by integration")
        return JSONResponse(user.document())

    def _graphql(self, request: Request, user: User, document: Any) -> Response:  # noqa: ARG002
        query = document.get("query", "")
        if "minimizeComment" in query:
            # https://docs.github.com/en/graphql/reference/mutations#minimizecomment
            if not user.write:
                return JSONResponse({"data": None, "errors": [{"message": "Forbidden"}]})
            self.minimized.add(document["variables"]["id"])
            answer = {"minimizeComment": {"minimizedComment": {"isMinimized": True}}}
            return JSONResponse({"data": answer})
        if "viewer" in query:
            # https://docs.github.com/en/graphql/reference/queries#viewer
            return JSONResponse({"data": {"viewer": {"login": user.login}}})
        return JSONResponse({"data": None, "errors": [{"message": "Unknown query"}]})

    def _page(self, request: Request, rows: list[dict[str, Any]]) -> Response:
        # https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
        size = min(max(int(request.query_params.get("per_page", "30")), 1), 100)
        page = max(int(request.query_params.get("page", "1")), 1)
        last = max(-(-len(rows) // size), 1)
        links = []
        for name, number in (("next", page + 1), ("last", last), ("prev", page - 1)):
            if 1 <= number <= last and (name != "last" or page < last):
                address = request.url.include_query_params(page=number)
                links.append(f'<{address}>; rel="{name}"')
        headers = {"Link": ", ".join(links)} if links else {}
        return JSONResponse(rows[(page - 1) * size : page * size], headers=headers)

    async def _add_fault(self, request: Request) -> Response:
        fault = Fault(**await request.json())
        with self._lock:
            self.faults.append(fault)
        return Response(status_code=204)

    async def _state(self, request: Request) -> Response:  # noqa: ARG002
        with self._lock:
            return JSONResponse(
                {
                    "comments": self.comments,
                    "issues": self.issues,
                    "minimized": sorted(self.minimized),
                    "calls": self.calls,
                }
            )


def _named(
    endpoint: Callable[[Request], Awaitable[Response]], name: str
) -> Callable[[Request], Awaitable[Response]]:
    endpoint.__name__ = name
    return endpoint


def _repository(request: Request) -> str:
    return f"{request.path_params['owner']}/{request.path_params['repo']}"


def _bad_body(document: Any) -> Response | None:
    """https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api (422)"""
    body = document.get("body")
    if not isinstance(body, str) or not body.strip():
        return _refused(422, "Validation Failed", errors=[{"field": "body", "code": "missing"}])
    if len(body) > BODY_CHARS:
        message = f"Body is too long (maximum is {BODY_CHARS} characters)"
        return _refused(422, "Validation Failed", errors=[{"field": "body", "message": message}])
    return None


def _refused(
    status: int,
    message: str,
    *,
    headers: dict[str, str] | None = None,
    errors: list[dict[str, str]] | None = None,
) -> Response:
    document: dict[str, Any] = {"message": message, "documentation_url": f"{_DOCS}/rest"}
    if errors:
        document["errors"] = errors
    return JSONResponse(document, status_code=status, headers=headers)


def main() -> None:
    """Runs in the foreground and prints its address on the first line."""
    parser = argparse.ArgumentParser(description="GitHub's API on loopback, for tests")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", action="append", default=[], metavar="TOKEN=LOGIN")
    arguments = parser.parse_args()
    tokens = {
        token: User(login=login)
        for token, _, login in (item.partition("=") for item in arguments.token)
    }
    with LoopbackGitHub(tokens or None, port=arguments.port) as hub:
        print(hub.url, flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
