"""The flavors that the loopback Hub offers, in the words of `hf jobs hardware`.

Sizes and prices follow the Hub's public price list; what counts here is that they have its form,
and that dearer flavors are dearer.
"""

from __future__ import annotations

from typing import Any, Final

# name, pretty name, vCPU, RAM in GB, disk in GB, accelerator (model, number, VRAM in GB), USD/hour
_FLAVORS: Final[tuple[tuple[str, str, int, int, int, tuple[str, int, int] | None, float], ...]] = (
    ("cpu-basic", "CPU Basic", 2, 16, 20, None, 0.01),
    ("cpu-upgrade", "CPU Upgrade", 8, 32, 50, None, 0.03),
    ("cpu-performance", "CPU Performance", 32, 256, 100, None, 1.90),
    ("cpu-xl", "CPU XL", 16, 124, 100, None, 1.00),
    ("t4-small", "Nvidia T4 - small", 4, 15, 50, ("T4", 1, 16), 0.40),
    ("t4-medium", "Nvidia T4 - medium", 8, 30, 100, ("T4", 1, 16), 0.60),
    ("l4x1", "1x Nvidia L4", 8, 30, 400, ("L4", 1, 24), 0.80),
    ("l4x4", "4x Nvidia L4", 48, 186, 3200, ("L4", 4, 96), 3.80),
    ("l40sx1", "1x Nvidia L40S", 8, 62, 380, ("L40S", 1, 48), 1.80),
    ("l40sx4", "4x Nvidia L40S", 48, 382, 3200, ("L40S", 4, 192), 8.30),
    ("l40sx8", "8x Nvidia L40S", 192, 1534, 6500, ("L40S", 8, 384), 23.50),
    ("a10g-small", "Nvidia A10G - small", 4, 15, 110, ("A10G", 1, 24), 1.00),
    ("a10g-large", "Nvidia A10G - large", 12, 46, 200, ("A10G", 1, 24), 1.50),
    ("a10g-largex2", "2x Nvidia A10G - large", 24, 92, 1000, ("A10G", 2, 48), 3.00),
    ("a10g-largex4", "4x Nvidia A10G - large", 48, 184, 2000, ("A10G", 4, 96), 5.00),
    ("a100-large", "Nvidia A100 - large", 12, 142, 1000, ("A100", 1, 80), 2.50),
    ("a100x4", "4x Nvidia A100", 48, 568, 4000, ("A100", 4, 320), 10.00),
    ("a100x8", "8x Nvidia A100", 96, 1136, 8000, ("A100", 8, 640), 20.00),
    ("h200", "Nvidia H200", 23, 256, 3000, ("H200", 1, 141), 5.00),
    ("h200x2", "2x Nvidia H200", 46, 512, 6000, ("H200", 2, 282), 10.00),
    ("h200x4", "4x Nvidia H200", 92, 1024, 12000, ("H200", 4, 564), 20.00),
    ("h200x8", "8x Nvidia H200", 184, 2048, 24000, ("H200", 8, 1128), 40.00),
)


def hardware() -> list[dict[str, Any]]:
    """The answer to `GET /api/jobs/hardware`."""
    rows = []
    for name, pretty, cpus, ram, disk, accelerator, usd in _FLAVORS:
        micro = round(usd / 60 * 1_000_000)
        row: dict[str, Any] = {
            "name": name,
            "prettyName": pretty,
            "cpu": f"{cpus} vCPU",
            "ram": f"{ram} GB",
            "ephemeralStorage": f"{disk} GB",
            "accelerator": None,
            "unitCostMicroUSD": micro,
            "unitCostUSD": micro / 1_000_000,
            "unitLabel": "minute",
        }
        if accelerator:
            model, number, vram = accelerator
            row["accelerator"] = {
                "type": "gpu",
                "model": model,
                "quantity": str(number),
                "vram": f"{vram} GB",
                "manufacturer": "Nvidia",
            }
        rows.append(row)
    return rows


def usd_per_second(flavor: str) -> float:
    """What a running job of this flavor costs.

    Raises:
        KeyError: there is no such flavor.
    """
    for name, *_, usd in _FLAVORS:
        if name == flavor:
            return usd / 3600
    raise KeyError(flavor)
