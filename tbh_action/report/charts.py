"""The page's drawings as SVG: colours come from the page's style sheet, texts are escaped here.

Each drawing is an image with a name that says in words what it shows; the tables of the page hold
the same numbers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tbh_action.escape import html, one_line, shorten
from tbh_action.report import view, words
from tbh_action.report.words import Results

_WIDTH: Final = 1000
_BARS_WIDTH: Final = 480
_BARS_HEIGHT: Final = 190
_STATUSES: Final = ("passed", "failed", "errored")
# Above this many trials a drawing has one path for each status, and no title on each trial.
_MANY: Final = 3000
# Above this many a square of the strip stands for several trials, and no time line is drawn.
MOST: Final = 20_000
_HATCH: Final = (
    '<defs><pattern id="{id}" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-back"/>'
    '<rect width="2.5" height="6" class="hatch-line"/></pattern></defs>'
)


def outcome_strip(results: Results) -> str:
    """One small square for each task (and attempt), the passed ones first; empty when none.

    Of more than `MOST`, one square for so many of the same outcome that it fits.
    """
    rows = sorted(results["tasks"], key=lambda row: _STATUSES.index(row["status"]))
    rows = rows[:: math.ceil(len(rows) / MOST)] if rows else []
    if not rows:
        return ""
    columns = _columns(len(rows))
    cell = _WIDTH / columns
    height = min(cell, 36.0)
    gap = min(2.0, cell * 0.15)
    boxes = [
        _Box(
            x=index % columns * cell,
            y=index // columns * height,
            width=cell - gap,
            height=height - gap,
            status=row["status"],
            title=f"{row['task']}: {words.outcome(row)}" if len(rows) <= _MANY else "",
        )
        for index, row in enumerate(rows)
    ]
    counts = results["counts"]
    label = ", ".join(f"{counts[status]} {status}" for status in _STATUSES)
    total = math.ceil(len(rows) / columns) * height
    return _svg(total, f"Outcomes: {label}", _boxes(boxes), hatch="hatch-strip")


def _columns(number: int) -> int:
    """So many that the squares are at least 8 wide, and the last row is nearly full."""
    lines = math.ceil(number / 125)
    return math.ceil(number / lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float
    status: str
    title: str


def _boxes(boxes: Sequence[_Box]) -> Iterator[str]:
    if len(boxes) <= _MANY:
        for box in boxes:
            title = html(shorten(one_line(box.title), 200))
            yield (
                f'<rect class="s-{box.status}" x="{box.x:.1f}" y="{box.y:.1f}" '
                f'width="{box.width:.1f}" height="{box.height:.1f}" rx="1.5">'
                f"<title>{title}</title></rect>"
            )
        return
    for status in _STATUSES:
        steps = "".join(
            f"M{box.x:.1f} {box.y:.1f}h{box.width:.1f}v{box.height:.1f}h{-box.width:.1f}z"
            for box in boxes
            if box.status == status
        )
        if steps:
            yield f'<path class="s-{status}" d="{steps}"/>'


def _svg(
    height: float, label: str, parts: Iterable[str], *, hatch: str, width: int = _WIDTH
) -> str:
    """`hatch` is the identifier of the drawing's own pattern for what was not scored."""
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{html(label)}" '
        f'style="--hatch:url(#{hatch})">{_HATCH.format(id=hatch)}{"".join(parts)}</svg>'
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trial:
    """A trial on the time line; times in seconds since its left end."""

    start: float
    end: float
    lane: int
    row: Results


