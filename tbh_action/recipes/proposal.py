"""A first recipe for a model that has none, from the Hub's metadata; open about its guesses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.recipes import toml_text
from tbh_action.recipes.model_facts import GgufFile, ModelFacts, weight_bytes
from tbh_action.recipes.model_families import Engine, family_of, parser_flags
from tbh_action.recipes.model_memory import (
    SESSIONS,
    Fit,
    Machine,
    Need,
    cache_parts,
    cache_per_token,
    fit,
)

ENGINES: Final[tuple[Engine, ...]] = ("vllm", "sglang", "llama.cpp")
# The versions whose flags the tests know.
IMAGES: Final[Mapping[Engine, str]] = {
    "vllm": "vllm/vllm-openai:v0.30.0",
    "sglang": "lmsysorg/sglang:v0.5.21",
    "llama.cpp": "ghcr.io/ggml-org/llama.cpp:server-cuda-b11382",
}
PORTS: Final[Mapping[Engine, int]] = {"vllm": 8000, "sglang": 30000, "llama.cpp": 8080}
# The part of the GPUs' memory that each server is told to take; SGLang's excludes its activations.
SHARES: Final[Mapping[Engine, float]] = {"vllm": 0.90, "sglang": 0.85, "llama.cpp": 0.95}
_LONGEST: Final = 131_072
_SHORTER: Final = (65_536, 32_768, 16_384, 8_192)
_LONGEST_ANSWER: Final = 32_768
_SLOTS: Final = 2
# Four bits with little loss; then what is nearest.
_QUANTS: Final = ("Q4_K_M", "Q4_K_XL", "Q4_0", "IQ4_XS", "Q5_K_M", "Q8_0", "F16", "BF16")
_GB: Final = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A recipe, what is written above its keys, and what was guessed (one sentence each)."""

    recipe: Mapping[str, Any]
    comments: Mapping[str, str]
    guesses: tuple[str, ...]
    fit: Fit

    def toml(self) -> str:
        """The recipe's file."""
        return toml_text.dump(self.recipe, self.comments)


