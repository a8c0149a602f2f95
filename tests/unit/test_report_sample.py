"""The samples are what results.json really looks like."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import tbh_action
from tests import report_sample

SCHEMA_FILE = Path(tbh_action.__file__).parent / "scoring" / "results.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["seed_final", "regression", "incomplete", "hostile"])
def test_sample__follows_the_schema(name: str) -> None:
    jsonschema.validate(getattr(report_sample, name)(), SCHEMA)


def test_large__follows_the_schema() -> None:
    jsonschema.validate(report_sample.large(20, 2), SCHEMA)
