from __future__ import annotations

import pytest
from huggingface_hub import JobHardwareInfo

from tbh_action.policy.hardware import Flavor, flavors_of, prices_of


def machine(**changes: object) -> JobHardwareInfo:
    document = {
        "name": "cpu-upgrade", "prettyName": "CPU Upgrade", "cpu": "8 vCPU", "ram": "32 GB",
        "ephemeralStorage": "50 GB", "accelerator": None, "unitCostMicroUSD": 500,
        "unitCostUSD": 0.0005, "unitLabel": "minute",
    }  # fmt: skip
    return JobHardwareInfo(**(document | changes))


def test_flavors_of__numbers() -> None:
    assert flavors_of([machine()]) == {
        "cpu-upgrade": Flavor(
            name="cpu-upgrade", usd_per_minute=0.0005, cpus=8.0, memory_mb=32 * 1024
        )
    }


@pytest.mark.parametrize(
    ("label", "price"), [("hour", 1.0), ("second", 3600.0), ("Minute", 60.0), ("fortnight", None)]
)
def test_flavors_of__units(label: str, price: float | None) -> None:
    flavor = flavors_of([machine(unitCostUSD=60.0, unitLabel=label)])["cpu-upgrade"]
    assert flavor.usd_per_minute == price
    assert prices_of({"f": flavor}) == ({} if price is None else {"f": price})


@pytest.mark.parametrize(("cpu", "ram"), [("", ""), ("many", "lots"), (None, None)])
def test_flavors_of__unknown_words(cpu: str | None, ram: str | None) -> None:
    flavor = flavors_of([machine(cpu=cpu, ram=ram)])["cpu-upgrade"]
    assert (flavor.cpus, flavor.memory_mb) == (None, None)


@pytest.mark.parametrize(("ram", "mb"), [("16 GiB", 16_384), ("1.5TB", 1_572_864), ("512 MB", 512)])
def test_flavors_of__memory(ram: str, mb: float) -> None:
    assert flavors_of([machine(ram=ram)])["cpu-upgrade"].memory_mb == mb
