"""A Hub that answers what a test tells it to, over real HTTP, to the real client."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tbh_action.loopback.hardware import hardware

SHA = "a" * 40


class StubHub:
    """`answers`: path → (status, document, headers); the document is sent as JSON."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, tuple[int, Any, dict[str, str]]] = {}
        self.skew = 0.0
        self.asked: list[str] = []
        self.add("/api/jobs/hardware", hardware())

    def add(self, path: str, document: Any, status: int = 200, **headers: str) -> None:
        """What `path` answers; underscores in header names stand for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, document, named)

    def add_model(
        self,
        name: str,
        *,
        config: dict[str, Any] | None = None,
        files: dict[str, int] | None = None,
        parameters: dict[str, int] | None = None,
        **more: Any,
    ) -> None:
        """A model repository: its page, and its config.json."""
        sizes = dict(files or {})
        if config is not None:
            sizes["config.json"] = 100
            headers = {"ETag": '"e1"', "X_Repo_Commit": SHA}
            self.add(f"/{name}/resolve/{SHA}/config.json", config, **headers)
        page = {
            "_id": "1",
            "id": name,
            "modelId": name,
            "sha": SHA,
            "private": False,
            "gated": False,
            "tags": [],
            "siblings": [{"rfilename": path, "size": size} for path, size in sizes.items()],
        }
        if parameters:
            page["safetensors"] = {"parameters": parameters, "total": sum(parameters.values())}
        self.add(f"/api/models/{name}", page | more)


@contextlib.contextmanager
def stub_hub() -> Iterator[StubHub]:
    """Serves for the length of the `with` block, on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(self.path)
            status, document, headers = hub.answers.get(
                urlsplit(self.path).path, (404, {"error": "not found"}, {})
            )
            body = json.dumps(document).encode()
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + hub.skew, usegmt=True))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 (the base class looks for this name)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub = StubHub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
