"""Which parsers a model's answers need, by its family, in each server's own words.

The names are checked against the servers' own lists by a test. Agents that speak plain text
(terminus-2) need no tool parser, but the reasoning parser keeps thoughts out of their answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Engine = Literal["vllm", "sglang", "llama.cpp"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """`pattern` is sought in `<architecture> <name>`. Parsers: (vLLM, SGLang), None for none."""

    name: str
    pattern: str
    reasoning: tuple[str | None, str | None] = (None, None)
    tools: tuple[str | None, str | None] = (None, None)


# The first that matches counts.
FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        name="Qwen3 Coder",
        pattern=r"Qwen3\w* \S*Coder",
        tools=("qwen3_coder", "qwen3_coder"),
    ),
    Family(
        name="Qwen3.5 and later, Qwen3-Next",
        pattern=r"Qwen3_\d|Qwen3Next|Qwen3\.\d",
        reasoning=("qwen3", "qwen3"),
        tools=("qwen3_coder", "qwen3_coder"),
    ),
    Family(
        name="Qwen3 Instruct, which does not think",
        pattern=r"Qwen3\w* \S*Instruct-2507",
        tools=("hermes", "qwen25"),
    ),
    Family(
        name="Qwen3",
        pattern=r"Qwen3(Moe|VL)?\w*For",
        reasoning=("qwen3", "qwen3"),
        tools=("hermes", "qwen25"),
    ),
    Family(name="Qwen2", pattern=r"Qwen2", tools=("hermes", "qwen25")),
    Family(
        name="gpt-oss",
        pattern=r"GptOss",
        reasoning=("openai_gptoss", "gpt-oss"),
        tools=("openai", "gpt-oss"),
    ),
    Family(
        name="GLM-4.7 and later",
        pattern=r"GLM-(4\.[6-9]|5)",
        reasoning=("glm45", "glm45"),
        tools=("glm47", "glm47"),
    ),
    Family(
        name="GLM-4.5",
        pattern=r"Glm4Moe",
        reasoning=("glm45", "glm45"),
        tools=("glm45", "glm45"),
    ),
    Family(
        name="DeepSeek-V3.2",
        pattern=r"DeepseekV32|DeepSeek-V3\.2",
        reasoning=("deepseek_v3", "deepseek-v3"),
        tools=("deepseek_v32", "deepseekv32"),
    ),
    Family(
        name="DeepSeek-V3.1",
        pattern=r"DeepSeek-V3\.1",
        reasoning=("deepseek_v3", "deepseek-v3"),
        tools=("deepseek_v31", "deepseekv31"),
    ),
    Family(
        name="DeepSeek-R1",
        pattern=r"DeepSeek-R1",
        reasoning=("deepseek_r1", "deepseek-r1"),
        tools=("deepseek_v3", "deepseekv3"),
    ),
    Family(name="DeepSeek-V3", pattern=r"DeepseekV3", tools=("deepseek_v3", "deepseekv3")),
    Family(
        name="Kimi K2",
        pattern=r"Kimi-K2",
        reasoning=("kimi_k2", "kimi_k2"),
        tools=("kimi_k2", "kimi_k2"),
    ),
    Family(
        name="MiniMax-M2",
        pattern=r"MiniMaxM2|MiniMax-M2",
        reasoning=("minimax_m2", "minimax"),
        tools=("minimax_m2", "minimax-m2"),
    ),
    Family(
        name="Seed-OSS",
        pattern=r"SeedOss",
        reasoning=("seed_oss", None),
        tools=("seed_oss", None),
    ),
    Family(name="Llama 4", pattern=r"Llama4", tools=("llama4_pythonic", "pythonic")),
    Family(name="Llama 3", pattern=r"LlamaFor", tools=("llama3_json", "llama3")),
    Family(
        name="Magistral",
        pattern=r"Magistral",
        reasoning=("mistral", "mistral"),
        tools=("mistral", "mistral"),
    ),
    Family(name="Mistral", pattern=r"Mistral|Mixtral|Devstral", tools=("mistral", "mistral")),
    Family(
        name="Gemma 4",
        pattern=r"Gemma4",
        reasoning=("gemma4", "gemma4"),
        tools=("gemma4", "gemma4"),
    ),
)


def family_of(architecture: str, name: str) -> Family | None:
    """The family of a model, None when none is known."""
    text = f"{architecture} {name}"
    return next((family for family in FAMILIES if re.search(family.pattern, text)), None)


def parser_flags(family: Family | None, engine: Engine) -> list[str]:
    """The server's flags for the family's parsers; llama.cpp finds them in the chat template."""
    if engine == "llama.cpp":
        return ["--jinja"]
    if family is None:
        return []
    place = 0 if engine == "vllm" else 1
    words: list[str] = []
    if reasoning := family.reasoning[place]:
        words += ["--reasoning-parser", reasoning]
    if tools := family.tools[place]:
        words += ["--enable-auto-tool-choice"] if engine == "vllm" else []
        words += ["--tool-call-parser", tools]
    return words
