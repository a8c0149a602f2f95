"""From a spec and a directory to an exit code: who is sent which key."""

from __future__ import annotations

import pytest

from tbh_action.commands.execute import endpoint_key

HUB = "https://job--30000.hf.jobs/v1"


@pytest.mark.parametrize(
    ("endpoint", "environ", "key"),
    [
        (None, {}, None),
        (None, {"HF_TOKEN": "hf"}, None),
        (HUB, {"HF_TOKEN": "hf"}, "hf"),
        (HUB, {"HF_TOKEN": "hf", "OPENAI_API_KEY": "sk"}, "sk"),
        (HUB, {}, None),
        (HUB, {"HF_TOKEN": ""}, None),
        ("https://x.endpoints.huggingface.cloud/v1", {"HF_TOKEN": "hf"}, "hf"),
        ("https://router.huggingface.co/v1", {"HF_TOKEN": "hf"}, "hf"),
        ("https://org-space.hf.space/v1", {"HF_TOKEN": "hf"}, "hf"),
        ("https://huggingface.co:443/v1", {"HF_TOKEN": "hf"}, "hf"),
        ("https://api.example.com/v1", {"HF_TOKEN": "hf"}, None),
        ("https://api.example.com/v1", {"HF_TOKEN": "hf", "OPENAI_API_KEY": "sk"}, "sk"),
        ("http://127.0.0.1:8000/v1", {"HF_TOKEN": "hf"}, None),
        ("http://job--30000.hf.jobs/v1", {"HF_TOKEN": "hf"}, None),
        ("https://evil-hf.jobs/v1", {"HF_TOKEN": "hf"}, None),
        ("https://hf.jobs.evil.example/v1", {"HF_TOKEN": "hf"}, None),
        ("https://hf.jobs@evil.example/v1", {"HF_TOKEN": "hf"}, None),
        ("https://evil.example/hf.jobs/v1", {"HF_TOKEN": "hf"}, None),
        (
            "http://127.0.0.1:8000/proxy/j/v1",
            {"HF_TOKEN": "hf", "HF_ENDPOINT": "http://127.0.0.1:8000"},
            "hf",
        ),
        (
            "http://127.0.0.1:8001/v1",
            {"HF_TOKEN": "hf", "HF_ENDPOINT": "http://127.0.0.1:8000"},
            None,
        ),
    ],
)
def test_endpoint_key__the_hubs_token_goes_to_the_hub_only(
    endpoint: str | None, environ: dict[str, str], key: str | None
) -> None:
    assert endpoint_key(endpoint, environ) == key
