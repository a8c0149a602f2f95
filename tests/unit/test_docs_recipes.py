"""The page on recipes says what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tbh_action import recipes
from tbh_action.resolve import resolve

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_page__its_examples_are_recipes(tmp_path: Path) -> None:
    model, benchmark = tmp_path / "model.toml", tmp_path / "benchmark.toml"
    model.write_text(EXAMPLES[0], encoding="utf-8")
    benchmark.write_text(EXAMPLES[1], encoding="utf-8")
    spec = resolve({"recipe": str(model), "benchmark": str(benchmark)})
    assert spec.server is not None
    assert spec.server.env == tomllib.loads(EXAMPLES[0])["server"]["env"]
    assert spec.benchmark.revision == "v1.2"
    assert spec.agent.kwargs == {"reasoning_effort": "high"}


@pytest.mark.parametrize("name", recipes.names("models"))
def test_page__its_table_names_each_recipe_as_it_is(name: str) -> None:
    recipe = recipes.load("models", name)
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert recipe["model"] in row
    assert f"`{recipe['server']['flavor']}`" in row


def test_page__it_names_each_benchmark() -> None:
    assert all(f"`{name}`" in PAGE for name in recipes.names("benchmarks"))
