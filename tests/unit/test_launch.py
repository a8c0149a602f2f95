from __future__ import annotations

import pytest

from tbh_action.errors import SpecError
from tbh_action.resolve import resolve
from tbh_action.server.hf_job import creation_arguments, new_server
from tbh_action.server.launch import mounted_command

MODEL = "org/model"


@pytest.mark.parametrize(
    ("engine", "command", "expected"),
    [
        (
            "vllm",
            ["vllm", "serve", MODEL, "--port", "1"],
            ["vllm", "serve", "/models/org/model", "--port", "1", "--served-model-name", MODEL],
        ),
        (
            "sglang",
            ["sglang", "serve", f"--model-path={MODEL}", "--served-model-name", MODEL],
            [
                "sglang", "serve", "--model-path=/models/org/model", "--served-model-name", MODEL,
            ],
        ),
        ("other", ["serve", MODEL, f"{MODEL}-2"], ["serve", "/models/org/model", f"{MODEL}-2"]),
    ],
)  # fmt: skip
def test_mounted_command__path_and_name(
    engine: str, command: list[str], expected: list[str]
) -> None:
    assert mounted_command(command, MODEL, engine) == expected


@pytest.mark.parametrize(
    ("engine", "command", "message"),
    [
        ("vllm", ["vllm", "serve", "another/model"], "does not name the model"),
        ("vllm", ["vllm", "serve", "x", "--served-model-name", MODEL], "does not name the model"),
        ("llama.cpp", ["llama-server", "--hf-repo", MODEL], "wants one GGUF file"),
    ],
)
def test_mounted_command__refused(engine: str, command: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        mounted_command(command, MODEL, engine)


def test_creation_arguments__mounts_what_the_command_reads() -> None:
    spec = resolve({"recipe": "qwen3.8-27b-fp8", "mount_model": True, "model_revision": "abc"})
    arguments = creation_arguments(spec, new_server(spec), "run")
    (volume,) = arguments["volumes"]
    at = arguments["command"].index("--model-path")
    assert arguments["command"][at + 1] == volume.mount_path == "/models/Qwen/Qwen3.8-27B-FP8"
    assert arguments["command"][-2:] == ["--served-model-name", "Qwen/Qwen3.8-27B-FP8"]
    assert (volume.source, volume.revision, volume.read_only) == (
        "Qwen/Qwen3.8-27B-FP8",
        "abc",
        True,
    )


def test_creation_arguments__a_revision_is_served_not_only_recorded() -> None:
    spec = resolve({"recipe": "qwen3-8b", "model_revision": "abc"})
    command = creation_arguments(spec, new_server(spec), "run")["command"]
    assert command[-2:] == ["--revision", "abc"]


def test_creation_arguments__llama_cpp_knows_no_revision() -> None:
    spec = resolve({"recipe": "qwen3-4b-gguf", "model_revision": "abc"})
    with pytest.raises(SpecError, match="drop --model-revision"):
        creation_arguments(spec, new_server(spec), "run")


def test_creation_arguments__unmounted_is_word_for_word() -> None:
    spec = resolve({"recipe": "qwen3.8-27b-fp8"})
    arguments = creation_arguments(spec, new_server(spec), "run")
    assert spec.server is not None
    assert arguments["command"] == list(spec.server.command)
    assert "volumes" not in arguments
