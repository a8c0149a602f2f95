"""The plan of a run for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tbh_action.durations import format_duration

if TYPE_CHECKING:
    from tbh_action.policy.plan import Plan, Range

_LINES_SHOWN: Final = 12


def render(plan: Plan) -> str:
    """The plan as lines of text, the last one ended too."""
    lines = [
        f"{plan.n_trials} trials of {plan.n_tasks} tasks, by {plan.basis}",
        f"  time     {_times(plan.seconds)}",
        f"  legs     {_counts(plan.legs)} of {format_duration(plan.leg)}",
        f"  servers  {_counts(plan.servers)}, one after another",
        f"  cost     {_money(plan.cost)}",
    ]
    if plan.cannot_run:
        lines += ["", "Can't run here:", *(f"  - {line}" for line in plan.cannot_run)]
    if plan.too_long:
        lines += ["", "May take longer than fits:"]
        lines += [
            f"  - {item.task}: up to {format_duration(item.worst)}, "
            f"{item.where} is {format_duration(item.limit)}"
            for item in plan.too_long[:_LINES_SHOWN]
        ]
        if len(plan.too_long) > _LINES_SHOWN:
            lines.append(f"  - and {len(plan.too_long) - _LINES_SHOWN} more")
        lines += ["", *_help(plan)]
    return (
        "\n".join(
            [
                *lines,
                *([""] if plan.warnings else []),
                *(f"Warning: {text}" for text in plan.warnings),
            ]
        )
        + "\n"
    )


def _help(plan: Plan) -> list[str]:
    lines = ["What helps:"]
    if plan.max_agent_time is not None:
        cap = format_duration(plan.max_agent_time).replace(" ", "")
        lines.append(f"  - --max-agent-time {cap} makes every task fit (and changes the result)")
    lines.append("  - a self-hosted runner (5 days a job): --time-budget 110h")
    lines.append("  - `tbh submit`: the controller runs as a job on the Hub, without legs")
    return lines


def _times(times: Range) -> str:
    return f"{format_duration(times.low)} to {format_duration(times.high)}"


def _counts(counts: Range) -> str:
    if counts.low == counts.high:
        return f"{counts.low:.0f}"
    return f"{counts.low:.0f} to {counts.high:.0f}"


def _money(cost: Range | None) -> str:
    return "unknown" if cost is None else f"${cost.low:.2f} to ${cost.high:.2f}"
