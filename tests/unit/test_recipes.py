"""Each recipe resolves, and each server's command is one that the pinned server understands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tbh_action import recipes
from tbh_action.errors import SpecError
from tbh_action.resolve import resolve
from tbh_action.spec import RunSpec

FLAGS = Path(__file__).parents[1] / "data" / "flags"
ENGINES = {"sglang": "sglang", "vllm": "vllm", "llama.cpp": "llama-server"}
CONTEXT_FLAGS = {"sglang": "--context-length", "vllm": "--max-model-len"}
MODELS = recipes.names("models")


def known_flags(engine: str, image: str) -> dict[str, list[str]]:
    """Flag → allowed values ([] when free), of the version that the image's tag names; the newest
    list we have stands for `latest`."""
    lists = sorted(FLAGS.glob(f"{ENGINES[engine]}-*.txt"))
    version = re.search(r"(?:v|b)(\d+(?:\.\d+)*)", image.rpartition(":")[2])
    if version:
        lists = [path for path in lists if path.stem.endswith(version[1])]
        assert len(lists) == 1, f"no list of flags for {image}: run tests/data/make_flags.py"
    lines = lists[-1].read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines if not line.startswith("#")}


def wrong_flags(command: tuple[str, ...], known: dict[str, list[str]]) -> list[str]:
    """What the server would refuse: unknown flags, and values outside a flag's list."""
    wrong = []
    for at, word in enumerate(command):
        if not word.startswith("-"):
            continue
        flag, _, inline = word.partition("=")
        value = inline or (command[at + 1] if at + 1 < len(command) else "")
        if flag not in known:
            wrong.append(f"{flag} is unknown")
        elif known[flag] and value not in known[flag]:
            wrong.append(f"{flag} takes no {value!r}")
    return wrong


def spec_of(name: str) -> RunSpec:
    return resolve({"recipe": name, "benchmark": "terminal-bench-2.1"})


def flag_value(spec: RunSpec, flag: str) -> str:
    assert spec.server is not None
    return spec.server.command[spec.server.command.index(flag) + 1]


@pytest.mark.parametrize("name", MODELS)
def test_recipe__command_is_understood_by_the_pinned_server(name: str) -> None:
    server = spec_of(name).server
    assert server is not None
    assert wrong_flags(server.command, known_flags(server.engine, server.image)) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("--mem-fraction-static", "--mem-fraction", "--mem-fraction is unknown"),
        ("extra_buffer_lazy", "extra_lazy", "--mamba-radix-cache-strategy takes no 'extra_lazy'"),
        ("qwen3_coder", "qwen4_coder", "--tool-call-parser takes no 'qwen4_coder'"),
    ],
)
def test_wrong_flags__renamed(old: str, new: str, complaint: str) -> None:
    server = spec_of("qwen3.8-27b-fp8").server
    assert server is not None
    command = tuple(new if word == old else word for word in server.command)
    assert wrong_flags(command, known_flags("sglang", server.image)) == [complaint]


@pytest.mark.parametrize("name", MODELS)
def test_recipe__server_can_be_reached_and_serves_the_model(name: str) -> None:
    spec = spec_of(name)
    server = spec.server
    assert server is not None
    assert flag_value(spec, "--host") == "0.0.0.0"
    assert flag_value(spec, "--port") == str(server.port)
    assert spec.model.name in server.command
    assert recipes.for_model(spec.model.name) == name


@pytest.mark.parametrize("name", [name for name in MODELS if name != "qwen3.8-27b-fp8"])
def test_recipe__window_is_the_servers_and_the_image_is_pinned(name: str) -> None:
    spec = spec_of(name)
    server = spec.server
    assert server is not None
    if server.engine == "llama.cpp":
        slots = int(flag_value(spec, "--parallel"))
        window = int(flag_value(spec, "--ctx-size")) // slots
        assert spec.n_concurrent <= slots
    else:
        window = int(flag_value(spec, CONTEXT_FLAGS[server.engine]))
    assert spec.model.context_length == window
    assert spec.model.max_output_tokens is not None
    assert spec.model.max_output_tokens <= window // 2
    assert re.search(r":\S*\d", server.image)


def test_recipe__seed_word_for_word() -> None:
    server = spec_of("qwen3.8-27b-fp8").server
    assert server is not None
    assert (server.image, server.flavor, server.port) == (
        "lmsysorg/sglang:latest",
        "h200",
        30000,
    )
    assert " ".join(server.command) == (
        "sglang serve --trust-remote-code --model-path Qwen/Qwen3.8-27B-FP8 "
        "--kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.85 --attention-backend flashinfer "
        "--chunked-prefill-size 32768 --max-prefill-tokens 32768 --reasoning-parser qwen3 "
        "--tool-call-parser qwen3_coder --mamba-full-memory-ratio 3.67 --host 0.0.0.0 --port 30000 "
        "--mamba-radix-cache-strategy extra_buffer_lazy --mamba-ssm-dtype float32"
    )


@pytest.mark.parametrize("name", recipes.names("benchmarks"))
def test_benchmark__resolves(name: str) -> None:
    spec = resolve({"recipe": "qwen3-8b", "benchmark": name})
    assert spec.benchmark.repo is not None
    assert spec.benchmark.repo.endswith(f"/{name}")
    assert spec.environment.flavor == "cpu-upgrade"


def test_benchmark__terminal_bench_4_leaves_out_what_cannot_run() -> None:
    excluded = resolve({"recipe": "qwen3-8b", "benchmark": "terminal-bench-4.0"}).benchmark
    assert len(set(excluded.exclude_task)) == 14
    assert "jax-speedrun-gpu" in excluded.exclude_task


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("models", "qwen3-8", "Did you mean 'qwen3-8b'?"),
        ("benchmarks", "nothing-like-it", "There is no benchmark recipe 'nothing-like-it'"),
        ("models", "absent.toml", "Cannot read the recipe absent.toml"),
    ],
)
def test_load__unknown(kind: Any, name: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        recipes.load(kind, name)
    assert message in caught.value.message


def test_load__not_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("model = ", encoding="utf-8")
    with pytest.raises(SpecError, match="Cannot read the recipe"):
        recipes.load("models", str(path))