def timeline(results: Results) -> str:
    """Trials over time in lanes, passes, outages, the concurrency limit; empty when unknown, and
    for more than `MOST` trials."""
    if len(results["timeline"]["trials"]) > MOST:
        return ""
    trials, origin = _lanes(results)
    if not trials:
        return ""
    end = max(trial.end for trial in trials) or 1.0
    lanes = max(trial.lane for trial in trials) + 1
    lane = max(4.0, min(16.0, 320 / lanes))
    top = 26.0
    bottom = top + lanes * lane
    scale = _WIDTH / end
    parts = [
        *_passes(results, origin, scale, bottom),
        *_outages(results, origin, scale, top, bottom),
        *_boxes(
            [
                _Box(
                    x=trial.start * scale,
                    y=top + trial.lane * lane + 1,
                    width=max((trial.end - trial.start) * scale - 0.7, 0.8),
                    height=lane - 2,
                    status=trial.row["status"],
                    title=_trial_title(trial) if len(trials) <= _MANY else "",
                )
                for trial in trials
            ]
        ),
        *_axis(end, scale, bottom),
    ]
    below = bottom + 30
    limits = _limits(results, origin, end, scale, below)
    outages = len(results["timeline"]["outages"])
    label = (
        f"{words.plural(len(trials), 'trial')} in {words.duration(end)}, "
        f"{lanes} at once at most, {words.plural(outages, 'outage')}"
    )
    return _svg(below + (76 if limits else 0), label, [*parts, *limits], hatch="hatch-time")


def _lanes(results: Results) -> tuple[list[_Trial], float]:
    """Each trial in the first lane that is free; and the instant of the left end."""
    known: list[tuple[float, float, Results]] = []
    for row in results["timeline"]["trials"]:
        start, end = words.instant(row.get("started_at")), words.instant(row.get("finished_at"))
        if start and end and end >= start and row.get("status") in _STATUSES:
            known.append((start.timestamp(), end.timestamp(), row))
    known.sort(key=lambda item: item[:2])
    origin = known[0][0] if known else 0.0
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    trials: list[_Trial] = []
    lanes = 0
    for begin, finish, row in known:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else lanes
        lanes = max(lanes, lane + 1)
        heapq.heappush(busy, (finish, lane))
        trials.append(_Trial(start=begin - origin, end=finish - origin, lane=lane, row=row))
    return trials, origin


def _trial_title(trial: _Trial) -> str:
    row = trial.row
    spent = words.duration(trial.end - trial.start)
    return f"{row['task']}: {words.outcome(row)}, pass {row.get('pass')}, {spent}"


def _since(text: str | None, origin: float) -> float | None:
    moment = words.instant(text)
    return None if moment is None else moment.timestamp() - origin


def _passes(results: Results, origin: float, scale: float, bottom: float) -> Iterator[str]:
    for row in results["passes"]:
        start, end = _since(row["started_at"], origin), _since(row["finished_at"], origin)
        if start is None or end is None:
            continue
        x, width = max(start, 0) * scale, max((end - max(start, 0)) * scale, 1)
        shade = "odd" if row["number"] % 2 else "even"
        yield (
            f'<rect class="pass-{shade}" x="{x:.1f}" y="0" width="{width:.1f}" '
            f'height="{bottom:.1f}"/>'
        )
        if width > 26:
            text = f"Pass {row['number']}" if width > 58 else str(row["number"])
            yield f'<text x="{x + 6:.1f}" y="17">{html(text)}</text>'


def _outages(
    results: Results, origin: float, scale: float, top: float, bottom: float
) -> Iterator[str]:
    for row in results["timeline"]["outages"]:
        start, end = _since(row["started_at"], origin), _since(row["finished_at"], origin)
        if start is None or end is None:
            continue
        title = html(shorten(one_line(f"Outage: {row.get('reason') or 'unknown'}"), 200))
        yield (
            f'<rect class="outage" x="{start * scale:.1f}" y="{top:.1f}" '
            f'width="{max((end - start) * scale, 2):.1f}" height="{bottom - top:.1f}">'
            f"<title>{title}</title></rect>"
        )


def _axis(end: float, scale: float, bottom: float) -> Iterator[str]:
    step = next(
        (step for step in (60, 300, 900, 1800, 3600, 7200, 14_400, 43_200) if end / step <= 12),
        86_400 * max(1, math.ceil(end / 86_400 / 12)),
    )
    for number in range(int(end / step) + 1):
        x = number * step * scale
        anchor = "start" if number == 0 else "end" if x > _WIDTH - 20 else "middle"
        text = words.duration(number * step) if number else "0"
        yield f'<path class="tick" d="M{x:.1f} {bottom:.1f}v5"/>'
        yield (f'<text x="{x:.1f}" y="{bottom + 19:.1f}" text-anchor="{anchor}">{text}</text>')


