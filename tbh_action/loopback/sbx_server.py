"""The server inside one sandbox: a stand-in for the Hub's `sbx-server`, protocol 3.

Started by the loopback Hub as process 1 of fresh mount and PID namespaces (`isolation.py`), from
the standard library alone. The first line of standard input is its configuration (JSON: `socket`,
`root`, `token`, `env`, `build`); it then makes a private file system in memory (the host's `/usr`
and `/etc` read-only, everything a task writes to its own), locks itself in, and serves HTTP on the
Unix socket. When standard input ends it exits, and the kernel ends every process of the sandbox
with it: whatever becomes of the Hub, nothing outlives it.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import encodings.idna
import json
import os
import secrets
import selectors
import shutil
import signal
import socketserver
import stat
import subprocess
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

PROTOCOL: Final = 3
VERSION: Final = "0.7.0"
PING_EVERY: Final = 15.0
# A finished command may have left a background process that holds its output open.
OUTPUT_GRACE: Final = 0.2
CHUNK: Final = 1 << 16

_HOST: Final = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt")
_OWN: Final = (
    "app", "tests", "logs/agent", "logs/verifier", "logs/artifacts", "solution", "root", "home",
    "run", "srv", "mnt", "workspace", "var/log", "var/lib",
)  # fmt: skip
_OWN_OPEN: Final = ("tmp", "var/tmp", "dev/shm")
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_MS_NOSUID, _MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC = 2, 1, 32, 4096, 16384
_ENV: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "xterm",
}
# Nothing can be imported once the root has changed: what the standard library would load late is
# loaded here.
_EARLY: Final = (encodings.idna, traceback)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """The system call, with the target in the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (source.encode(), target.encode(), kind.encode() or None)
    if libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def bind(source: Path, target: Path, *, writable: bool = False) -> None:
    """`source` seen at `target`; read-only as far as the kernel lets us say so."""
    mount(str(source), str(target), flags=_MS_BIND | _MS_REC)
    if not writable:
        # Without privileges the flags of the host's mount are locked; nor could we write there.
        with contextlib.suppress(OSError):
            mount("none", str(target), flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)


def build_root(root: Path) -> None:
    """A file system of the sandbox's own, in memory, at `root`."""
    mount("tmpfs", str(root), "tmpfs", _MS_NOSUID, "size=1g,mode=0755")
    for name in _HOST:
        source, target = Path("/", name), root / name
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_dir():
            target.mkdir()
            bind(source, target)
    for name in (*_OWN, *_OWN_OPEN):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _OWN_OPEN:
        (root / name).chmod(0o1777)
    (root / "proc").mkdir()
    try:
        mount("proc", str(root / "proc"), "proc")
    except OSError:  # a container may forbid a new proc, and shows us the old one
        bind(Path("/proc"), root / "proc", writable=True)
    _devices(root / "dev")


