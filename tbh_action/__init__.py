"""tbh-action: a Terminal-Bench number for every model release, from CI, that can be trusted."""

from __future__ import annotations

__version__ = "0.1.0"
