"""JUnit XML, as Jenkins, GitLab and the test reporters on GitHub read it.

failed → `<failure>`; errored → `<error>`; never run to an end (missing, interrupted) →
`<skipped>`, since those say nothing about the model. https://github.com/testmoapp/junitxml
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tbh_action.escape import one_line, shorten, xml
from tbh_action.report import words
from tbh_action.report.words import Results

_SKIPPED: Final = frozenset({"missing", "interrupted"})
_LOG: Final = 4000
_MESSAGE: Final = 500


def render(results: Results) -> str:
    """One suite for the benchmark, one case for each task (and attempt)."""
    return "".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    kinds = [_kind(row) for row in results["tasks"]]
    seconds = sum(row.get("seconds") or 0.0 for row in results["tasks"])
    totals = (
        f'tests="{len(kinds)}" failures="{kinds.count("failure")}" '
        f'errors="{kinds.count("error")}" skipped="{kinds.count("skipped")}" time="{seconds:.3f}"'
    )
    name = xml(one_line(results["run"]["name"]))
    started = words.instant(results["run"].get("started_at"))
    # The schema's time stamp has no zone; it is UTC.
    stamp = f' timestamp="{started:%Y-%m-%dT%H:%M:%S}"' if started else ""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="{name}" {totals}>\n'
    suite = xml(one_line(words.name_of(results, "benchmark")))
    yield f'<testsuite name="{suite}" {totals}{stamp}>\n'
    yield from _properties(results)
    # Consumers split a class name at its dots into packages: `terminal-bench-2.1` is one name.
    class_name = suite.replace(".", "_")
    for row, kind in zip(results["tasks"], kinds, strict=True):
        yield from _case(row, kind, class_name, several=results["n_attempts"] > 1)
    yield "</testsuite>\n</testsuites>\n"


def _properties(results: Results) -> Iterator[str]:
    values = {
        "model": words.name_of(results, "model"),
        "model.revision": results["model"].get("revision"),
        "benchmark.revision": results["benchmark"].get("revision"),
        "agent": words.name_of(results, "agent"),
        "fingerprint": results["fingerprint"],
        "pass_rate": results["rates"]["all"],
        "pass_rate_scored": results["rates"]["scored"],
    }
    yield "<properties>\n"
    for name, value in values.items():
        if value is not None:
            yield f'<property name="{name}" value="{xml(one_line(str(value)))}"/>\n'
    yield "</properties>\n"


def _case(row: Results, kind: str, class_name: str, *, several: bool) -> Iterator[str]:
    name = one_line(row["task"]) + (f" [{row['attempt']}]" if several else "")
    yield (
        f'<testcase name="{xml(name)}" classname="{class_name}" '
        f'time="{row.get("seconds") or 0.0:.3f}"'
    )
    if kind == "passed":
        yield "/>\n"
        return
    reason = xml(shorten(one_line(str(row.get("reason") or "")), _MESSAGE))
    if kind == "skipped":
        yield f'>\n<skipped message="{reason}"/>\n</testcase>\n'
        return
    label = row.get("exception") or (row["class"] if kind == "error" else "Failed")
    detail = xml(shorten(str(row.get("message") or row.get("reason") or ""), _LOG))
    yield f'>\n<{kind} type="{xml(one_line(str(label)))}" message="{reason}">{detail}</{kind}>\n'
    if row.get("log_tail"):
        yield f"<system-out>{xml(str(row['log_tail'])[-_LOG:])}</system-out>\n"
    yield "</testcase>\n"


def _kind(row: dict[str, Any]) -> str:
    if row["status"] == "errored":
        return "skipped" if row["class"] in _SKIPPED else "error"
    return "failure" if row["status"] == "failed" else "passed"
