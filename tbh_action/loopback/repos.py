"""Repositories as the real client reads and writes them: info, tree, commit, LFS, resolve, pulls.

Calls, for fault rules: `repo.create`, `.info`, `.tree`, `.paths`, `.preupload`, `.commit`,
`.resolve`, `.discussions`, `.open` (a pull request); `lfs.batch`, `lfs.upload`, `lfs.verify`;
`yaml.validate`, `oauth.token`. A rule for `lfs.receive` with any `drop` cuts the connection when
half of an upload's bytes have come in. Large files take the LFS protocol: a client with Xet storage
needs `HF_HUB_DISABLE_XET=1`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, unquote

import yaml  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tbh_action.loopback.faults import Call
from tbh_action.loopback.repository import (
    File,
    Pull,
    RefusedError,
    Repositories,
    Repository,
    blob_oid,
    folders,
    upload_mode,
)
from tbh_action.loopback.wire import Cut, error, record

if TYPE_CHECKING:
    from tbh_action.loopback.hub import Hub

_METHODS: Final = ["GET", "POST"]
_TOKEN_SECONDS: Final = 3600
# The model of the demo is there from the beginning.
_MODEL: Final = "demo/Scripted-1B"


def routes(hub: Hub) -> list[Route]:
    """The routes of this part. They are the Hub's most general ones: keep them last."""
    repos = Repos(hub)
    found = [
        Route("/api/repos/create", repos.create, methods=["POST"]),
        Route("/api/validate-yaml", repos.validate_yaml, methods=["POST"]),
        Route("/oauth/token", repos.token, methods=["POST"]),
        Route("/_lfs/{oid}", repos.upload, methods=["PUT"]),
        Route("/_lfs/{oid}/verify", repos.verify, methods=["POST"]),
    ]
    for kind, prefix in (("model", ""), ("dataset", "datasets/"), ("space", "spaces/")):
        base = f"/{prefix}{{namespace}}/{{name}}"
        api = f"/api/{kind}s/{{namespace}}/{{name}}"
        found += [
            Route(api, repos.api(kind), methods=_METHODS),
            Route(f"{api}/{{rest:path}}", repos.api(kind), methods=_METHODS),
            Route(f"{base}/info/lfs/objects/batch", repos.batch(kind), methods=["POST"]),
            Route(f"{base}/resolve/{{rest:path}}", repos.resolve(kind), methods=["GET"]),
        ]
    return found