def _devices(dev: Path) -> None:
    for name in _DEVICES:
        (dev / name).touch()
        bind(Path("/dev", name), dev / name, writable=True)
    (dev / "pts").mkdir()
    options = "newinstance,ptmxmode=0666,mode=620"
    mount("devpts", str(dev / "pts"), "devpts", _MS_NOSUID, options)
    (dev / "ptmx").symlink_to("pts/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (dev / name).symlink_to(f"/proc/self/fd{target}")


class Sandbox:
    """What the handlers share: the token, the environment, and the background processes."""

    def __init__(self, *, token: str, env: dict[str, str]) -> None:
        self.token = token
        self.env = {**_ENV, **env}
        self.background: dict[str, tuple[subprocess.Popen[bytes], Any, float]] = {}

    def start(self, request: dict[str, Any], **pipes: Any) -> subprocess.Popen[bytes]:
        """The command of an `/exec` or `/processes` request, in a process group of its own."""
        command = request["cmd"]
        shell = request.get("shell")
        if shell or (shell is None and isinstance(command, str)):
            argv = ["/bin/sh", "-c", str(command)]
        else:
            argv = [str(part) for part in command]
        env = self.env | {key: str(value) for key, value in (request.get("env") or {}).items()}
        cwd = request.get("cwd") or "/app"
        return subprocess.Popen(argv, cwd=cwd, env=env, start_new_session=True, **pipes)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and what it started in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Handler(BaseHTTPRequestHandler):
    """One connection of the Hub's proxy."""

    protocol_version = "HTTP/1.1"
    sandbox: Sandbox

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        pass

    def address_string(self) -> str:
        return "hub"

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 (the base class finds them by name)

    def _serve(self) -> None:
        url = urlsplit(self.path)
        path = url.path.removeprefix("/v1")
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        body = self._body()
        if path == "/health":
            return self._json(200, {"status": "ok", "protocol": PROTOCOL, "version": VERSION})
        if not secrets.compare_digest(self.headers.get("X-Sandbox-Token", ""), self.sandbox.token):
            return self._json(401, {"error": "invalid sandbox token"})
        try:
            self._route(path, query, body)
        except FileNotFoundError as error:
            self._json(404, {"error": f"{error.filename or error}: not found"})
        except (OSError, ValueError, KeyError) as error:
            self._json(400, {"error": f"{type(error).__name__}: {error}"})
        return None

    def _route(self, path: str, query: dict[str, str], body: bytes) -> None:
        if path == "/exec":
            self._exec(json.loads(body))
        elif path.startswith("/processes"):
            self._processes(path, body)
        elif path.startswith("/files/"):
            self._files(path.removeprefix("/files/"), query, body)
        else:
            self._json(404, {"error": f"no such route: {path}"})

    # -------------------------------------------------------------- commands

    def _exec(self, request: dict[str, Any]) -> None:
        started = time.monotonic()
        stdin = request.get("stdin")
        try:
            process = self.sandbox.start(
                request,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self._start_stream()
            self._event(event="stderr", data=f"{error}\n")
            self._event(event="exit", exit_code=code, timed_out=False, duration_ms=0)
            return self._end_stream()
        if stdin is not None:
            threading.Thread(target=_feed, args=(process, str(stdin)), daemon=True).start()
        timeout = request.get("timeout")
        deadline = started + float(timeout) if timeout is not None else None
        try:
            self._start_stream()
            timed_out = self._pump(process, deadline)
            code = process.wait()
            self._event(
                event="exit",
                exit_code=code if code >= 0 else None if timed_out else 128 - code,
                signal=-code if code < 0 else None,
                timed_out=timed_out,
                duration_ms=int((time.monotonic() - started) * 1000),
            )
            self._end_stream()
        except OSError:  # the caller went away
            kill_group(process)
            self.close_connection = True
        return None

    def _pump(self, process: subprocess.Popen[bytes], deadline: float | None) -> bool:
        """Passes output on until the command has ended. True when its time ran out."""
        selector = selectors.DefaultSelector()
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert pipe is not None
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            selector.register(pipe, selectors.EVENT_READ, (name, decoder))
        last, ended, timed_out = time.monotonic(), 0.0, False
        while selector.get_map() or process.poll() is None:
            if self._pass_on(selector):
                last = time.monotonic()
            now = time.monotonic()
            if process.poll() is not None:
                ended = ended or now
                if now - ended > OUTPUT_GRACE:
                    break
            elif deadline is not None and now > deadline:
                timed_out = True
                kill_group(process)
            if now - last > PING_EVERY:
                self._event(event="ping")
                last = now
        return timed_out

    def _pass_on(self, selector: selectors.BaseSelector) -> bool:
        """Sends what the command has written within a moment. True when there was anything."""
        if not selector.get_map():
            time.sleep(0.005)
        found = False
        for key, _ in selector.select(timeout=0.05):
            name, decoder = key.data
            data = os.read(key.fd, CHUNK)
            if not data:
                selector.unregister(key.fileobj)
            text = decoder.decode(data, final=not data)
            if text:
                self._event(event=name, data=text)
                found = True
        return found

    def _processes(self, path: str, body: bytes) -> None:
        background = self.sandbox.background
        if self.command == "POST":
            request = json.loads(body)
            null = subprocess.DEVNULL
            process = self.sandbox.start(request, stdin=null, stdout=null, stderr=null)
            name = secrets.token_hex(8)
            background[name] = (process, request["cmd"], time.time())
            self._json(200, {"id": name, "pid": process.pid})
        elif self.command == "DELETE":
            process, _, _ = background[path.removeprefix("/processes/")]
            running = process.poll() is None
            kill_group(process)
            self._json(200, {"killed": running})
        else:
            rows = [
                {
                    "id": name,
                    "pid": process.pid,
                    "cmd": command,
                    "started_at_ms": int(at * 1000),
                    "running": process.poll() is None,
                    "exit_code": process.returncode,
                }
                for name, (process, command, at) in background.items()
            ]
            self._json(200, rows)

    # -------------------------------------------------------------- files

    def _files(self, action: str, query: dict[str, str], body: bytes) -> None:
        path = Path(query["path"])
        if action == "read":
            self._read(path, int(query.get("offset", 0)), query.get("length"))
        elif action == "write":
            write_file(path, body, query)
            self._json(200, {})
        elif action == "list":
            entries = [entry_of(child) for child in sorted(path.iterdir())]
            self._json(200, {"entries": entries, "next": None})
        elif action == "stat":
            self._json(200, entry_of(path))
        elif action == "mkdir":
            path.mkdir(parents=True, exist_ok=True)
            self._json(200, {})
        elif action == "delete":
            delete(path, recursive=query.get("recursive") == "1")
            self._json(200, {})
        else:
            self._json(404, {"error": f"no such route: /files/{action}"})

    def _read(self, path: Path, offset: int, length: str | None) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            left = max(0, size - offset)
            if length is not None:
                left = min(left, int(length))
            file.seek(offset)
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(left))
            self.end_headers()
            while left > 0 and (data := file.read(min(left, CHUNK))):
                self.wfile.write(data)
                left -= len(data)

    # -------------------------------------------------------------- plumbing

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _start_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, **event: Any) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.flush()

    def _end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def _feed(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(text.encode())
        process.stdin.close()


def write_file(path: Path, data: bytes, query: dict[str, str]) -> None:
    """The whole file, or a range of it when an offset is given; parents are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | (0 if "offset" in query else os.O_TRUNC)
    descriptor = os.open(path, flags, 0o644)
    try:
        at = int(query.get("offset", 0))
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, at)
            view, at = view[written:], at + written
        if "truncate_to" in query:
            os.ftruncate(descriptor, int(query["truncate_to"]))
        if "mode" in query:
            os.fchmod(descriptor, int(query["mode"], 8))
    finally:
        os.close(descriptor)


def entry_of(path: Path) -> dict[str, Any]:
    """A file as the protocol describes it."""
    info = path.lstat()
    kind = "dir" if stat.S_ISDIR(info.st_mode) else "file"
    return {
        "name": path.name or "/",
        "path": str(path),
        "type": "symlink" if stat.S_ISLNK(info.st_mode) else kind,
        "size": info.st_size,
        "mtime_ms": int(info.st_mtime * 1000),
        "mode": f"{stat.S_IMODE(info.st_mode):o}",
    }


def delete(path: Path, *, recursive: bool) -> None:
    """Removes a file, an empty directory, or with `recursive` a whole tree."""
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path) if recursive else path.rmdir()
    else:
        path.unlink()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """HTTP on a Unix socket, a thread for each connection."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    """Reads the configuration, builds the sandbox, serves until standard input ends."""
    config: dict[str, Any] = json.loads(sys.stdin.readline())
    root = Path(config["root"])
    if config.get("check"):
        build_root(root)
        os.chroot(root)
        return
    Handler.sandbox = Sandbox(token=config["token"], env=config.get("env") or {})
    # The socket takes its name when the sandbox is ready, from inside: its folder is held open.
    place = Path(config["socket"])
    hidden = place.with_suffix(".new")
    server = Server(str(hidden), Handler)
    hidden.chmod(0o666)
    folder = os.open(place.parent, os.O_DIRECTORY)
    build_root(root)
    os.chroot(root)
    os.chdir("/")
    if script := config.get("build"):
        built = Handler.sandbox.start(
            {"cmd": ["/bin/bash", "-c", script]}, stdin=subprocess.DEVNULL
        )
        if built.wait() != 0:
            sys.exit(f"the image's build script ended with {built.returncode}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.rename(hidden.name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    print(f"sbx-server {VERSION} (loopback) is ready", flush=True)  # noqa: T201
    while sys.stdin.read(1 << 10):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
