"""The command that the server's job runs: the recipe's, word for word, unless the run asks for a
mounted model or for a revision of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tbh_action.errors import SpecError

if TYPE_CHECKING:
    from tbh_action.spec import ModelSpec, ServerSpec

_NAMING_ENGINES: Final = frozenset({"sglang", "vllm"})
_NAME_FLAG: Final = "--served-model-name"
_REVISION_FLAG: Final = "--revision"


def mount_path(model: str) -> str:
    """Where the repository of `model` (ORG/NAME) lies inside the job."""
    return f"/models/{model}"


def launch_command(server: ServerSpec, model: ModelSpec) -> list[str]:
    """What the job runs. A mounted model is mounted at its revision; one that the server downloads
    is asked for by `--revision`, so that what is recorded is what is served.

    Raises:
        SpecError: the engine can't be told.
    """
    if server.mount_model:
        return mounted_command(server.command, model.name, server.engine)
    words = list(server.command)
    if model.revision is None or any(w.partition("=")[0] == _REVISION_FLAG for w in words):
        return words
    if server.engine == "llama.cpp":
        raise SpecError("llama.cpp cannot be told a revision of the model; drop --model-revision.")
    if server.engine in _NAMING_ENGINES:
        words += [_REVISION_FLAG, model.revision]
    return words


def mounted_command(command: Sequence[str], model: str, engine: str) -> list[str]:
    """`command` with the mounted directory in place of the model's name. SGLang and vLLM are told
    to go on answering to the name, so that nothing else of the run changes.

    Raises:
        SpecError: the command does not name the model, or the engine cannot serve a directory.
    """
    if engine == "llama.cpp":
        raise SpecError("--mount-model serves a directory, and llama.cpp wants one GGUF file.")
    words: list[str] = []
    found = False
    for word in command:
        flag, equals, value = word.partition("=")
        if word == model:
            keeps_name = bool(words) and words[-1] == _NAME_FLAG
        elif flag.startswith("-") and equals and value == model:
            keeps_name = flag == _NAME_FLAG
        else:
            words.append(word)
            continue
        found = found or not keeps_name
        words.append(word if keeps_name else word.removesuffix(model) + mount_path(model))
    if not found:
        raise SpecError(f"--mount-model: the server's command does not name the model {model}.")
    if engine in _NAMING_ENGINES and not any(w.partition("=")[0] == _NAME_FLAG for w in words):
        words += [_NAME_FLAG, model]
    return words