def propose(
    facts: ModelFacts, machines: Sequence[Machine], engine: Engine | None = None
) -> Proposal:
    """A recipe for the model on the cheapest machine that holds it.

    Raises:
        SpecError: the engine cannot load the model, or no machine holds it.
    """
    chosen, guesses = _engine(facts, engine)
    gguf = _gguf_choice(facts.gguf_files) if chosen == "llama.cpp" else None
    need, how = _need(facts, gguf)
    window, known = _window(facts)
    guesses += [known] if known else []
    contexts = [window, *(shorter for shorter in _SHORTER if shorter < window)]
    found = fit(
        need,
        machines,
        contexts,
        share=SHARES[chosen],
        windows=_SLOTS if chosen == "llama.cpp" else SESSIONS,
    )
    if found is None:
        raise SpecError(_too_big(facts.name, need, machines))
    guesses += _memory_guesses(found, window, how)
    family = family_of(facts.architecture, facts.name)
    guesses.append(_parser_guess(facts, chosen))
    command = _command(facts, chosen, found, gguf)
    command += parser_flags(family, chosen)
    if facts.config.get("auto_map") and chosen != "llama.cpp":
        command.append("--trust-remote-code")
        guesses.append("The model brings its own code, which the server will run: read it first.")
    recipe: dict[str, Any] = {
        "model": facts.name,
        # llama.cpp always loads the newest.
        "revision": None if chosen == "llama.cpp" else facts.revision,
        "context_length": found.context,
        "max_output_tokens": min(_LONGEST_ANSWER, found.context * 2 // 5),
    }
    if chosen == "llama.cpp":
        recipe["n_concurrent"] = _SLOTS
    recipe["server"] = {
        "engine": chosen,
        "image": IMAGES[chosen],
        "flavor": found.machine.flavor,
        "port": PORTS[chosen],
        "timeout": "4h",
        "load_timeout": _load_timeout(need.weights),
        "command": command,
    }
    return Proposal(
        recipe=recipe,
        comments=_comments(facts, need, found),
        guesses=tuple(guesses),
        fit=found,
    )


def file_name(model: str) -> str:
    """`org/Some-Model` → `some-model.toml`."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", model.rpartition("/")[2].lower()).strip("-.")
    return f"{stem or 'model'}.toml"


def _engine(facts: ModelFacts, asked: Engine | None) -> tuple[Engine, list[str]]:
    has_weights = bool(weight_bytes(facts))
    if asked == "llama.cpp" and not facts.gguf_files:
        raise SpecError(
            f"{facts.name} has no GGUF files, which llama.cpp needs; "
            "look for a repository of the same name that ends in -GGUF."
        )
    if asked in ("vllm", "sglang") and not has_weights:
        raise SpecError(f"{facts.name} has GGUF files only: use --engine llama.cpp.")
    if asked:
        return asked, []
    if not has_weights:
        return "llama.cpp", ["Served by llama.cpp, as the repository holds GGUF files only."]
    return "vllm", ["Served by vLLM, the usual choice; --engine sglang is the other."]


def _gguf_choice(files: Sequence[GgufFile]) -> GgufFile:
    for quant in _QUANTS:
        for file in files:
            if quant.lower() in file.path.lower():
                return file
    return min(files, key=lambda file: file.size)


def _quant(path: str) -> str:
    """`model-Q4_K_M.gguf` → `Q4_K_M`, as `--hf-repo repo:QUANT` wants it."""
    name = path.rpartition("/")[2]
    found = re.search(r"(?:UD-)?(?:I?Q\d[A-Z0-9_]*|B?F16|F32|MXFP4)", name, re.IGNORECASE)
    return found[0].upper() if found else ""


def _need(facts: ModelFacts, gguf: GgufFile | None) -> tuple[Need, str]:
    size, how = cache_per_token(facts)
    if gguf is not None:
        return Need(weights=gguf.size, cache_per_token=size), how
    quantization = facts.config.get("quantization_config")
    text = str(quantization).lower() if quantization else ""
    heads = facts.text_config.get("num_attention_heads")
    return Need(
        weights=weight_bytes(facts),
        cache_per_token=size,
        heads=heads if isinstance(heads, int) and heads > 0 else None,
        cache_parts=cache_parts(facts),
        fp8="fp8" in text.replace("mxfp8", "fp8")
        or any(dtype.startswith("F8") for dtype in facts.parameters),
        bf16=True,
    ), how


def _window(facts: ModelFacts) -> tuple[int, str | None]:
    """The longest context to ask for, and a sentence if it was guessed or cut."""
    stated = facts.text_config.get("max_position_embeddings") or facts.gguf.get("context_length")
    if not isinstance(stated, int) or stated < 1024:
        return _SHORTER[
            1
        ], f"The context is set to {_SHORTER[1]:,}: the model does not say its own."
    if stated > _LONGEST:
        return _LONGEST, (
            f"The context is cut to {_LONGEST:,} of the model's {stated:,}: "
            "terminal sessions rarely need more, and the cache costs memory."
        )
    return stated, None


def _memory_guesses(found: Fit, window: int, how: str) -> list[str]:
    memory = (
        f"Memory: about {found.tokens:,} tokens of cache fit beside the weights ({how}); "
        "activations are allowed for by a flat 2 GB a GPU."
    )
    if found.context == window:
        return [memory]
    return [memory, f"The context is cut to {found.context:,}, as no machine holds more."]


def _parser_guess(facts: ModelFacts, engine: Engine) -> str:
    family = family_of(facts.architecture, facts.name)
    if engine == "llama.cpp":
        return "Reasoning and tool calls are read by the model's own chat template (--jinja)."
    if family is None:
        return (
            f"No parser for reasoning or tool calls is set: the architecture "
            f"{facts.architecture or 'is not named'} is of no family that tbh knows. "
            "If the model thinks aloud, its thoughts will stand in its answers."
        )
    if not parser_flags(family, engine):
        return f"{engine} has no parsers for the family {family.name}; none is set."
    return f"Parsers are those of the family {family.name}, by architecture and name."


def _command(facts: ModelFacts, engine: Engine, found: Fit, gguf: GgufFile | None) -> list[str]:
    # The Hub's proxy comes from outside the container; who may call it decides the proxy.
    where = ["--host", "0.0.0.0", "--port", str(PORTS[engine])]  # noqa: S104
    gpus = found.machine.gpus
    share = f"{SHARES[engine]:.2f}"
    if engine == "vllm":
        words = ["vllm", "serve", facts.name, *where, "--max-model-len", str(found.context)]
        words += ["--gpu-memory-utilization", share]
        return words + (["--tensor-parallel-size", str(gpus)] if gpus > 1 else [])
    if engine == "sglang":
        words = ["sglang", "serve", "--model-path", facts.name, *where]
        words += ["--context-length", str(found.context), "--mem-fraction-static", share]
        return words + (["--tp-size", str(gpus)] if gpus > 1 else [])
    assert gguf is not None
    quant = _quant(gguf.path)
    repository = f"{facts.name}:{quant}" if quant else facts.name
    words = ["/app/llama-server", "--hf-repo", repository, "--alias", facts.name, *where]
    # The window is shared out among the slots.
    words += ["--ctx-size", str(found.context * _SLOTS), "--parallel", str(_SLOTS)]
    return [*words, "--n-gpu-layers", "99"]


def _load_timeout(weights: int) -> str:
    """Download and load at a cautious 0.1 GB a second, half an hour at least."""
    minutes = max(30, 5 * -(-weights // (_GB * 6 * 5)) + 15)
    return f"{minutes}m"


def _comments(facts: ModelFacts, need: Need, found: Fit) -> dict[str, str]:
    machine = found.machine
    total = sum(facts.parameters.values())
    size = f"{total / 1e9:.1f} billion parameters, " if total else ""
    return {
        "": (
            f"Proposed from the Hub's metadata: {facts.architecture or 'unknown architecture'}, "
            f"{size}{need.weights / _GB:.1f} GB of weights.\n"
            "What stands here is a guess until `tbh recipe check FILE` has seen it answer."
        ),
        "revision": "Remove this line to serve the newest.",
        "server.flavor": (
            f"{machine.gpus} × {machine.gpu}, ${machine.usd_per_minute * 60:.2f} an hour: the "
            f"cheapest that holds the weights and\nabout {found.tokens:,} tokens of cache."
        ),
        "server.image": "The version whose flags tbh's tests know.",
    }


def _too_big(name: str, need: Need, machines: Sequence[Machine]) -> str:
    size = need.weights / _GB
    if not machines:
        return "The Hub lists no machine with a GPU and a price; try again later."
    largest = max(machines, key=lambda machine: machine.vram)
    return (
        f"No machine of the Hub holds {name}: {size:,.0f} GB of weights, and the largest "
        f"({largest.flavor}) has {largest.vram / _GB:,.0f} GB. "
        "Serve it elsewhere, and use --endpoint."
    )
