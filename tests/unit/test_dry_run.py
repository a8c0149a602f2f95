"""What would be done, ready to be copied, without a secret."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from specs import SEED, seed

from tbh_action.cli import main
from tbh_action.controller.dry_run import describe, server_command

SEED_COMMAND = """\
hf jobs run --flavor h200 --expose 30000 --secrets HF_TOKEN --timeout 4h --label \
project=tbh-action --label tbh-run=r --label model=Qwen-Qwen3.8-27B-FP8 -d \
lmsysorg/sglang:latest sglang serve --trust-remote-code --model-path Qwen/Qwen3.8-27B-FP8 \
--kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.85 --attention-backend flashinfer \
--chunked-prefill-size 32768 --max-prefill-tokens 32768 --reasoning-parser qwen3 \
--tool-call-parser qwen3_coder --mamba-full-memory-ratio 3.67 --host 0.0.0.0 --port 30000 \
--mamba-radix-cache-strategy extra_buffer_lazy --mamba-ssm-dtype float32"""


def test_server_command__is_the_seeds() -> None:
    assert server_command(seed(), "r") == SEED_COMMAND


def test_server_command__what_the_run_asks_beyond_the_recipe() -> None:
    words = shlex.split(
        server_command(
            seed(namespace="org", server_timeout=5400.0, mount_model=True, flavor="a100"), "r"
        )
    )
    for pair in (
        ("--namespace", "org"),
        ("--timeout", "5400s"),
        ("--flavor", "a100"),
        ("--volume", "hf://models/Qwen/Qwen3.8-27B-FP8:/models/Qwen/Qwen3.8-27B-FP8:ro"),
    ):
        assert words[words.index(pair[0]) + 1] == pair[1]


def test_describe__all_steps_in_order(tmp_path: Path) -> None:
    text = describe(seed(), tmp_path / "r")
    heads = [line for line in text.splitlines() if line.startswith("# ")]
    assert [head[:4] for head in heads] == ["# Qw", "# 1.", "# 2.", "# 3.", "# 4.", "#   "]
    assert "Up to 3 further passes" in text
    config = json.loads(text.split("harbor-job.json\n", 1)[1].split("\n\n", 1)[0])
    assert config["agents"][0]["model_name"] == "openai/Qwen/Qwen3.8-27B-FP8"
    assert config["agents"][0]["kwargs"]["reasoning_effort"] == "low"
    assert config["environment"]["kwargs"]["flavor"] == "cpu-upgrade"
    assert config["agent_timeout_multiplier"] == 4
    run, resume = (line for line in text.splitlines() if line.startswith("OPENAI_BASE_URL="))
    assert f"harbor run -c {tmp_path}/r/harbor-job.json -y" in run
    assert f"harbor job resume -p {tmp_path}/r/harbor/job" in resume
    for name in ("SandboxError", "InternalServerError", "ReadTimeout", "ReadError"):
        assert f"--filter-error-type {name}" in resume
    for name in ("ConnectTimeout", "RemoteProtocolError"):
        assert f"--filter-error-type {name}" in resume
    assert "AgentTimeoutError" not in resume
    assert "https://<job_id>--30000.hf.jobs/v1" in run


def test_describe__an_endpoint_starts_no_server(tmp_path: Path) -> None:
    spec = seed(endpoint="https://host/v1")
    text = describe(spec, tmp_path)
    assert "hf jobs run" not in text
    assert "OPENAI_BASE_URL=https://host/v1 " in text


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("TBH_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("question", ["--dry-run", "--print-spec"])
@pytest.mark.usefixtures("alone")
def test_run_command__questions_make_nothing_and_show_no_token(
    question: str, tmp_path: Path
) -> None:
    env = {
        "HF_TOKEN": "hf_hidden",
        "OPENAI_API_KEY": "sk-hidden",
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }
    done = CliRunner().invoke(main, ["run", "--recipe", SEED, question], env=env)
    assert done.exit_code == 0, done.output
    assert "hidden" not in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("alone")
def test_run_command__print_spec_is_json_with_its_fingerprint() -> None:
    done = CliRunner().invoke(main, ["run", "--recipe", SEED, "--print-spec"])
    document = json.loads(done.output)
    assert document["fingerprint"] == seed().fingerprint()
    assert document["spec"] == seed().model_dump(mode="json")


@pytest.mark.usefixtures("alone")
def test_run_command__the_default_directory_is_a_plain_name() -> None:
    arguments = ["run", "--recipe", SEED, "--path", "/my tasks;rm -rf", "--dry-run"]
    done = CliRunner().invoke(main, arguments)
    place = next(line for line in done.output.splitlines() if line.startswith("# 2."))
    assert place.endswith("harbor-job.json")
    name = Path(place.split(", ", 1)[1]).parent.name
    assert name.startswith("qwen3.8-27b-fp8-my")
    assert not set(name) & set(" ;/")
