"""Recipes: named, reviewed parts of a spec. `models/` says how to serve one model, `benchmarks/`
how to run one benchmark. A recipe is a TOML file; a path to a file of one's own works as well."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

from tbh_action.errors import SpecError

Kind = Literal["models", "benchmarks"]
_HERE: Final = Path(__file__).parent


def names(kind: Kind) -> list[str]:
    """The names of the recipes that ship with tbh, sorted."""
    return sorted(path.stem for path in (_HERE / kind).glob("*.toml"))


def load(kind: Kind, name: str) -> dict[str, Any]:
    """The recipe `name` (or the TOML file at that path).

    Raises:
        SpecError: no such recipe (with the nearest names), or not valid TOML.
    """
    path = _HERE / kind / f"{name}.toml"
    if name.endswith(".toml"):
        path = Path(name)
    elif name not in names(kind):
        near = difflib.get_close_matches(name, names(kind), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SpecError(
            f"There is no {kind[:-1]} recipe {name!r}.{hint} `tbh recipes` lists them; "
            "a path that ends in .toml uses a file of your own."
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            f"Cannot read the recipe {path}: {error.strerror}. `tbh recipes` lists those of tbh."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"Cannot read the recipe {path}: {error}.") from error


def for_model(model: str) -> str | None:
    """The name of the recipe that serves `model`, if one ships with tbh."""
    for name in names("models"):
        if load("models", name).get("model") == model:
            return name
    return None