def _limits(results: Results, origin: float, end: float, scale: float, top: float) -> list[str]:
    """The concurrency limit as steps, with a number at each change that has room for it."""
    points = [
        (max(since, 0.0), int(row["limit"]), row.get("reason") or "")
        for row in results["timeline"]["concurrency"]
        if (since := _since(row["at"], origin)) is not None and since <= end
    ]
    if not points:
        return []
    points.sort(key=lambda point: point[0])
    highest = max(limit for _, limit, _ in points) or 1
    base, height = top + 70, 30
    path, parts, last_label = "", [], -99.0
    for index, (since, limit, reason) in enumerate(points):
        x, y = since * scale, base - limit / highest * height
        path += f"M{x:.1f} {y:.1f}" if not path else f"H{x:.1f}V{y:.1f}"
        until = points[index + 1][0] if index + 1 < len(points) else end
        title = html(shorten(one_line(f"At most {limit} at once: {reason}"), 200))
        parts.append(
            f'<rect class="hit" x="{x:.1f}" y="{base - height:.1f}" height="{height}" '
            f'width="{max((until - since) * scale, 1):.1f}"><title>{title}</title></rect>'
        )
        if x - last_label > 24:
            parts.append(f'<text x="{x + 3:.1f}" y="{y - 5:.1f}">{limit}</text>')
            last_label = x
    label = f'<text x="0" y="{top + 12:.1f}">Trials at once, at most</text>'
    return [label, f'<path class="limit" d="{path}H{end * scale:.1f}"/>', *parts]


def histogram(rows: Sequence[Results], key: str, edges: Sequence[float], labels: list[str]) -> str:
    """Stacked bars by outcome over ranges of `key` (agent_seconds or output tokens)."""
    values: dict[str, list[float]] = {status: [] for status in _STATUSES}
    for row in rows:
        if value := measure(row, key):
            values[row["status"]].append(value)
    stacks = {status: view.histogram(known, list(edges)) for status, known in values.items()}
    totals = [sum(stack[bar] for stack in stacks.values()) for bar in range(len(labels))]
    if not any(totals):
        return ""
    spoken = ", ".join(f"{label}: {n}" for label, n in zip(labels, totals, strict=True) if n)
    return _svg(
        _BARS_HEIGHT + 26,
        f"Trials by range: {spoken}",
        _bars(stacks, totals, labels),
        hatch=f"hatch-{key}",
        width=_BARS_WIDTH,
    )


def measure(row: Results, key: str) -> float | None:
    """One number of a task's row."""
    value = (row.get("tokens") or {}).get("output") if key == "output_tokens" else row.get(key)
    return float(value) if value else None


def _bars(stacks: dict[str, list[int]], totals: list[int], labels: list[str]) -> Iterator[str]:
    bar, highest = _BARS_WIDTH / len(labels), max(totals)
    for index, label in enumerate(labels):
        y = float(_BARS_HEIGHT)
        for status, stack in stacks.items():
            if stack[index]:
                tall = stack[index] / highest * (_BARS_HEIGHT - 24)
                y -= tall
                title = html(f"{label}: {stack[index]} {status}")
                yield (
                    f'<rect class="s-{status}" x="{index * bar + 3:.1f}" y="{y:.1f}" '
                    f'width="{bar - 6:.1f}" height="{max(tall - 1, 0.5):.1f}">'
                    f"<title>{title}</title></rect>"
                )
        middle = index * bar + bar / 2
        if totals[index]:
            yield _middle(middle, y - 5, str(totals[index]))
        yield _middle(middle, _BARS_HEIGHT + 19, label)
    yield f'<path class="tick" d="M0 {_BARS_HEIGHT}h{_BARS_WIDTH}"/>'


def _middle(x: float, y: float, text: str) -> str:
    return f'<text text-anchor="middle" x="{x:.1f}" y="{y:.1f}">{html(text)}</text>'


def quantiles(rows: Sequence[Results], key: str) -> dict[str, Any]:
    """Median and 90th percentile (nearest rank) and the maximum of what is known."""
    values = sorted(value for row in rows if (value := measure(row, key)))
    if not values:
        return {}
    rank = {
        name: math.ceil(share * len(values)) - 1 for name, share in (("p50", 0.5), ("p90", 0.9))
    }
    return {name: values[index] for name, index in rank.items()} | {"max": values[-1]}
