"""The tables of inputs and outputs in the README, made from action.yml.

`python -m tbh_action.github.readme_tables` writes them; a test holds them in step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
_GROUP: Final = re.compile(r"^  # (.+)\.$")
_NAME: Final = re.compile(r"^  ([a-z][a-z-]*):$")
_PARTS: Final = re.compile(
    r"^(?P<text>.*) Type: (?P<type>.*?)\.(?: Unit: (?P<unit>.*?)\.)? Default: (?P<default>.*)\. "
    r"Example: (?P<example>.*)\.$"
)


def with_tables(readme: str, action: str) -> str:
    """`readme` with what stands between its markers made new from the text of action.yml."""
    import yaml  # type: ignore[import-untyped]

    document = yaml.safe_load(action)
    readme = _between(readme, "inputs", _inputs(document["inputs"], _groups(action)))
    return _between(readme, "outputs", _outputs(document["outputs"]))


def parts(description: str) -> dict[str, str]:
    """An input's description taken apart: text, type, unit, default, example.

    Raises:
        ValueError: one of them is missing.
    """
    found = _PARTS.match(" ".join(description.split()))
    if found is None:
        raise ValueError(f"no type, default and example in {description!r}")
    return {key: value or "" for key, value in found.groupdict().items()}


def _groups(action: str) -> dict[str, str]:
    """The heading that each input stands under: the comments of action.yml."""
    groups, heading = {}, "What is done"
    for line in action.split("\noutputs:", maxsplit=1)[0].splitlines():
        if found := _GROUP.match(line):
            heading = found[1]
        elif found := _NAME.match(line):
            groups[found[1]] = heading
    return groups


def _inputs(inputs: Mapping[str, Any], groups: Mapping[str, str]) -> str:
    lines: list[str] = []
    for heading in dict.fromkeys(groups.values()):
        lines += ["", f"**{heading}**", "", "| Input | What it is | Default | Example |"]
        lines.append("|:--|:--|:--|:--|")
        for name in inputs:
            if groups[name] != heading:
                continue
            part = parts(inputs[name]["description"])
            unit = f", {part['unit']}" if part["unit"] else ""
            cells = [
                f"`{name}`",
                f"{part['text']} ({part['type']}{unit})",
                part["default"],
                part["example"],
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines).strip()


def _outputs(outputs: Mapping[str, Any]) -> str:
    rows = [
        f"| `{name}` | {' '.join(item['description'].split())} |" for name, item in outputs.items()
    ]
    return "\n".join(["| Output | What it is |", "|:--|:--|", *rows])


def _between(text: str, name: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def main() -> None:
    """Rewrites README.md."""
    readme = ROOT / "README.md"
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), action), encoding="utf-8")


if __name__ == "__main__":
    main()
