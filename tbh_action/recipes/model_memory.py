"""How much memory a model needs to be served, and which machine of the Hub has it.

Cache per token of a transformer: 2 (key and value) × layers × key-value heads × head size × bytes;
with multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): layers × (latent rank
+ rotary size) × bytes. Layers with a sliding window or a linear state don't grow with the context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tbh_action.policy.hardware import flavors_of

if TYPE_CHECKING:
    from huggingface_hub import JobHardwareInfo

    from tbh_action.recipes.model_facts import ModelFacts

_GB: Final = 10**9
_CACHE_BYTES: Final = 2
# CUDA context, graphs and activations of one GPU.
_OVERHEAD: Final = 2 * _GB
# Trials run side by side, and their sessions are rarely all at their longest: half a window each,
# for the three that the benchmark recipes run at a time.
SESSIONS: Final = 1.5
# Before Ada and Hopper there are no FP8 units, before Ampere no bfloat16.
_NO_FP8: Final = frozenset({"T4", "A10G", "A100"})
_NO_BF16: Final = frozenset({"T4"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A flavor with GPUs: their number, their memory together in bytes, USD a minute."""

    flavor: str
    gpu: str
    gpus: int
    vram: float
    usd_per_minute: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What a server must hold. `cache_per_token`: bytes. `heads`: attention heads, which the GPUs
    divide among themselves. `cache_parts`: among how many GPUs the cache can be divided; more GPUs
    hold copies. `fp8`, `bf16`: number formats that the GPU must know."""

    weights: int
    cache_per_token: int
    heads: int | None = None
    cache_parts: int | None = None
    fp8: bool = False
    bf16: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """A machine that holds the model with `context` tokens a session, and `tokens` of cache."""

    machine: Machine
    context: int
    tokens: int


def machines_of(hardware: Iterable[JobHardwareInfo]) -> list[Machine]:
    """The Hub's machines with GPUs, cheapest first; those without a known price are left out."""
    hardware = list(hardware)
    prices = flavors_of(hardware)
    found = []
    for machine in hardware:
        price = prices[machine.name].usd_per_minute
        gpu = machine.accelerator
        size = re.search(r"(\d+(?:\.\d+)?)\s*GB", gpu.vram) if gpu else None
        if gpu is None or size is None or price is None or gpu.type != "gpu":
            continue
        found.append(
            Machine(
                flavor=machine.name,
                gpu=gpu.model,
                gpus=int(gpu.quantity),
                vram=float(size[1]) * _GB,
                usd_per_minute=price,
            )
        )
    return sorted(found, key=lambda machine: (machine.usd_per_minute, machine.vram))


def fit(
    need: Need,
    machines: Iterable[Machine],
    contexts: Iterable[int],
    *,
    share: float,
    windows: float = SESSIONS,
) -> Fit | None:
    """The cheapest machine for the longest of `contexts` that any machine holds, or None.

    `share`: the part of the GPUs' memory that the server takes. `windows`: how many full contexts
    the cache must hold.
    """
    machines = list(machines)
    for context in contexts:
        for machine in machines:
            room = machine.vram * share - machine.gpus * _OVERHEAD - need.weights
            tokens = int(room // (need.cache_per_token * _copies(need, machine)))
            if _suits(need, machine) and tokens >= context * windows:
                return Fit(machine=machine, context=context, tokens=tokens)
    return None


def _suits(need: Need, machine: Machine) -> bool:
    if need.fp8 and machine.gpu in _NO_FP8:
        return False
    if need.bf16 and machine.gpu in _NO_BF16:
        return False
    return not need.heads or need.heads % machine.gpus == 0


def _copies(need: Need, machine: Machine) -> int:
    """How many GPUs hold the same part of the cache."""
    return max(1, machine.gpus // need.cache_parts) if need.cache_parts else 1


def cache_parts(facts: ModelFacts) -> int | None:
    """Key-value heads can be divided among GPUs, a latent cannot."""
    config = facts.text_config
    if _number(config, "kv_lora_rank"):
        return 1
    return _number(config, "num_key_value_heads") or _number(config, "num_attention_heads")


def cache_per_token(facts: ModelFacts) -> tuple[int, str]:
    """Bytes of key-value cache for one token, and how that was found (in words)."""
    config = facts.text_config
    layers = _number(config, "num_hidden_layers", "n_layer", "num_layers")
    if layers and (rank := _number(config, "kv_lora_rank")):
        size = layers * (rank + (_number(config, "qk_rope_head_dim") or 64)) * _CACHE_BYTES
        return size, "latent attention, from config.json"
    heads = _number(config, "num_attention_heads", "n_head")
    kv_heads = _number(config, "num_key_value_heads") or heads
    hidden = _number(config, "hidden_size", "n_embd")
    head_size = _number(config, "head_dim") or (hidden // heads if hidden and heads else None)
    if layers and kv_heads and head_size:
        size = 2 * _growing_layers(config, layers) * kv_heads * head_size * _CACHE_BYTES
        return size, "from config.json"
    return _guess(facts), "guessed from the model's size, as config.json does not say"


def _growing_layers(config: Mapping[str, Any], layers: int) -> int:
    """Layers whose cache grows with the context: full attention only."""
    types = config.get("layer_types")
    if isinstance(types, list) and types:
        return max(1, sum(kind in ("full_attention", "attention") for kind in types))
    interval = _number(config, "full_attention_interval")
    return max(1, layers // interval) if interval else layers


def _guess(facts: ModelFacts) -> int:
    """Usual models: 36, 64, 80 layers of 8 key-value heads of size 128."""
    total = sum(facts.parameters.values()) or _number(facts.gguf, "total") or 0
    layers = 36 if total < 15e9 else 64 if total < 60e9 else 80
    return 2 * layers * 8 * 128 * _CACHE_BYTES


def _number(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
