"""The answer of a detached run, from what its controller stored."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tbh_action.controller import state as run_state
from tbh_action.controller.spec_file import read_asked
from tbh_action.detached import snapshot
from tbh_action.detached.progress import planned_tasks
from tbh_action.detached.store import Store
from tbh_action.errors import SpecError
from tbh_action.rundir import RunDir
from tbh_action.scoring import ledger, results
from tbh_action.scoring.answer import make_results


@contextmanager
def fetched(store: Store, beside: Path) -> Iterator[RunDir | None]:
    """The stored run in a directory beside `beside`, gone afterwards unless it was moved; None when
    no state of it is stored yet."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=beside.parent, prefix=f".{beside.name}.", ignore_cleanup_errors=True
    ) as folder:
        place = store.download(Path(folder) / "store")
        run_dir = RunDir(Path(folder) / store.name)
        yield run_dir if snapshot.restore(place, run_dir) else None


def put(run_dir: RunDir, target: Path) -> RunDir:
    """Moves a fetched run to `target`, in place of an earlier state of the same run.

    Raises:
        SpecError: there is something else, or a state that knows more.
    """
    old = RunDir(target.resolve())
    if target.exists():
        _refuse_loss(old, run_dir)
        shutil.rmtree(old.root)
    run_dir.root.rename(old.root)
    return old


def _refuse_loss(old: RunDir, new: RunDir) -> None:
    if old.root.is_dir() and not any(old.root.iterdir()):
        return
    ours, theirs = run_state.load(new), run_state.load(old)
    same = ours is not None and theirs is not None and ours.run_id == theirs.run_id
    known = {attempt.trial for attempt in ledger.read_attempts(new.attempts)}
    more = {attempt.trial for attempt in ledger.read_attempts(old.attempts)} - known
    if not same:
        raise SpecError(f"{old.root} holds something else than this run; give another --out.")
    if more:
        raise SpecError(
            f"{old.root} knows {len(more)} trials that the stored run does not (it was continued "
            "there); give another --out."
        )


def document(run_dir: RunDir, *, finished: bool) -> dict[str, Any]:
    """The results of a fetched run: the controller's own, or what its files give so far."""
    if finished and run_dir.results.exists():
        return results.read(run_dir.results)
    asked, state = read_asked(run_dir), run_state.load(run_dir)
    if asked is None or state is None:
        raise SpecError(f"The stored run {run_dir.name} says neither what was asked nor its state.")
    state.stop_reason = state.stop_reason or "collected before its end"
    return make_results(run_dir, asked, state, planned_tasks(run_dir, asked), provenance={})
