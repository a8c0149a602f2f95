"""`tbh recipes` lists what can be named."""

from __future__ import annotations

from click.testing import CliRunner

from tbh_action import recipes
from tbh_action.cli import main


def test_recipes__each_with_what_it_is_for() -> None:
    done = CliRunner().invoke(main, ["recipes"])
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.output.splitlines() if line.startswith("  ")}
    assert set(lines) == {*recipes.names("models"), *recipes.names("benchmarks")}
    assert "Qwen/Qwen3.8-27B-FP8, sglang on h200" in lines["qwen3.8-27b-fp8"]
    assert "harborframework/terminal-bench-2.1" in lines["terminal-bench-2.1"]
