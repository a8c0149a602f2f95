"""Where the directory of a trial lies: in Harbor's job, or archived before Harbor deletes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tbh_action.rundir import RunDir


def find_trial(run_dir: RunDir, trial: str) -> Path | None:
    """Where a trial's directory lies now: in the job, in an archive, or nowhere."""
    for place in (run_dir.harbor_job, *run_dir.archives()):
        if (place / trial).is_dir():
            return place / trial
    return None


@dataclass(frozen=True, slots=True)
class Move:
    """A trial directory that was moved from `source` to `target`."""

    source: Path
    target: Path


def archive_trials(run_dir: RunDir, pass_number: int, trials: Iterable[str]) -> list[Move]:
    """Moves trials, whole, from the job into the archive of the pass that ran them.

    Each move is one rename, so a crash leaves every trial in one of the two places, and calling
    this again finishes the work. Returns the moves, those of an interrupted earlier call too.
    """
    archive = run_dir.archive(pass_number)
    archive.mkdir(parents=True, exist_ok=True)
    moves: list[Move] = []
    for trial in trials:
        move = Move(run_dir.harbor_job / trial, archive / trial)
        if move.source.is_dir() and not move.target.exists():
            move.source.rename(move.target)
        if move.target.is_dir() and not move.source.exists():
            moves.append(move)
    return moves


def restore(moves: Iterable[Move]) -> None:
    """Undoes moves: for a pass that could not start. A move that is undone already is left."""
    for move in moves:
        if move.target.is_dir() and not move.source.exists():
            move.source.parent.mkdir(parents=True, exist_ok=True)
            move.target.rename(move.source)
