"""`tbh compare A B`: two results side by side, with a verdict and its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tbh_action.comparison.gate_options import gate_options, judgement_from


@click.command("compare")
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("baseline")
@gate_options
@click.option("--json", "as_json", is_flag=True, help="Print comparison and gate as JSON.")
def compare_command(ours: Path, baseline: str, as_json: bool, **params: Any) -> None:
    """Compare the results OURS with an earlier run: is the model worse?

    OURS is a results.json or a run directory. BASELINE is one as well, or a directory of runs, or
    hf://datasets/ORG/NAME; #latest, #best or #REVISION after it chooses among several.

    The exit code is 0 when the gate passes, 1 when it fails, 4 when there is no safe answer.
    """
    from tbh_action.comparison.baseline import find_baseline
    from tbh_action.comparison.earlier import RESULTS, read_results
    from tbh_action.comparison.judge import judged

    judgement = judgement_from(params)
    results = read_results(ours / RESULTS if ours.is_dir() else ours)
    document = judged(results, find_baseline(baseline, results), judgement)
    if as_json:
        keys = ("comparison", "gate", "flaky", "warnings")
        click.echo(json.dumps({key: document[key] for key in keys}, indent=1, allow_nan=False))
    else:
        from tbh_action.comparison.compare_text import comparison_lines

        click.echo("\n".join(comparison_lines(document)))
    sys.exit(document["gate"]["exit_code"])