class Repos:
    """One method for each route, or one that makes it for a kind of repository."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.all = Repositories((hub.settings.user, *hub.settings.orgs, "demo"))
        self.all.create("model", _MODEL, private=False)
        self._apis: dict[str, tuple[str, Callable[..., Any]]] = {
            "": ("repo.info", self._info),
            "revision": ("repo.info", self._info),
            "tree": ("repo.tree", self._tree),
            "paths-info": ("repo.paths", self._paths),
            "preupload": ("repo.preupload", self._preupload),
            "commit": ("repo.commit", self._commit),
            "discussions": ("repo.discussions", self._discussions),
        }

    async def create(self, request: Request) -> Response:
        body = json.loads(await request.body())
        namespace = body.get("organization") or self._hub.settings.user
        name, kind = f"{namespace}/{body.get('name')}", body.get("type") or "model"
        url = f"{self._hub.base_url}/{_prefix(kind)}{name}"

        def work() -> Response:
            private = body.get("visibility") == "private" or bool(body.get("private"))
            try:
                self.all.create(kind, name, private=private)
            except RefusedError as refused:
                document = {"error": refused.text, "url": url}
                return JSONResponse(document, status_code=refused.status)
            return JSONResponse({"url": url, "name": name, "id": blob_oid(name.encode())[:24]})

        return await self._answer(request, "repo.create", work)

    async def validate_yaml(self, request: Request) -> Response:
        content = json.loads(await request.body()).get("content", "")

        def work() -> Response:
            warnings, errors = _front_matter(content)
            document = {
                "warnings": [{"message": text} for text in warnings],
                "errors": [{"message": text} for text in errors],
            }
            return JSONResponse(document, status_code=400 if errors else 200)

        return await self._answer(request, "yaml.validate", work)

    async def token(self, request: Request) -> Response:
        """A token for one repository in exchange for a CI provider's identity (RFC 8693)."""
        body = json.loads(await request.body())
        record(request, call="oauth.token", resource=body.get("resource"))
        if not body.get("subject_token") or not body.get("resource"):
            return error(400, "invalid_request")
        document = {
            "access_token": self._hub.settings.token,
            "token_type": "bearer",
            "expires_in": _TOKEN_SECONDS,
        }
        return JSONResponse(document)

    def api(self, kind: str) -> Callable[[Request], Any]:
        """The calls below `/api/{kind}s/{namespace}/{name}`."""

        async def endpoint(request: Request) -> Response:
            # The decoded path does not tell a branch `refs/pr/1` from three folders.
            parts = request.scope["raw_path"].decode().split("?")[0].split("/")[5:]
            verb, *rest = [unquote(part) for part in parts] or [""]
            if verb not in self._apis:
                return error(404, "no such call")
            name, method = self._apis[verb]
            body = await request.body()
            if verb == "discussions" and request.method == "POST":
                name = "repo.open"

            def work() -> Response:
                repository = self._repository(request, kind)
                answer: Response = method(request, repository, rest, body)
                return answer

            return await self._answer(request, name, work)

        return endpoint

    def batch(self, kind: str) -> Callable[[Request], Any]:
        """The LFS batch call: where to upload what is not there yet."""

        async def endpoint(request: Request) -> Response:
            body = json.loads(await request.body())

            def work() -> Response:
                self._repository(request, kind)
                objects = [self._object(entry) for entry in body["objects"]]
                return JSONResponse({"transfer": "basic", "objects": objects})

            return await self._answer(request, "lfs.batch", work)

        return endpoint

    async def upload(self, request: Request) -> Response:
        """The bytes of one large file, at a signed address instead of with a token."""
        oid = request.path_params["oid"]
        if not hmac.compare_digest(request.query_params.get("sig", ""), self._signature(oid)):
            return error(403, "wrong signature")
        action = self._hub.decide(Call(name="lfs.receive", path=request.url.path))
        if action is not None and action.drop:
            record(request, call="lfs.receive", fault=action.label)
            await _half(request)
            return Cut()
        data = await request.body()

        def work() -> Response:
            if hashlib.sha256(data).hexdigest() != oid:
                return error(400, "the content is not the announced one")
            self.all.large[oid] = data
            return Response(headers={"ETag": f'"{oid}"'})

        return await self._answer(self._trusted(request), "lfs.upload", work)

    async def verify(self, request: Request) -> Response:
        body = json.loads(await request.body())

        def work() -> Response:
            known = body.get("oid") in self.all.large
            return JSONResponse({}) if known else error(404, "no such object")

        return await self._answer(request, "lfs.verify", work)

    def resolve(self, kind: str) -> Callable[[Request], Any]:
        """A file's content, or its name and size for HEAD."""

        async def endpoint(request: Request) -> Response:
            parts = request.scope["raw_path"].decode().split("?")[0].split("/resolve/", 1)[1]
            revision, *path = [unquote(part) for part in parts.split("/")]

            def work() -> Response:
                repository = self._repository(request, kind)
                commit = repository.at(revision)
                file = repository.file(revision, "/".join(path))
                headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{file.etag}"'}
                if file.sha256:
                    headers["X-Linked-ETag"] = f'"{file.etag}"'
                    headers["X-Linked-Size"] = str(file.size)
                data = self.all.content(file)
                return Response(data, headers=headers, media_type="application/octet-stream")

            return await self._answer(request, "repo.resolve", work)

        return endpoint

    # --- below one repository ---------------------------------------------------------------------

    def _info(self, _: Request, repository: Repository, rest: list[str], __: bytes) -> Response:
        return JSONResponse(repository.document(rest[0] if rest else "main"))

    def _tree(
        self, request: Request, repository: Repository, rest: list[str], _: bytes
    ) -> Response:
        tree = repository.at(rest[0]).tree
        below = "/".join(rest[1:])
        prefix = f"{below}/" if below else ""
        inside = {path: file for path, file in tree.items() if path.startswith(prefix)}
        if below and not inside:
            raise RefusedError(404, f"{below} does not exist", "EntryNotFound")
        recursive = request.query_params.get("recursive", "").lower() in ("1", "true")

        def wanted(path: str) -> bool:
            return path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :])

        rows = [_folder(path) for path in folders(inside) if wanted(path)]
        rows += [inside[path].document(path) for path in sorted(inside) if wanted(path)]
        return JSONResponse(rows)

    def _paths(self, _: Request, repository: Repository, rest: list[str], body: bytes) -> Response:
        tree = repository.at(rest[0]).tree
        asked = [path.rstrip("/") for path in _form(body).get("paths", [])]
        known = set(folders(tree))
        rows = [
            tree[path].document(path) if path in tree else _folder(path)
            for path in asked
            if path in tree or path in known
        ]
        return JSONResponse(rows)

    def _preupload(
        self, _: Request, repository: Repository, rest: list[str], body: bytes
    ) -> Response:
        tree = repository.at(rest[0]).tree
        rows = []
        for entry in json.loads(body)["files"]:
            there: File | None = tree.get(entry["path"])
            rows.append(
                {
                    "path": entry["path"],
                    "uploadMode": upload_mode(entry["size"], base64.b64decode(entry["sample"])),
                    "shouldIgnore": False,
                    "oid": there.etag if there else None,
                }
            )
        return JSONResponse({"files": rows})

    def _commit(
        self, request: Request, repository: Repository, rest: list[str], body: bytes
    ) -> Response:
        as_pull = request.query_params.get("create_pr") == "1"
        user = self._hub.settings.user if as_pull else None
        commit, pull = self.all.commit(repository, rest[0], body, as_pull=user)
        url = f"{self._hub.base_url}/{_prefix(repository.kind)}{repository.id}"
        document: dict[str, Any] = {
            "success": True,
            "commitOid": commit.oid,
            "commitUrl": f"{url}/commit/{commit.oid}",
            "hookOutput": "",
        }
        if pull is not None:
            document["pullRequestUrl"] = f"{url}/discussions/{pull.number}"
        return JSONResponse(document)

    def _discussions(
        self, request: Request, repository: Repository, rest: list[str], body: bytes
    ) -> Response:
        if request.method == "POST" and not rest:
            asked = json.loads(body)
            pull = self.all.open(
                repository,
                asked["title"],
                asked.get("description", ""),
                self._hub.settings.user,
                is_pull=bool(asked.get("pullRequest")),
            )
            return JSONResponse({"num": pull.number})
        if rest:
            found = [pull for pull in repository.pulls if str(pull.number) == rest[0]]
            if not found:
                raise RefusedError(404, "no such discussion")
            return JSONResponse(_pull(found[0], repository, whole=True))
        query = request.query_params
        rows = [
            _pull(pull, repository)
            for pull in reversed(repository.pulls)
            if query.get("type") in (None, "all", _type(pull))
            and query.get("status") in (None, "all", pull.status)
        ]
        return JSONResponse({"discussions": rows, "count": len(rows), "start": 0})

    # --- shared -----------------------------------------------------------------------------------

    async def _answer(self, request: Request, name: str, work: Callable[[], Response]) -> Response:
        async def answered() -> Response:
            try:
                return work()
            except RefusedError as refused:
                headers = {"X-Error-Code": refused.code} if refused.code else {}
                headers["X-Error-Message"] = refused.text
                return error(refused.status, refused.text, headers)
            except (KeyError, TypeError, ValueError) as problem:
                return error(400, f"This body can't be read: {problem!r}")

        call = Call(name=name, path=request.url.path)
        return await self._hub.answer(request, call, answered)

    def _repository(self, request: Request, kind: str) -> Repository:
        path = request.path_params
        return self.all.get(kind, f"{path['namespace']}/{path['name'].removesuffix('.git')}")

    def _object(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        oid = str(entry["oid"])
        answer: dict[str, Any] = {"oid": oid, "size": entry["size"]}
        if oid not in self.all.large:
            href = f"{self._hub.base_url}/_lfs/{oid}"
            answer["actions"] = {
                "upload": {"href": f"{href}?sig={quote(self._signature(oid))}", "header": {}},
                "verify": {"href": f"{href}/verify", "header": {}},
            }
        return answer

    def _signature(self, oid: str) -> str:
        return hmac.new(self._hub.settings.token.encode(), oid.encode(), "sha256").hexdigest()

    def _trusted(self, request: Request) -> Request:
        """`request` as if it had brought the token that its signature stands for."""
        bearer = f"Bearer {self._hub.settings.token}".encode()
        headers = [*request.scope["headers"], (b"authorization", bearer)]
        trusted = Request({**request.scope, "headers": headers}, request.receive)
        trusted._body = request._body
        return trusted


async def _half(request: Request) -> None:
    """Takes in half of the announced bytes."""
    wanted, had = int(request.headers.get("Content-Length", "0")) // 2, 0
    while had < wanted:
        message = await request.receive()
        had += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _prefix(kind: str) -> str:
    return "" if kind == "model" else f"{kind}s/"


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": blob_oid(path.encode()), "size": 0}


def _form(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode())


def _type(pull: Pull) -> str:
    return "pull_request" if pull.is_pull else "discussion"


def _pull(pull: Pull, repository: Repository, *, whole: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {
        "num": pull.number,
        "title": pull.title,
        "author": {"name": pull.author},
        "createdAt": pull.at,
        "status": pull.status,
        "isPullRequest": pull.is_pull,
        "repo": {"name": repository.id, "type": repository.kind},
    }
    if whole:
        row |= {"events": [], "changes": {"base": "refs/heads/main"}, "filesWithConflicts": []}
    return row


def _front_matter(content: str) -> tuple[list[str], list[str]]:
    """What the Hub says about a card: warnings and errors."""
    if not content.startswith("---\n"):
        return ["empty or missing yaml metadata in repo card"], []
    try:
        document = yaml.safe_load(content[4:].partition("\n---")[0])
    except yaml.YAMLError as problem:
        return [], [f"the metadata is no YAML: {problem}"]
    return ([], []) if isinstance(document, dict) else ([], ["the metadata is no mapping"])
