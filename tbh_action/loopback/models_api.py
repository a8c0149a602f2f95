"""The Hub's model pages, as far as a run looks at them: the demo's model exists, no other does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tbh_action.loopback.faults import Call
from tbh_action.loopback.wire import error

if TYPE_CHECKING:
    from tbh_action.loopback.hub import Hub

_MODELS = ("demo/Scripted-1B",)


def routes(hub: Hub) -> list[Route]:
    """The routes of this part."""

    async def model(request: Request) -> Response:
        name = request.path_params["model"].split("/revision/")[0]

        async def work() -> Response:
            if name not in _MODELS:
                return error(404, "Repository not found", {"X-Error-Code": "RepoNotFound"})
            return JSONResponse(
                {
                    "_id": "demo",
                    "id": name,
                    "modelId": name,
                    "sha": "0" * 40,
                    "private": False,
                    "gated": False,
                    "tags": [],
                    "siblings": [],
                }
            )

        return await hub.answer(request, Call(name="models.info", path=request.url.path), work)

    return [Route("/api/models/{model:path}", model, methods=["GET"])]
