"""index.html."""

from __future__ import annotations

from tbh_action import escape
from tbh_action.report import words
from tbh_action.report.words import Results


def render(results: Results) -> str:
    """The page."""
    title = escape.html(words.title(results))
    return f"<!doctype html><html lang=en><title>{title}</title><p>{words.headline(results)}</p>"
