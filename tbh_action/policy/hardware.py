"""The Hub's hardware list, as numbers: what a flavor costs and what fits into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from huggingface_hub import JobHardwareInfo

_PER_MINUTE: Final = {"second": 60.0, "minute": 1.0, "hour": 1 / 60, "day": 1 / 1440}
_MEGABYTES: Final = {"MB": 1, "GB": 1024, "TB": 1024 * 1024}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flavor:
    """One kind of machine. None: the Hub's text did not say, in a form that we know."""

    name: str
    usd_per_minute: float | None
    cpus: float | None = None
    memory_mb: float | None = None


def flavors_of(hardware: Iterable[JobHardwareInfo]) -> dict[str, Flavor]:
    """The flavors by name, from `HfApi.list_jobs_hardware()`."""
    found = {}
    for machine in hardware:
        scale = _PER_MINUTE.get(str(machine.unit_label).lower())
        found[machine.name] = Flavor(
            name=machine.name,
            usd_per_minute=None if scale is None else float(machine.unit_cost_usd) * scale,
            cpus=_cpus(machine.cpu),
            memory_mb=_memory_mb(machine.ram),
        )
    return found


def prices_of(flavors: Mapping[str, Flavor]) -> dict[str, float]:
    """USD per minute by flavor; those without a known price are left out."""
    return {
        name: flavor.usd_per_minute
        for name, flavor in flavors.items()
        if flavor.usd_per_minute is not None
    }


def _cpus(text: str | None) -> float | None:
    """`8 vCPU` → 8."""
    match = re.search(r"\d+(?:\.\d+)?", text or "")
    return float(match[0]) if match else None


def _memory_mb(text: str | None) -> float | None:
    """`32 GB` → 32768. The Hub writes GB where its machines have GiB."""
    match = re.search(r"(\d+(?:\.\d+)?)\s*([MGT])i?B", text or "", re.IGNORECASE)
    return float(match[1]) * _MEGABYTES[f"{match[2].upper()}B"] if match else None
