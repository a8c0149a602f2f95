"""`hf://datasets/…` with the real Hub client against a server that speaks its four routes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.factories import results, write

COMMIT = "a" * 40
TOKEN = "hf_" + "x" * 34


def store(files: dict[str, str], status: int = 200) -> Starlette:
    """A Hub with one private dataset `org/store`; each other answers 404 as the Hub does."""

    def refused(request: Request) -> Response | None:
        if status != 200:
            return Response(status_code=status)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Response(status_code=401, headers={"X-Error-Code": "RepoNotFound"})
        if request.path_params["repo"] != "store":
            return Response(status_code=404, headers={"X-Error-Code": "RepoNotFound"})
        return None

    async def info(request: Request) -> Response:
        siblings = [{"rfilename": name} for name in files]
        document = {"id": "org/store", "sha": COMMIT, "siblings": siblings}
        return refused(request) or JSONResponse(document)

    async def tree(request: Request) -> Response:
        entries = [
            {"type": "file", "path": name, "size": len(text), "oid": _oid(text)}
            for name, text in files.items()
        ]
        return refused(request) or JSONResponse(entries)

    async def resolve(request: Request) -> Response:
        text = files[request.path_params["path"]]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_oid(text)}"'}
        return refused(request) or Response(text, headers=headers)

    base = "/api/datasets/org/{repo}"
    return Starlette(
        routes=[
            Route(f"{base}/revision/{{revision}}", info),
            Route(f"{base}/tree/{{revision}}", tree),
            Route("/datasets/org/{repo}/resolve/{revision}/{path:path}", resolve),
        ]
    )


def _oid(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


@contextlib.contextmanager
def serving(app: Starlette) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def compare(url: str, tmp_path: Path, place: str) -> subprocess.CompletedProcess[str]:
    """`tbh compare OURS PLACE` in its own process: the client reads its address on import."""
    ours = results("p" * 20, name="new", finished_at="2026-09-01T00:00:00Z", revision="22")
    path = write(tmp_path / "results.json", ours)
    code = "from tbh_action.commands.compare import compare_command as c; c()"
    environment: dict[str, Any] = {
        "HF_ENDPOINT": url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return subprocess.run(
        [sys.executable, "-c", code, str(path), place],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_compare__with_a_store_on_the_hub(tmp_path: Path) -> None:
    files = {
        "README.md": "# results",
        "runs/a/results.json": json.dumps(results("p" * 20, name="a")),
        "runs/a/report/index.html": "<html>",
        "runs/torn/results.json": "{",
    }
    with serving(store(files)) as url:
        done = compare(url, tmp_path, "hf://datasets/org/store")
    assert done.returncode == 0, done.stderr
    assert "Baseline: a (hf://datasets/org/store/runs/a/results.json)" in done.stdout
    assert "Warning: " in done.stdout
    assert "torn" in done.stdout
    assert not list(tmp_path.glob("hf/**/index.html"))
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize(("place", "status"), [("absent", 200), ("store", 403)])
def test_compare__a_store_that_cannot_be_read_is_one_line(
    tmp_path: Path, place: str, status: int
) -> None:
    with serving(store({}, status)) as url:
        done = compare(url, tmp_path, f"hf://datasets/org/{place}")
    assert done.returncode == 3
    assert done.stderr.startswith(f"Error: The results store hf://datasets/org/{place} can't be")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_compare__no_hub_at_all_is_one_line(tmp_path: Path) -> None:
    done = compare("http://127.0.0.1:1", tmp_path, "hf://datasets/org/store")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: The results store")
