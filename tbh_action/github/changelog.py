"""A release's notes, cut out of CHANGELOG.md: `python -m tbh_action.github.changelog 1.2.0`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from tbh_action import __version__
from tbh_action.errors import SpecError

FILE: Final = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def notes(text: str, version: str, *, package: str = __version__) -> str:
    """The section of `version` in the changelog `text`, without its heading.

    Raises:
        SpecError: it is not the package's version, or has no section with a date.
    """
    if version != package:
        raise SpecError(f"The package is {package}, not {version}; change tbh_action/__init__.py.")
    heading = re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text, re.MULTILINE)
    if heading is None:
        raise SpecError(f"CHANGELOG.md has no section “## {version} (YYYY-MM-DD)”.")
    rest = text[heading.end() :]
    following = re.search(r"^## ", rest, re.MULTILINE)
    return rest[: following.start() if following else None].strip() + "\n"


def main() -> int:
    """Prints the notes; a wrong version is an error."""
    try:
        sys.stdout.write(notes(FILE.read_text(encoding="utf-8"), sys.argv[1]))
    except SpecError as error:
        error.show(file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
