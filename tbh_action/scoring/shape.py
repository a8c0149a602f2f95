"""Whether a document has the shape that `results.schema.json` describes.

A file that somebody edited must be refused in a line that says where it is wrong, not in a
traceback from whoever reads it. jsonschema could tell, but takes seconds for 10,000 trials; this
takes a fifth of one. It understands what our schema uses. Keys that the schema does not know are
left alone: a later release may add some.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# Nothing that is counted here is larger, and arithmetic with it stays finite.
_MOST: Final = 1e18

type _Schema = dict[str, Any]
# The place below and what is wrong there; None when nothing is.
type _Fault = tuple[str, str] | None
type _Check = Callable[[Any], _Fault]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def fault(document: Any) -> str | None:
    """What is wrong first, such as `tasks.3.status is 'x'`; None when the shape is right."""
    found = _checks()(document)
    return None if found is None else f"{found[0].lstrip('.') or 'it'} {found[1]}"


@functools.cache
def _checks() -> _Check:
    file = Path(__file__).with_name("results.schema.json")
    schema: _Schema = json.loads(file.read_text(encoding="utf-8"))
    known: dict[str, _Check] = {}
    for name, part in schema["$defs"].items():
        known[f"#/$defs/{name}"] = _later(known, part)
    return _compiled(schema, known)


def _later(known: dict[str, _Check], part: _Schema) -> _Check:
    """Definitions use each other, so each is compiled when it is first needed."""

    @functools.cache
    def made() -> _Check:
        return _compiled(part, known)

    def check(value: Any) -> _Fault:
        return made()(value)

    return check


def _compiled(schema: _Schema | bool, known: dict[str, _Check]) -> _Check:
    if isinstance(schema, bool):  # `true`: anything
        return _all_of([])
    if "$ref" in schema:
        return known[schema["$ref"]]
    if "oneOf" in schema:
        return _any_of([_compiled(part, known) for part in schema["oneOf"]])
    checks: list[_Check] = [_type(schema["type"])] if "type" in schema else []
    if "const" in schema or "enum" in schema:
        checks.append(_one_of(schema.get("enum", [schema.get("const")])))
    if "pattern" in schema:
        checks.append(_pattern(re.compile(schema["pattern"])))
    if "minimum" in schema or "maximum" in schema:
        checks.append(_range(schema.get("minimum", -_MOST), schema.get("maximum", _MOST)))
    if "properties" in schema or isinstance(schema.get("additionalProperties"), dict):
        checks.append(_object(schema, known))
    if "items" in schema or "prefixItems" in schema:
        checks.append(_list(schema, known))
    return _all_of(checks)


def _all_of(checks: list[_Check]) -> _Check:
    if len(checks) == 1:
        return checks[0]

    def check(value: Any) -> _Fault:
        for each in checks:
            if (found := each(value)) is not None:
                return found
        return None

    return check


def _any_of(checks: list[_Check]) -> _Check:
    def check(value: Any) -> _Fault:
        faults = [each(value) for each in checks]
        return None if None in faults else faults[0]

    return check


def _type(names: str | list[str]) -> _Check:
    wanted = [names] if isinstance(names, str) else names
    types = tuple(kind for name in wanted for kind in _TYPES[name])
    booleans = "boolean" in wanted

    def check(value: Any) -> _Fault:
        if not isinstance(value, types) or (isinstance(value, bool) and not booleans):
            return "", f"is {_shown(value)}, not {' or '.join(wanted)}"
        if isinstance(value, int | float) and not -_MOST <= value <= _MOST:  # NaN neither
            return "", f"is {_shown(value)}, which is out of range"
        return None

    return check


def _one_of(values: list[Any]) -> _Check:
    def check(value: Any) -> _Fault:
        if value in values and not isinstance(value, bool):
            return None
        return "", f"is {_shown(value)}"

    return check


def _pattern(pattern: re.Pattern[str]) -> _Check:
    def check(value: Any) -> _Fault:
        if isinstance(value, str) and not pattern.search(value):
            return "", f"is {_shown(value)}"
        return None

    return check


def _range(low: float, high: float) -> _Check:
    def check(value: Any) -> _Fault:
        if isinstance(value, int | float) and not low <= value <= high:
            return "", f"is {_shown(value)}, which is out of range"
        return None

    return check


def _object(schema: _Schema, known: dict[str, _Check]) -> _Check:
    required = schema.get("required", [])
    properties = {
        name: _compiled(part, known) for name, part in schema.get("properties", {}).items()
    }
    others = schema.get("additionalProperties")
    other = _compiled(others, known) if isinstance(others, dict) else None

    def check(value: Any) -> _Fault:
        if not isinstance(value, dict):
            return None
        for name in required:
            if name not in value:
                return f".{name}", "is missing"
        for name, item in value.items():
            each = properties.get(name, other)
            if each is not None and (found := each(item)) is not None:
                return f".{name}{found[0]}", found[1]
        return None

    return check


def _list(schema: _Schema, known: dict[str, _Check]) -> _Check:
    first = [_compiled(part, known) for part in schema.get("prefixItems", [])]
    rest = _compiled(schema["items"], known) if isinstance(schema.get("items"), dict) else None
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", _MOST)

    def check(value: Any) -> _Fault:
        if not isinstance(value, list):
            return None
        if not fewest <= len(value) <= most:
            return "", f"has {len(value)} items"
        for number, item in enumerate(value):
            each = first[number] if number < len(first) else rest
            if each is not None and (found := each(item)) is not None:
                return f".{number}{found[0]}", found[1]
        return None

    return check


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MOST:
        return "a huge number"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
