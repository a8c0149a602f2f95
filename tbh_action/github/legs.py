"""What the reusable workflow needs to know before its first leg: shards, name, artifact names.

`python -m tbh_action.github.legs` reads TBH_* and writes the step's outputs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Final

from tbh_action.errors import SpecError
from tbh_action.escape import filename
from tbh_action.github.marker import digest
from tbh_action.github.runner import Annotation, Runner

MOST_SHARDS: Final = 20
MOST_LEGS: Final = 4
_IDENTITY: Final = (
    *("RECIPE", "MODEL", "MODEL_REVISION", "ENDPOINT"),
    *("BENCHMARK", "PATH", "REPO", "SHARDS"),
)


def plan(env: Mapping[str, str]) -> dict[str, str]:
    """The outputs `name`, `shards` (a JSON list), `count` (of them), `legs`, `server` (`each` or
    `shared`) and `parts` (a JSON list: what follows the name in the names of what may be paid for).

    The name is the same for each dispatch of the same question in one repository, so that a later
    dispatch can go on with the state of an earlier one, and finds what it left on the Hub. The
    workflow's `concurrency` keeps two of them from running at once.

    Raises:
        SpecError: a number that is none, or out of range; a server that can't be.
    """
    shards = _number(env, "shards", MOST_SHARDS)
    legs = _number(env, "legs", MOST_LEGS)
    server = _server(env)
    parts = [f"s{shard}" for shard in range(1, shards + 1)]
    identity = "\n".join(env.get(f"TBH_{key}", "").strip() for key in _IDENTITY)
    who = digest(f"{env.get('GITHUB_REPOSITORY', '')}\n{identity}")[:8]
    subject = env.get("TBH_RECIPE", "").strip() or env.get("TBH_MODEL", "").strip()
    short = filename(subject.rsplit("/", 1)[-1].removesuffix(".toml"), limit=24)
    return {
        "name": f"{short}-{who}",
        "count": str(shards),
        "shards": json.dumps(list(range(1, shards + 1))),
        "legs": str(legs),
        "server": server,
        "parts": json.dumps([*parts, "server"] if server == "shared" else parts),
    }


def _server(env: Mapping[str, str]) -> str:
    text = env.get("TBH_SERVER", "").strip() or "each"
    if text not in ("each", "shared"):
        raise SpecError(f"input `server`: {text!r} is neither each nor shared.")
    if text == "shared" and env.get("TBH_ENDPOINT", "").strip():
        raise SpecError("input `server`: all shards use the `endpoint` already; drop one of them.")
    return text


def _number(env: Mapping[str, str], name: str, most: int) -> int:
    text = env.get(f"TBH_{name.upper()}", "").strip() or "1"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise SpecError(f"input `{name}`: {text!r} is not a whole number from 1 to {most}.")
    return int(text)


def main() -> int:
    """Writes the outputs; a wrong input is an error beside the run."""
    runner = Runner()
    try:
        runner.write_outputs(plan(os.environ))
    except SpecError as error:
        error.show(file=sys.stderr)
        runner.annotate([Annotation(level="error", title="Terminal-Bench", message=error.message)])
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
