"""Each check says ok, warn or fail, and how to cure it; the Hub's with the real client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from huggingface_hub import HfApi, JobHardwareInfo

from tbh_action import doctor
from tbh_action.commands.doctor import doctor_command
from tbh_action.doctor.check import Check, failures
from tbh_action.doctor.examine import check_hub
from tbh_action.doctor.github import check_comment, check_runner
from tbh_action.doctor.hub import judge_skew
from tbh_action.doctor.machine import judge_disk, judge_harbor, judge_proxy
from tbh_action.loopback.hardware import hardware
from tbh_action.resolve import resolve
from tbh_action.spec import BenchmarkSpec
from tests.unit.stub_hub import SHA, StubHub, stub_hub

HARDWARE = [JobHardwareInfo(**row) for row in hardware()]
WHOAMI: dict[str, Any] = {
    "type": "user",
    "name": "ann",
    "canPay": False,
    "orgs": [
        {"name": "acme", "roleInOrg": "admin", "canPay": True},
        {"name": "readers", "roleInOrg": "read"},
    ],
    "auth": {"type": "access_token", "accessToken": {"role": "write"}},
}


def with_token(**token: Any) -> dict[str, Any]:
    return WHOAMI | {"auth": {"accessToken": token}}


def fine_grained(name: str, *permissions: str) -> dict[str, Any]:
    scoped = [{"entity": {"type": "org", "name": name}, "permissions": list(permissions)}]
    return with_token(role="fineGrained", fineGrained={"global": [], "scoped": scoped})


@pytest.fixture
def hub() -> Iterator[StubHub]:
    with stub_hub() as running:
        running.add("/api/whoami-v2", WHOAMI)
        yield running


def api_of(hub: StubHub) -> HfApi:
    return HfApi(endpoint=hub.url, token="hf_of_a_test")


def test_check_token__known(hub: StubHub) -> None:
    check, whoami = doctor.check_token(api_of(hub))
    assert (check.status, check.detail) == ("ok", "of ann")
    assert whoami == WHOAMI


@pytest.mark.parametrize(
    ("status", "expected", "words"),
    [(401, "fail", "does not know it"), (429, "warn", "fewer"), (500, "fail", "cannot be asked")],
)
def test_check_token__refused(hub: StubHub, status: int, expected: str, words: str) -> None:
    hub.add("/api/whoami-v2", {"error": "no"}, status)
    check, whoami = doctor.check_token(api_of(hub))
    assert check.status == expected
    assert words in check.detail
    assert check.cure
    assert whoami == {}
    assert "hf_of_a_test" not in str(check)


def test_check_token__no_hub() -> None:
    check, _ = doctor.check_token(HfApi(endpoint="http://127.0.0.1:9", token="hf_x"))
    assert check.status == "fail"
    assert "HF_ENDPOINT" in check.cure


def test_check_token__not_ascii(hub: StubHub) -> None:
    check, _ = doctor.check_token(HfApi(endpoint=hub.url, token="hf_schl\u00fcssel"))
    assert (check.status, check.detail) == ("fail", "it holds characters that no token has")
    assert "schl" not in str(check)


def test_check_token__none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.hf_api.get_token", lambda: None)
    check, _ = doctor.check_token(HfApi())
    assert (check.status, check.detail) == ("fail", "there is none")


@pytest.mark.parametrize(
    ("whoami", "namespace", "status"),
    [
        (WHOAMI, None, "ok"),
        (with_token(role="read"), None, "fail"),
        (fine_grained("acme", "job.write", "repo.write"), "acme", "ok"),
        (fine_grained("acme", "job.write"), None, "fail"),
        (fine_grained("acme", "repo.write"), "acme", "fail"),
        (with_token(role="fineGrained", fineGrained={"global": ["job.write"]}), "acme", "ok"),
        ({"name": "ann"}, None, "warn"),
        ({"name": "ann", "auth": {"type": "oauth"}}, None, "warn"),
    ],
)
def test_check_scopes(whoami: dict[str, Any], namespace: str | None, status: str) -> None:
    assert doctor.check_scopes(whoami, namespace).status == status


@pytest.mark.parametrize(
    ("namespace", "status", "words"),
    [
        (None, "ok", "ann pays"),
        ("ann", "ok", "ann pays"),
        ("acme", "ok", "acme pays"),
        ("readers", "fail", "may only read"),
        ("acm", "fail", "no member of acm"),
    ],
)
def test_check_namespace(namespace: str | None, status: str, words: str) -> None:
    check = doctor.check_namespace(WHOAMI, namespace)
    assert check.status == status
    assert words in check.detail


def test_check_namespace__offers_the_nearest() -> None:
    assert "did you mean acme?" in doctor.check_namespace(WHOAMI, "acm").cure


@pytest.mark.parametrize(
    ("namespace", "status"), [("acme", "ok"), (None, "warn"), ("readers", "warn")]
)
def test_check_credit(namespace: str | None, status: str) -> None:
    assert doctor.check_credit(WHOAMI, namespace).status == status


def test_check_flavor__price_and_gpu() -> None:
    check = doctor.check_flavor(HARDWARE, "h200x2", "server")
    assert check.status == "ok"
    assert "2 × H200" in check.detail
    assert "$10.00 an hour" in check.detail


def test_check_flavor__unknown_offers_near_ones() -> None:
    check = doctor.check_flavor(HARDWARE, "h20", "server")
    assert check.status == "fail"
    assert "h200" in check.cure


@pytest.mark.parametrize(
    ("image", "status"),
    [
        ("lmsysorg/sglang:v0.5.21", "ok"),
        ("lmsysorg/sglang:latest", "warn"),
        ("lmsysorg/sglang", "warn"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "warn"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b11382", "ok"),
        ("localhost:5000/a/b:1", "ok"),
        ("a/b@sha256:" + "0" * 64, "ok"),
        ("a/b:latest@sha256:" + "0" * 64, "ok"),
        ("hf.co/spaces/org/name", "ok"),
        ("Not An Image", "fail"),
        ("a/b:", "fail"),
        ("", "fail"),
    ],
)
def test_check_image(image: str, status: str) -> None:
    assert doctor.check_image(image).status == status


def test_check_model__exists(hub: StubHub) -> None:
    hub.add_model("org/m")
    check = doctor.check_model(api_of(hub), "org/m")
    assert (check.status, check.detail) == ("ok", f"org/m at {SHA[:10]}")


def test_check_model__gated_and_not_granted(hub: StubHub) -> None:
    hub.add_model("org/m", gated="manual")
    hub.add("/api/models/org/m/auth-check", {}, 403, X_Error_Code="GatedRepo")
    check = doctor.check_model(api_of(hub), "org/m")
    assert check.status == "fail"
    assert check.cure == "accept its terms at https://huggingface.co/org/m"


@pytest.mark.parametrize(("status", "expected"), [(404, "fail"), (401, "fail"), (500, "warn")])
def test_check_model__refused(hub: StubHub, status: int, expected: str) -> None:
    hub.add("/api/models/org/m", {"error": "no"}, status)
    assert doctor.check_model(api_of(hub), "org/m").status == expected


@pytest.mark.parametrize(
    ("skew", "status"), [(0, "ok"), (-50, "ok"), (90, "warn"), (-90, "warn"), (4000, "fail")]
)
def test_check_clock__against_the_hubs_date(hub: StubHub, skew: float, status: str) -> None:
    hub.add("/", {})
    hub.skew = skew
    assert doctor.check_clock(hub.url).status == status


def test_check_clock__no_hub() -> None:
    assert doctor.check_clock("http://127.0.0.1:9").status == "warn"


def test_judge_skew__says_which_way() -> None:
    assert "ahead of" in judge_skew(100).detail
    assert "behind" in judge_skew(-100).detail


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.26.0", "ok"), ("0.26.9", "ok"), ("0.27.0", "fail"), ("1.26", "fail"), (None, "fail")],
)
def test_judge_harbor(version: str | None, status: str) -> None:
    assert judge_harbor(version).status == status


def test_check_harbor__the_installed_one() -> None:
    assert doctor.check_harbor().status == "ok"


@pytest.mark.parametrize(
    ("free", "status"), [(10 * 2**30, "ok"), (2 * 2**30, "warn"), (2**20, "fail")]
)
def test_judge_disk(free: int, status: str) -> None:
    assert judge_disk(free, Path("/x")).status == status


def test_check_disk__looks_at_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert str(tmp_path) in doctor.check_disk(tmp_path / "not" / "there").detail


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, "ok"),
        ({"HTTP_PROXY": "http://proxy:1"}, "fail"),
        ({"http_proxy": "http://proxy:1", "no_proxy": "localhost, 127.0.0.1"}, "ok"),
        ({"ALL_PROXY": "socks5://proxy:1", "NO_PROXY": "*"}, "ok"),
        ({"HTTPS_PROXY": "http://proxy:1"}, "ok"),
    ],
)
def test_judge_proxy(environ: dict[str, str], status: str) -> None:
    assert judge_proxy(environ).status == status


@pytest.mark.parametrize(
    ("environ", "budget", "status"),
    [
        ({}, None, "ok"),
        ({"GITHUB_ACTIONS": "true"}, None, "warn"),
        ({"GITHUB_ACTIONS": "true"}, 5.5 * 3600, "ok"),
        ({"GITHUB_ACTIONS": "true"}, 6 * 3600, "warn"),
        ({"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "self-hosted"}, 24 * 3600, "ok"),
    ],
)
def test_check_runner(environ: dict[str, str], budget: float | None, status: str) -> None:
    assert check_runner(environ, budget).status == status


@pytest.mark.parametrize(
    ("event", "token", "status"),
    [
        ({"ref": "x"}, "t", "ok"),
        ({"pull_request": {"head": {"repo": {"full_name": "a/b"}}}}, "t", "warn"),
        ({"pull_request": {"head": {"repo": None}}}, "t", "warn"),
        ("same", "", "warn"),
        ("same", "t", "ok"),
    ],
)
def test_check_comment(event: Any, token: str, status: str, tmp_path: Path) -> None:
    repo = {"repo": {"full_name": "a/b"}}
    document = {"pull_request": {"head": repo, "base": repo}} if event == "same" else event
    if event != "same" and "pull_request" in event:
        event["pull_request"]["base"] = {"repo": {"full_name": "a/base"}}
    path = tmp_path / "event.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(path), "GITHUB_TOKEN": token}
    assert check_comment(environ).status == status


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def lfs_repository(tmp_path: Path) -> Path:
    """A bare repository with two files in LFS, whose content lies beside it."""
    work, bare = tmp_path / "work", tmp_path / "tasks.git"
    (work / "a").mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    git(work, "lfs", "install", "--local")
    (work / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (work / "a" / "task.toml").write_text("")
    (work / "a" / "small.bin").write_bytes(b"s" * 2000)
    (work / "a" / "large.bin").write_bytes(b"l" * 9000)
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "tasks")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(bare))
    git(work, "lfs", "push", "--all", f"file://{bare}")
    return bare


def test_check_lfs_content__fetches_the_smallest(lfs_repository: Path) -> None:
    check = doctor.check_lfs_content(f"file://{lfs_repository}")
    assert check.status == "ok"
    assert check.detail == "2 in LFS, a/small.bin fetched to see"


def test_check_lfs_content__pointers_without_content(lfs_repository: Path) -> None:
    for content in (lfs_repository / "lfs" / "objects").rglob("*"):
        if content.is_file():
            content.unlink()
    check = doctor.check_lfs_content(f"file://{lfs_repository}")
    assert check.status == "fail"
    assert "a/small.bin" in check.detail


def test_check_dataset__repository(lfs_repository: Path, tmp_path: Path) -> None:
    def status(**source: str) -> str:
        return doctor.check_dataset(BenchmarkSpec(name="b", **source)).status  # type: ignore[arg-type]

    repo = f"file://{lfs_repository}"
    assert status(repo=repo) == "ok"
    assert status(repo=repo, revision="main") == "ok"
    assert status(repo=repo, revision="nothing") == "fail"
    assert status(repo=f"file://{tmp_path}/none.git") == "fail"
    assert status(path=str(tmp_path / "work")) == "ok"
    assert status(path=str(tmp_path)) == "fail"
    assert status(dataset="org/name") == "ok"


def test_check_dataset__an_option_is_no_address() -> None:
    check = doctor.check_dataset(BenchmarkSpec(name="b", repo="--upload-pack=touch /tmp/x"))
    assert check.status == "fail"


def test_check_hub__stops_at_a_refused_token(hub: StubHub) -> None:
    hub.add("/api/whoami-v2", {"error": "no"}, 401)
    spec = resolve({"recipe": "qwen3-8b"})
    assert [check.name for check in check_hub(api_of(hub), spec)] == ["token"]


def test_check_hub__everything_at_once(hub: StubHub) -> None:
    hub.add("/api/whoami-v2", with_token(role="read"))
    hub.add("/", {})
    spec = resolve({"recipe": "qwen3-8b", "flavor": "h100", "namespace": "elsewhere"})
    failed = {check.name for check in check_hub(api_of(hub), spec) if check.status == "fail"}
    assert failed == {"token scopes", "namespace", "server flavor", "model"}


def test_check_hub__nothing_on_the_hub_nothing_asked(hub: StubHub) -> None:
    spec = resolve({"model": "m", "endpoint": "http://127.0.0.1:9/v1", "env": "docker"})
    assert list(check_hub(api_of(hub), spec)) == []
    assert hub.asked == []


def test_failures__one_line_each() -> None:
    checks = [
        Check(name="a", status="ok", detail="fine"),
        Check(name="b", status="fail", detail="broken", cure="mend it"),
    ]
    assert failures(checks) == ["b: broken → mend it"]


@pytest.mark.parametrize("as_json", [True, False])
def test_doctor_command__table_and_exit_code(
    hub: StubHub, as_json: bool, lfs_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbh_action.server.hf_job.hub_api", lambda: api_of(hub))
    arguments = ["--recipe", "qwen3-8b", "--repo", f"file://{lfs_repository}", "--flavor", "h100"]
    result = CliRunner().invoke(doctor_command, arguments + ["--json"] * as_json)
    assert result.exit_code == 3
    if as_json:
        rows = {row["name"]: row["status"] for row in json.loads(result.output)}
        assert rows["server flavor"] == "fail"
        assert rows["dataset files"] == "ok"
    else:
        assert "that stop a run" in result.output
