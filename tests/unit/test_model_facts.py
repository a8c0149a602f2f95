from __future__ import annotations

from collections.abc import Iterator

import pytest
from huggingface_hub import HfApi

from tbh_action.errors import SpecError
from tbh_action.recipes.model_facts import GgufFile, ModelFacts, gguf_files, look_up, weight_bytes
from tests.unit.stub_hub import SHA, StubHub, stub_hub


@pytest.fixture
def hub() -> Iterator[StubHub]:
    with stub_hub() as running:
        yield running


def api_of(hub: StubHub) -> HfApi:
    return HfApi(endpoint=hub.url, token="hf_of_a_test")


def test_look_up__reads_page_files_and_config(hub: StubHub) -> None:
    hub.add_model(
        "org/m",
        config={"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2},
        files={
            "model-00001-of-00002.safetensors": 10,
            "model-00002-of-00002.safetensors": 5,
            "original/consolidated.safetensors": 99,
        },
        parameters={"BF16": 7},
    )
    facts = look_up(api_of(hub), "org/m")
    assert (facts.name, facts.revision) == ("org/m", SHA)
    assert facts.architecture == "LlamaForCausalLM"
    assert facts.parameters == {"BF16": 7}
    assert weight_bytes(facts) == 15
    assert facts.gguf_files == ()


def test_look_up__gguf_repository(hub: StubHub) -> None:
    hub.add_model(
        "org/m-GGUF", files={"m-Q4_K_M.gguf": 4}, gguf={"architecture": "qwen3", "total": 9}
    )
    facts = look_up(api_of(hub), "org/m-GGUF")
    assert facts.gguf_files == (GgufFile(path="m-Q4_K_M.gguf", size=4),)
    assert facts.architecture == "qwen3"
    assert facts.config == {}


def test_look_up__nothing_to_serve(hub: StubHub) -> None:
    hub.add_model("org/m", config={}, files={"pytorch_model.bin": 10})
    with pytest.raises(SpecError, match="neither safetensors nor GGUF"):
        look_up(api_of(hub), "org/m")


def test_look_up__gated_config(hub: StubHub) -> None:
    hub.add_model("org/m", config={}, files={"model.safetensors": 10}, gated="manual")
    path = f"/org/m/resolve/{SHA}/config.json"
    hub.add(path, {}, 403, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted")
    with pytest.raises(SpecError, match="gated for this token: accept its terms at https"):
        look_up(api_of(hub), "org/m")


@pytest.mark.parametrize(
    ("name", "status", "headers", "message"),
    [
        ("org/none", 404, {"X_Error_Code": "RepoNotFound"}, "shows this token no model org/none"),
        ("org/none", 401, {"X_Error_Code": "RepoNotFound"}, "shows this token no model org/none"),
        ("org/none", 404, {"X_Error_Code": "RevisionNotFound"}, "has no revision"),
        ("org/none", 500, {}, "cannot be asked about org/none"),
        ("a b", 200, {}, "is no model's name"),
        ("a/b/c", 200, {}, "is no model's name|no model"),
    ],
)
def test_look_up__refused(
    hub: StubHub, name: str, status: int, headers: dict[str, str], message: str
) -> None:
    hub.add(f"/api/models/{name}", {"error": "no"}, status, **headers)
    with pytest.raises(SpecError, match=message) as caught:
        look_up(api_of(hub), name)
    assert "\n" not in caught.value.message


def test_look_up__no_hub() -> None:
    with pytest.raises(SpecError, match="cannot be asked"):
        look_up(HfApi(endpoint="http://127.0.0.1:9", token="hf_x"), "org/m")


def test_gguf_files__split_files_count_as_one_and_projectors_not() -> None:
    sizes = {
        "Q8/m-Q8_0-00001-of-00002.gguf": 3,
        "Q8/m-Q8_0-00002-of-00002.gguf": 4,
        "m-Q4_0.gguf": 2,
        "mmproj-F16.gguf": 1,
        "README.md": 1,
    }
    assert gguf_files(sizes) == (
        GgufFile(path="Q8/m-Q8_0-00001-of-00002.gguf", size=7),
        GgufFile(path="m-Q4_0.gguf", size=2),
    )


def test_weight_bytes__by_dtype_when_no_sizes() -> None:
    facts = ModelFacts(name="m", parameters={"BF16": 10, "F8_E4M3": 10, "F32": 1})
    assert weight_bytes(facts) == 34


def test_text_config__of_a_model_that_sees() -> None:
    facts = ModelFacts(name="m", config={"text_config": {"num_hidden_layers": 3}, "vision": {}})
    assert facts.text_config == {"num_hidden_layers": 3}
