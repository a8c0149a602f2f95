"""What the Hub says about a model, as plain values: the input of a recipe proposal."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tbh_action.errors import SpecError
from tbh_action.server.hub_errors import explain, hub_errors, status_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_BYTES: Final = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "I16": 2}
_SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufFile:
    """One quantisation in a GGUF repository; `size`: bytes, all parts of a split file together."""

    path: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """`parameters`: how many by dtype (`BF16`, `F8_E4M3`, …), from the safetensors' headers.
    `weight_bytes`: size of the safetensors files, 0 when the Hub gives none. `config`: config.json,
    {} when there is none. `gguf`: the Hub's reading of a GGUF file's header."""

    name: str
    revision: str | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)
    weight_bytes: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    gguf_files: tuple[GgufFile, ...] = ()
    gguf: Mapping[str, Any] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """The first architecture that config.json (or the GGUF header) names, or nothing."""
        listed = self.config.get("architectures")
        if isinstance(listed, list) and listed:
            return str(listed[0])
        return str(self.gguf.get("architecture") or "")

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The language model's part of config.json (models that also see have it nested)."""
        for key in ("text_config", "llm_config", "language_config"):
            nested = self.config.get(key)
            if isinstance(nested, Mapping):
                return nested
        return self.config


def look_up(api: HfApi, name: str, revision: str | None = None) -> ModelFacts:
    """Asks the Hub.

    Raises:
        SpecError: no such model, gated, nothing that can be served, or the Hub does not answer.
    """
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RevisionNotFoundError

    page = f"https://huggingface.co/{name}"
    try:
        info = api.model_info(name, revision=revision, files_metadata=True)
        sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or []}
        config = _config(api, name, str(info.sha)) if "config.json" in sizes else {}
    except HFValidationError as error:
        raise SpecError(f"{name!r} is no model's name; write it like org/name.") from error
    except GatedRepoError as error:
        raise SpecError(
            f"{name} is gated for this token: accept its terms at {page}, then try again."
        ) from error
    except RevisionNotFoundError as error:
        raise SpecError(f"{name} has no revision {revision!r}: see {page}/commits/main.") from error
    except hub_errors(ValueError) as error:
        if status_of(error) in (401, 403, 404):
            raise SpecError(
                f"The Hub shows this token no model {name}: check the spelling, and that the "
                "token may read it."
            ) from error
        raise SpecError(f"The Hub cannot be asked about {name}: {explain(error)}") from error
    facts = ModelFacts(
        name=str(info.id or name),
        revision=info.sha,
        parameters=dict(info.safetensors.parameters) if info.safetensors else {},
        weight_bytes=sum(size for path, size in sizes.items() if _is_weight(path)),
        config=config,
        gguf_files=gguf_files(sizes),
        gguf=info.gguf or {},
    )
    if not (facts.weight_bytes or facts.parameters or facts.gguf_files):
        raise SpecError(
            f"{name} has neither safetensors nor GGUF files, so no server of ours can load it; "
            "look for a converted version of it on the Hub."
        )
    return facts


def _config(api: HfApi, name: str, sha: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tbh-config-") as folder:
        path = api.hf_hub_download(name, "config.json", revision=sha, local_dir=folder)
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    return document if isinstance(document, dict) else {}


def _is_weight(path: str) -> bool:
    """The model's own weights: those in folders are adapters, or the same in another format."""
    return path.endswith(".safetensors") and "/" not in path


def gguf_files(sizes: Mapping[str, int]) -> tuple[GgufFile, ...]:
    """The GGUF files of a repository, each split file as one; projectors for images left out."""
    grouped: dict[str, tuple[str, int]] = {}
    for path in sorted(sizes):
        if path.endswith(".gguf") and "mmproj" not in path.lower():
            whole = _SPLIT.sub("", path)
            first, size = grouped.get(whole, (path, 0))
            grouped[whole] = (first, size + sizes[path])
    return tuple(GgufFile(path=path, size=size) for path, size in grouped.values())


def weight_bytes(facts: ModelFacts) -> int:
    """Bytes of the weights: the files' size where the Hub gives it, else dtype × number."""
    if facts.weight_bytes:
        return facts.weight_bytes
    return sum(number * _BYTES.get(dtype, 1) for dtype, number in facts.parameters.items())
