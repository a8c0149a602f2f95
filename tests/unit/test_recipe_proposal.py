"""A recipe for a model that has none: on models whose answer is known."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import JobHardwareInfo
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.errors import SpecError
from tbh_action.loopback.hardware import hardware
from tbh_action.recipes.model_facts import GgufFile, ModelFacts
from tbh_action.recipes.model_families import FAMILIES, family_of, parser_flags
from tbh_action.recipes.model_memory import Machine, Need, cache_per_token, fit, machines_of
from tbh_action.recipes.proposal import Proposal, file_name, propose
from tbh_action.resolve import resolve
from tests.unit.test_recipes import known_flags, wrong_flags

MACHINES = machines_of(JobHardwareInfo(**row) for row in hardware())
SHA = "a" * 40


def facts_of(name: str, architecture: str, parameters: dict[str, int], **config: Any) -> ModelFacts:
    return ModelFacts(
        name=name,
        revision=SHA,
        parameters=parameters,
        config={"architectures": [architecture], **config},
    )


QWEN3_8B = facts_of(
    "Qwen/Qwen3-8B", "Qwen3ForCausalLM", {"BF16": 8_190_735_360},
    num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
    max_position_embeddings=40_960,
)  # fmt: skip
QWEN3_CODER = facts_of(
    "Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen3MoeForCausalLM", {"BF16": 30_532_122_624},
    num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
    max_position_embeddings=262_144,
)  # fmt: skip
DEEPSEEK = facts_of(
    "deepseek-ai/DeepSeek-V3.1", "DeepseekV3ForCausalLM", {"F8_E4M3": 680_000_000_000},
    num_hidden_layers=61, num_attention_heads=128, kv_lora_rank=512, qk_rope_head_dim=64,
    max_position_embeddings=163_840, quantization_config={"quant_method": "fp8"},
    auto_map={"AutoModel": "modeling.X"},
)  # fmt: skip
GGUF = ModelFacts(
    name="Qwen/Qwen3-4B-GGUF",
    revision=SHA,
    gguf_files=(
        GgufFile(path="Qwen3-4B-Q8_0.gguf", size=4_280_404_704),
        GgufFile(path="Qwen3-4B-Q4_K_M.gguf", size=2_497_280_256),
    ),
    gguf={"total": 4_022_468_096, "architecture": "qwen3", "context_length": 40_960},
)
MODELS = {"8b": QWEN3_8B, "30b": QWEN3_CODER, "671b": DEEPSEEK, "gguf": GGUF}


def server_of(proposal: Proposal) -> dict[str, Any]:
    server: dict[str, Any] = proposal.recipe["server"]
    return server


@pytest.mark.parametrize("facts", MODELS.values(), ids=MODELS)
def test_propose__the_file_is_a_recipe_that_the_server_understands(
    facts: ModelFacts, tmp_path: Path
) -> None:
    proposal = propose(facts, MACHINES)
    path = tmp_path / file_name(facts.name)
    path.write_text(proposal.toml(), encoding="utf-8")
    spec = resolve({"recipe": str(path)})
    assert spec.server is not None
    assert spec.model.name == facts.name
    known = known_flags(spec.server.engine, spec.server.image)
    assert wrong_flags(spec.server.command, known) == []


@pytest.mark.parametrize(
    ("facts", "flavor", "context"),
    [
        (QWEN3_8B, "l40sx1", 40_960),
        (QWEN3_CODER, "h200", 131_072),
        (DEEPSEEK, "h200x8", 131_072),
        (GGUF, "l4x1", 40_960),
    ],
    ids=["8b", "30b", "671b", "gguf"],
)
def test_propose__machine_and_window(facts: ModelFacts, flavor: str, context: int) -> None:
    proposal = propose(facts, MACHINES)
    assert server_of(proposal)["flavor"] == flavor
    assert proposal.recipe["context_length"] == context


def test_propose__several_gpus_and_foreign_code_are_asked_for() -> None:
    proposal = propose(DEEPSEEK, MACHINES)
    command = server_of(proposal)["command"]
    assert command[command.index("--tensor-parallel-size") + 1] == "8"
    assert command[-1] == "--trust-remote-code"
    assert any("brings its own code" in guess for guess in proposal.guesses)


def test_propose__sglang_says_the_same_in_its_own_words() -> None:
    command = server_of(propose(DEEPSEEK, MACHINES, "sglang"))["command"]
    assert command[:4] == ["sglang", "serve", "--model-path", "deepseek-ai/DeepSeek-V3.1"]
    assert command[command.index("--tp-size") + 1] == "8"
    assert command[command.index("--tool-call-parser") + 1] == "deepseekv31"


def test_propose__llama_cpp_shares_its_window_among_slots() -> None:
    proposal = propose(GGUF, MACHINES)
    command = server_of(proposal)["command"]
    assert command[command.index("--hf-repo") + 1] == "Qwen/Qwen3-4B-GGUF:Q4_K_M"
    assert int(command[command.index("--ctx-size") + 1]) == 2 * proposal.recipe["context_length"]
    assert proposal.recipe["n_concurrent"] == 2
    assert proposal.recipe["revision"] is None


def test_propose__says_what_it_guessed() -> None:
    bare = ModelFacts(name="org/new", parameters={"BF16": 10**9}, config={})
    proposal = propose(bare, MACHINES)
    text = " ".join(proposal.guesses)
    assert "config.json does not say" in text
    assert "the model does not say its own" in text
    assert "No parser for reasoning or tool calls is set" in text
    assert tomllib.loads(proposal.toml())["context_length"] == 32_768


def test_propose__hostile_metadata_stays_in_its_place() -> None:
    facts = facts_of("org/m", 'X\nmodel = "evil"\x1b[31m', {"BF16": 10**9})
    assert tomllib.loads(propose(facts, MACHINES).toml())["model"] == "org/m"
    assert "\x1b" not in propose(facts, MACHINES).toml()


@pytest.mark.parametrize(
    ("facts", "engine", "message"),
    [
        (QWEN3_8B, "llama.cpp", "has no GGUF files"),
        (GGUF, "vllm", "has GGUF files only: use --engine llama.cpp"),
        (ModelFacts(name="org/huge", parameters={"BF16": 10**12}), None, "largest .h200x8. has"),
    ],
)
def test_propose__refused(facts: ModelFacts, engine: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        propose(facts, MACHINES, engine)


def test_propose__no_machines() -> None:
    with pytest.raises(SpecError, match="lists no machine with a GPU"):
        propose(QWEN3_8B, [])


@given(
    parameters=st.integers(10**6, 10**12),
    layers=st.integers(0, 200),
    heads=st.integers(0, 256),
    window=st.integers(-1, 10**7),
    dtype=st.sampled_from(["BF16", "F8_E4M3", "F32", "NEW"]),
)
def test_propose__whatever_fits_fits(
    parameters: int, layers: int, heads: int, window: int, dtype: str
) -> None:
    facts = facts_of(
        "org/m", "LlamaForCausalLM", {dtype: parameters},
        num_hidden_layers=layers, num_attention_heads=heads, hidden_size=4096,
        max_position_embeddings=window,
    )  # fmt: skip
    try:
        proposal = propose(facts, MACHINES)
    except SpecError as error:
        refused = error.message
        assert "No machine of the Hub holds" in refused
        return
    context = proposal.recipe["context_length"]
    assert 1 <= context <= 131_072
    assert proposal.fit.tokens >= 1.5 * context
    assert 0 < proposal.recipe["max_output_tokens"] < context


def test_cache_per_token__formulas() -> None:
    # Qwen3-8B: 2 × 36 layers × 8 heads × 128 × 2 bytes; DeepSeek: 61 × (512 + 64) × 2 bytes.
    assert cache_per_token(QWEN3_8B)[0] == 147_456
    assert cache_per_token(DEEPSEEK)[0] == 70_272


def test_cache_per_token__only_layers_that_grow() -> None:
    config = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 1024}
    whole = cache_per_token(ModelFacts(name="m", config=config))[0]
    types = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    hybrid = ModelFacts(name="m", config=config | {"layer_types": types})
    every = ModelFacts(name="m", config=config | {"full_attention_interval": 4})
    assert cache_per_token(hybrid)[0] == cache_per_token(every)[0] == whole // 4


def machine(flavor: str, gpu: str, gpus: int, vram: int, price: float) -> Machine:
    return Machine(flavor=flavor, gpu=gpu, gpus=gpus, vram=vram * 1e9, usd_per_minute=price)


def test_fit__prefers_the_longer_window_then_the_lower_price() -> None:
    small, large = machine("small", "L40S", 1, 48, 1), machine("large", "H200", 1, 141, 5)
    need = Need(weights=10 * 10**9, cache_per_token=10**6)
    assert fit(need, [small, large], [65_536, 16_384], share=0.9).machine.flavor == "large"  # type: ignore[union-attr]
    assert fit(need, [small, large], [16_384], share=0.9).machine.flavor == "small"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("need", "gpu", "gpus", "fits"),
    [
        (Need(weights=10**9, cache_per_token=1, fp8=True), "A100", 1, False),
        (Need(weights=10**9, cache_per_token=1, fp8=True), "L40S", 1, True),
        (Need(weights=10**9, cache_per_token=1, bf16=True), "T4", 1, False),
        (Need(weights=10**9, cache_per_token=1, heads=40), "H200", 8, True),
        (Need(weights=10**9, cache_per_token=1, heads=36), "H200", 8, False),
        (Need(weights=10**9, cache_per_token=300_000, cache_parts=8), "H200", 8, True),
        (Need(weights=10**9, cache_per_token=300_000, cache_parts=1), "H200", 8, False),
    ],
)
def test_fit__what_a_gpu_cannot_do(need: Need, gpu: str, gpus: int, fits: bool) -> None:
    found = fit(need, [machine("m", gpu, gpus, 200, 1)], [65_536], share=0.9)
    assert (found is not None) is fits


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_parser_flags__are_known_to_the_server(family: Any, engine: Any) -> None:
    image = {"vllm": "vllm/vllm-openai:v0.30.0", "sglang": "lmsysorg/sglang:v0.5.21"}[engine]
    assert wrong_flags(tuple(parser_flags(family, engine)), known_flags(engine, image)) == []


@pytest.mark.parametrize(
    ("architecture", "name", "family"),
    [
        ("Qwen3MoeForCausalLM", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen3 Coder"),
        ("Qwen3_5ForConditionalGeneration", "Qwen/Qwen3.8-27B-FP8",
         "Qwen3.5 and later, Qwen3-Next"),
        ("Qwen3MoeForCausalLM", "Qwen/Qwen3-30B-A3B-Instruct-2507",
         "Qwen3 Instruct, which does not think"),
        ("Qwen3MoeForCausalLM", "Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen3"),
        ("GptOssForCausalLM", "openai/gpt-oss-120b", "gpt-oss"),
        ("Glm4MoeForCausalLM", "zai-org/GLM-4.5-Air", "GLM-4.5"),
        ("Glm4MoeForCausalLM", "zai-org/GLM-4.7", "GLM-4.7 and later"),
        ("DeepseekV3ForCausalLM", "deepseek-ai/DeepSeek-R1-0528", "DeepSeek-R1"),
        ("LlamaForCausalLM", "meta-llama/Llama-3.3-70B-Instruct", "Llama 3"),
        ("MistralForCausalLM", "mistralai/Magistral-Small-2509", "Magistral"),
        ("SomethingNew", "org/new", None),
    ],
)  # fmt: skip
def test_family_of__known_models(architecture: str, name: str, family: str | None) -> None:
    found = family_of(architecture, name)
    assert (found.name if found else None) == family


@pytest.mark.parametrize(
    ("model", "name"),
    [("Qwen/Qwen3-8B", "qwen3-8b.toml"), ("o/../x y", "x-y.toml"), ("a/..", "model.toml")],
)
def test_file_name__safe(model: str, name: str) -> None:
    assert file_name(model) == name
