from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action import recipes
from tbh_action.recipes import toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_dump__reads_back_the_same(document: dict[str, object]) -> None:
    assert tomllib.loads(toml_text.dump(document)) == document


@pytest.mark.parametrize("name", recipes.names("models"))
def test_dump__every_recipe_reads_back_the_same(name: str) -> None:
    recipe = recipes.load("models", name)
    assert tomllib.loads(toml_text.dump(recipe)) == recipe


def test_dump__comments_and_command_lines() -> None:
    command = ["vllm", "serve", "org/model", "--port", "8000", "--enable-auto-tool-choice"]
    command += ["--reasoning-parser", "qwen3", "--max-model-len", "131072", "--host", "0.0.0.0"]
    text = toml_text.dump(
        {"model": "org/model", "revision": None, "server": {"flavor": "h200", "command": command}},
        {"": "Proposed.\nCheck it.", "server.flavor": "the cheapest that fits"},
    )
    assert text == (
        "# Proposed.\n# Check it.\n"
        'model = "org/model"\n\n[server]\n# the cheapest that fits\nflavor = "h200"\ncommand = [\n'
        '  "vllm", "serve", "org/model",\n  "--port", "8000",\n  "--enable-auto-tool-choice",\n'
        '  "--reasoning-parser", "qwen3",\n  "--max-model-len", "131072",\n'
        '  "--host", "0.0.0.0",\n]\n'
    )


def test_dump__a_comment_cannot_leave_its_line() -> None:
    text = toml_text.dump({"model": "m"}, {"model": "a\rmodel = 'evil'\x00"})
    assert tomllib.loads(text) == {"model": "m"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_dump__refuses_what_toml_cannot_hold(value: object) -> None:
    with pytest.raises(TypeError):
        toml_text.dump({"a": value})
