"""What runs inside the controller's job: `tbh run`, and the run directory sent to the store.

`python -m tbh_action.detached.controller NAMESPACE NAME`. What a controller before it stored is
taken up first, so that the next job goes on where the last one stood.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tbh_action.commands.run_options import Duration
from tbh_action.controller import state as run_state
from tbh_action.detached import progress, snapshot, submission
from tbh_action.detached.snapshot import ChangedError, Snapshot, Stamp
from tbh_action.detached.store import Store
from tbh_action.detached.submission import Submission
from tbh_action.errors import NotStartedError, SpecError
from tbh_action.escape import terminal
from tbh_action.redact import Redactor
from tbh_action.rundir import RunDir
from tbh_action.server import hf_job
from tbh_action.server.hub_errors import explain, hub_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_TICK: Final = 0.5
_TAIL_LINES: Final = 20
_TAKE_TRIES: Final = 5
_TAKE_PAUSE: Final = 0.5
# Seconds before the last tries to store the end of a run.
_LAST_PAUSES: Final = (0.0, 10.0, 30.0, 60.0, 120.0)
# The run ends so long before its job would be ended, or after nine tenths of a short life.
_CLOSING: Final = 900.0
_STOPPED: Final = 128


@click.command()
@click.argument("namespace")
@click.argument("name")
@click.option("--sync-every", type=Duration(), required=True)
@click.option("--lifetime", type=Duration(), required=True)
@click.pass_context
def main(ctx: click.Context, namespace: str, name: str, sync_every: float, lifetime: float) -> None:
    """The controller of the detached run NAME of NAMESPACE."""
    api = hf_job.hub_api()
    store = Store(api, namespace, name)
    document = store.read(submission.FILE)
    if document is None:
        raise NotStartedError(f"There is no {store.url}/{submission.FILE}: submit the run again.")
    asked = Submission.from_json(document)
    run_dir = RunDir(Path("runs", name).resolve())
    with tempfile.TemporaryDirectory(prefix="tbh-restore-") as folder:
        if snapshot.restore(store.download(Path(folder)), run_dir):
            click.echo(f"going on from {store.url}")
    stop_leftovers(api, run_dir, namespace)
    for path, text in asked.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    budget = lifetime - min(_CLOSING, lifetime / 10)
    ctx.exit(Keeper(store, run_dir).run(_command(asked, run_dir, budget), sync_every))


def _command(asked: Submission, run_dir: RunDir, budget: float) -> list[str]:
    return [
        *(sys.executable, "-m", "tbh_action", "run", *asked.arguments),
        *("--run-dir", str(run_dir.root), "--time-budget", f"{budget:.0f}s", "--comment", "never"),
    ]


def stop_leftovers(api: HfApi, run_dir: RunDir, namespace: str) -> None:
    """Cancels what a controller that died had started and not stored: nobody would adopt it."""
    state = run_state.load(run_dir)
    if state is None:
        return
    known = {job.nonce for job in state.servers}
    try:
        jobs = hf_job.jobs_of_run(api, state.run_id, namespace)
    except hub_errors() as error:
        click.echo(f"the Hub cannot be asked what an earlier controller left: {explain(error)}")
        return
    for job in jobs:
        adoptable = job.kind == "server" and job.nonce in known
        if not job.ended and not adoptable:
            hf_job.cancel(api, job)
            click.echo(f"cancelled the {job.kind} {job.job_id} that an earlier controller left")


class Keeper:
    """Runs `tbh run` and keeps its directory in the store."""

    def __init__(self, store: Store, run_dir: RunDir) -> None:
        self._store = store
        self._run_dir = run_dir
        self._sent: dict[str, Stamp] = snapshot.stamps_of(run_dir)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._redactor = Redactor.from_environment()
        self._stopping = threading.Event()

    def run(self, command: list[str], sync_every: float) -> int:
        """The exit code of `command`, once its end is stored."""
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._pass_signals_to(child)
        reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        reader.start()
        due, stored = time.monotonic() + sync_every, self._landmarks()
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_TICK)
            landmarks = self._landmarks()
            if time.monotonic() > due or landmarks != stored:
                self._sync(None)
                due, stored = time.monotonic() + sync_every, landmarks
        reader.join(_TICK)
        code = child.returncode if child.returncode >= 0 else _STOPPED - child.returncode
        self._store_end(code)
        return code

    def _pass_signals_to(self, child: subprocess.Popen[str]) -> None:
        def passed(number: int, _: object) -> None:
            self._stopping.set()
            if child.poll() is None:
                child.send_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, passed)

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            self._tail.append(self._redactor.text(terminal(line.rstrip("\n"))))
            click.echo(line, nl=False)

    def _landmarks(self) -> object:
        """What the next controller must know at once: paid servers, and which pass it is."""
        try:
            state = run_state.load(self._run_dir)
        except SpecError:
            return None
        if state is None or not self._run_dir.spec.exists():
            return None
        return ([(job.nonce, job.ended) for job in state.servers], len(state.passes), state.status)

    def _store_end(self, code: int) -> None:
        """Stores how it ended, with patience: it is the answer."""
        for pause in _LAST_PAUSES:
            if pause and self._stopping.wait(pause):
                break
            if self._sync(code):
                return
        click.echo(f"The end of the run could not be stored in {self._store.url}.", err=True)

    def _sync(self, code: int | None) -> bool:
        try:
            taken = self._take() if self._run_dir.spec.exists() else None
            now = progress.progress(self._run_dir, exit_code=code, tail=list(self._tail))
            files = dict(taken.files) if taken else {}
            files[progress.FILE] = _json(now.to_json())
            self._store.write(files, f"{self._run_dir.name}: {now.scored} scored, {now.status}")
        except Exception as error:  # noqa: BLE001 (what can't be stored must not end what is paid)
            click.echo(f"not stored this time: {explain(error)}")
            return False
        if taken:
            self._sent = dict(taken.stamps)
        return True

    def _take(self) -> Snapshot:
        return patiently(lambda lenient: snapshot.take(self._run_dir, self._sent, lenient=lenient))


def patiently(take: Callable[[bool], Snapshot]) -> Snapshot:
    """A snapshot of a run that changes while we look; the last try takes half a file as it is."""
    for attempt in range(_TAKE_TRIES):
        try:
            return take(attempt == _TAKE_TRIES - 1)
        except ChangedError:
            if attempt == _TAKE_TRIES - 1:
                raise
            time.sleep(_TAKE_PAUSE)
    raise AssertionError


def _json(document: dict[str, object]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(prog_name="tbh-controller")
