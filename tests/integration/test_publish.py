"""`tbh publish` and `tbh verify` with the real client against the loopback Hub."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tbh_action.loopback.client import LoopbackHub
from tbh_action.rundir import RunDir, write_json
from tests.integration.runs import tbh
from tests.published import MODEL, finished_run

pytestmark = pytest.mark.slow

# Xet storage has no stand-in: large files take the LFS protocol, as for clients without Xet.
ENV = {"HF_HUB_DISABLE_XET": "1"}
STORE = "demo/store"
DATASET = "demo/terminal-bench-2.1"
EVAL = "name: Terminal-Bench 2.1\ntasks:\n- id: terminalbench_2_1\n  config: default\n"


@pytest.fixture(scope="module")
def shared() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


@pytest.fixture
def store(shared: LoopbackHub, request: pytest.FixtureRequest) -> str:
    """A store of this test's own."""
    shared.set_faults([])
    return f"demo/{request.node.name.partition('[')[0].strip('_')[-60:]}"


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return finished_run(tmp_path / "run-a", tasks=4)


def publish(hub: LoopbackHub, run_dir: RunDir, store: str, *more: str) -> tuple[int, str]:
    words = ("publish", str(run_dir.root), "--to", store, *more)
    return tbh(hub, *words, cwd=run_dir.root.parent, env=ENV)


def client(hub: LoopbackHub, code: str) -> Any:
    """What a piece of code with the real client prints as JSON: it reads its address on import."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import json\nfrom huggingface_hub import *\napi = HfApi()\n{code}",
        ],
        env={**os.environ, **hub.environment(), **ENV, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout) if done.stdout.strip() else None


def files(hub: LoopbackHub, store: str) -> list[str]:
    code = f"print(json.dumps(api.list_repo_files({store!r}, repo_type='dataset')))"
    found: list[str] = client(hub, code)
    return found


def read(hub: LoopbackHub, repo: str, path: str, *, kind: str = "dataset", at: str = "main") -> str:
    code = (
        f"path = hf_hub_download({repo!r}, {path!r}, repo_type={kind!r}, revision={at!r})\n"
        "print(json.dumps(open(path, encoding='utf-8').read()))"
    )
    text: str = client(hub, code)
    return text


def commits(hub: LoopbackHub, store: str) -> list[int]:
    """The answers to the commits so far (0: cut)."""
    calls = [call for call in hub.calls("repo.commit") if f"/{store}/" in call["path"]]
    return [call["status"] for call in calls]


def test_publish__dry_run_shows_each_file_and_sends_nothing(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    before = len(shared.calls())
    code, said = publish(shared, run_dir, store, "--dry-run")
    assert code == 0, said
    rows = [line.split() for line in said.splitlines() if "  send  " in line]
    assert {"runs/run-a/results.json", "runs/run-a/MANIFEST.json", "README.md"} <= {
        row[2] for row in rows
    }
    assert all(int(row[0].replace(",", "")) > 0 for row in rows)
    assert "to a new dataset" in said
    assert {call["method"] for call in shared.calls(since=before)} == {"GET"}


def test_publish__verify__and_a_second_time_makes_no_commit(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    code, said = publish(shared, run_dir, store)
    assert code == 0, said
    assert commits(shared, store) == [200]
    published = files(shared, store)
    assert "data/run-a.jsonl" in published
    code, said = publish(shared, run_dir, store)
    assert code == 0, said
    assert "nothing was sent" in said
    assert commits(shared, store) == [200]
    address = f"hf://datasets/{store}/runs/run-a"
    assert f"tbh verify {address}" in said
    code, said = tbh(shared, "verify", address, cwd=run_dir.root.parent, env=ENV)
    assert code == 0, said
    assert said.startswith("run-a: verified. 5 trials give")


def test_publish__the_table_has_a_row_for_each_task_with_every_column(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    publish(shared, run_dir, store)
    rows = [json.loads(line) for line in read(shared, store, "data/run-a.jsonl").splitlines()]
    results = json.loads(run_dir.results.read_text(encoding="utf-8"))
    assert [(r["task"], r["status"]) for r in rows] == [
        (r["task"], r["status"]) for r in results["tasks"]
    ]
    card = read(shared, store, "README.md")
    for row in rows:
        assert all(f"- name: {column}\n" in card for column in row)


@pytest.mark.parametrize(("moment", "sent_again"), [("before", True), ("after", False)])
def test_publish__a_connection_that_drops_at_the_commit(
    shared: LoopbackHub, run_dir: RunDir, moment: str, sent_again: bool
) -> None:
    store = f"demo/drop-{moment}"
    shared.set_faults([{"call": "repo.commit", "times": 1, "action": {"drop": moment}}])
    code, said = publish(shared, run_dir, store)
    assert code == 3
    assert "The same command goes on where it broke." in said
    assert "Traceback" not in said
    code, said = publish(shared, run_dir, store)
    assert code == 0, said
    assert commits(shared, store) == ([0, 200] if sent_again else [0])
    address = f"hf://datasets/{store}/runs/run-a"
    assert tbh(shared, "verify", address, cwd=run_dir.root.parent, env=ENV)[0] == 0


def test_publish__a_large_file_cut_in_its_middle_is_sent_once_more_and_never_again(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    trial = next(path for path in run_dir.harbor_job.iterdir() if path.is_dir())
    write_json(trial / "agent" / "trajectory.json", {"steps": ["x" * (11 << 20)]})
    shared.set_faults(
        [
            {"call": "lfs.receive", "times": 1, "action": {"drop": "before"}},
            {"call": "repo.commit", "times": 1, "action": {"drop": "before"}},
        ]
    )
    before = len(shared.calls())
    assert publish(shared, run_dir, store, "--trajectories")[0] == 3
    assert publish(shared, run_dir, store, "--trajectories")[0] == 0
    calls = [call for call in shared.calls(since=before) if str(call.get("call", "")) != ""]
    names = [call["call"] for call in calls]
    assert names.count("lfs.receive") == 1
    assert names.count("lfs.upload") == 1
    assert names.count("lfs.batch") == 2
    name = trial.relative_to(run_dir.root).as_posix()
    text = read(shared, store, f"runs/run-a/{name}/agent/trajectory.json")
    assert len(text) > 11 << 20
    assert "nothing was sent" in publish(shared, run_dir, store, "--trajectories")[1]


def test_publish__a_commit_of_someone_else_in_between_is_no_failure(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    refusal = {"status": 412, "body": {"error": "A commit has happened since."}}
    shared.set_faults([{"call": "repo.commit", "times": 1, "action": refusal}])
    code, said = publish(shared, run_dir, store)
    assert code == 0, said
    assert commits(shared, store) == [412, 200]


def test_publish__then_the_store_is_a_baseline(
    shared: LoopbackHub, run_dir: RunDir, store: str, tmp_path: Path
) -> None:
    publish(shared, run_dir, store)
    later = finished_run(
        tmp_path / "run-b",
        tasks=4,
        started_at="2026-09-01T09:00:00.000Z",
        spec={"model": {"name": MODEL, "revision": "2222222"}},
    )
    for wanted in ("#latest", "#best", "#1f3c9d2", ""):
        place = f"hf://datasets/{store}{wanted}"
        code, said = tbh(shared, "compare", str(later.results), place, cwd=tmp_path, env=ENV)
        assert code == 4, said  # a quarter of four tasks is unscored
        assert f"Baseline: run-a (hf://datasets/{store}/runs/run-a/results.json)" in said
    publish(shared, later, store)
    history = read(shared, store, "HISTORY.md")
    assert history.index("run-b") < history.index("run-a")
    assert history.count("## terminal-bench-2.1, measured as") == 1
    assert "[run-b](runs/run-b/report/summary.md)" in read(shared, store, "README.md")
    place = f"hf://datasets/{store}"
    code, said = tbh(shared, "history", place, "--json", cwd=tmp_path, env=ENV)
    series = json.loads(said[said.index("{") :])["series"]
    assert [point["name"] for point in series[0]["points"]] == ["run-a", "run-b"]


def test_publish__another_run_of_the_same_name_gets_a_place_of_its_own(
    shared: LoopbackHub, run_dir: RunDir, store: str, tmp_path: Path
) -> None:
    publish(shared, run_dir, store)
    root = tmp_path / "elsewhere" / "run-a"
    other = finished_run(root, tasks=4, started_at="2026-09-01T09:00:00.000Z")
    for _ in range(2):
        code, said = publish(shared, other, store)
        assert code == 0, said
        assert f"tbh verify hf://datasets/{store}/runs/run-a-2026-09-01T090000Z" in said
    assert "nothing was sent" in said
    assert commits(shared, store) == [200, 200]
    assert "nothing was sent" in publish(shared, run_dir, store)[1]


def test_publish__a_run_that_went_on_leaves_nothing_of_its_earlier_state(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    publish(shared, run_dir, store)
    trial = next(path for path in run_dir.harbor_job.iterdir() if path.is_dir())
    shutil.move(trial, run_dir.archive(2) / trial.name)
    code, said = publish(shared, run_dir, store)
    assert code == 0, said
    names = files(shared, store)
    assert f"runs/run-a/archive/pass-2/{trial.name}/result.json" in names
    assert f"runs/run-a/harbor/job/{trial.name}/result.json" not in names


def test_publish__what_the_owner_wrote_on_the_card_stays(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    own = "---\nlicense: mit\n---\n# Ours\n\nHand-written.\n"
    client(
        shared,
        f"api.create_repo({store!r}, repo_type='dataset')\n"
        f"api.upload_file(path_or_fileobj={own!r}.encode(), path_in_repo='README.md', "
        f"repo_id={store!r}, repo_type='dataset')",
    )
    for _ in range(2):
        assert publish(shared, run_dir, store)[0] == 0
    card = read(shared, store, "README.md")
    assert card.startswith(own)
    assert card.count("tbh:start") == 1


def test_publish__a_private_store(shared: LoopbackHub, run_dir: RunDir, store: str) -> None:
    publish(shared, run_dir, store, "--private")
    code = f"print(json.dumps(api.dataset_info({store!r}).private))"
    assert client(shared, code) is True


@pytest.mark.parametrize("store", ["nobody/store", "store", "a/b/c"])
def test_publish__a_store_that_cannot_be_is_one_line(
    shared: LoopbackHub, run_dir: RunDir, store: str
) -> None:
    code, said = publish(shared, run_dir, store)
    assert code in (2, 3)
    assert said.startswith("Error: ")
    assert "Traceback" not in said


def test_publish__no_hub_at_all(shared: LoopbackHub, run_dir: RunDir) -> None:
    env = {**ENV, "HF_ENDPOINT": "http://127.0.0.1:1"}
    words = ("publish", str(run_dir.root), "--to", STORE)
    code, said = tbh(shared, *words, cwd=run_dir.root.parent, env=env)
    assert code == 3
    assert "Traceback" not in said
    code, said = tbh(shared, *words, "--dry-run", cwd=run_dir.root.parent, env=env)
    assert code == 0
    assert "All files are shown as new" in said


def test_verify__an_address_without_a_run(shared: LoopbackHub, tmp_path: Path) -> None:
    for place, wanted in (
        ("hf://datasets/demo/none", 2),
        ("hf://datasets/demo/none/runs/x", 3),
        ("nowhere", 2),
    ):
        code, said = tbh(shared, "verify", place, cwd=tmp_path, env=ENV)
        assert code == wanted, said
        assert "Traceback" not in said


def benchmark(hub: LoopbackHub, text: str = EVAL) -> None:
    """The benchmark's dataset, which says that it is one."""
    client(
        hub,
        f"api.create_repo({DATASET!r}, repo_type='dataset', exist_ok=True)\n"
        f"api.upload_file(path_or_fileobj={text!r}.encode(), path_in_repo='eval.yaml', "
        f"repo_id={DATASET!r}, repo_type='dataset')",
    )


def pulls(hub: LoopbackHub) -> list[list[Any]]:
    code = (
        f"print(json.dumps([[p.num, p.title, p.status] for p in "
        f"api.get_repo_discussions({MODEL!r}) if p.is_pull_request]))"
    )
    found: list[list[Any]] = client(hub, code)
    return found


def test_publish__a_pull_request_on_the_model_once_and_kept_up_to_date(tmp_path: Path) -> None:
    run_dir = finished_run(tmp_path / "run-a", tasks=4)
    with LoopbackHub() as hub:
        code, said = publish(hub, run_dir, STORE, "--model-pr")
        assert code == 3
        assert f"No pull request on {MODEL}" in said or "eval.yaml" in said
        benchmark(hub)
        code, said = publish(hub, run_dir, STORE, "--model-pr")
        assert code == 0, said
        assert f"{MODEL}, .eval_results/terminal-bench-2.1.yaml: opened: {hub.url}/{MODEL}" in said
        assert "open already" in publish(hub, run_dir, STORE, "--model-pr")[1]
        path = ".eval_results/terminal-bench-2.1.yaml"
        text = read(hub, MODEL, path, kind="model", at="refs/pr/1")
        code_ = (
            "import yaml\nfrom dataclasses import asdict\n"
            "from huggingface_hub import parse_eval_result_entries as p\n"
            f"print(json.dumps([asdict(e) for e in p(yaml.safe_load({text!r}))]))"
        )
        (entry,) = client(hub, code_)
        results = json.loads(run_dir.results.read_text(encoding="utf-8"))
        assert entry["dataset_id"] == DATASET
        assert entry["task_id"] == "terminalbench_2_1"
        assert entry["value"] == round(100 * results["rates"]["all"], 1)
        assert entry["source_url"] == f"{hub.url}/datasets/{STORE}/tree/main/runs/run-a"
        assert "agent_timeout_multiplier is 4, not 1" in entry["notes"]
        later = finished_run(tmp_path / "b" / "run-b", tasks=5)
        assert "updated" in publish(hub, later, STORE, "--model-pr")[1]
        assert pulls(hub) == [[1, "Add the terminal-bench-2.1 result", "open"]]
        assert "run-b" in read(hub, MODEL, path, kind="model", at="refs/pr/1")


@contextlib.contextmanager
def identity_provider() -> Iterator[tuple[str, list[str]]]:
    """What GitHub gives a job with `id-token: write`: an address for its identity."""
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer job-token":
            return Response(status_code=401)
        asked.append(request.query_params["audience"])
        return JSONResponse({"value": "an.id.token"})

    app = Starlette(routes=[Route("/id", answer)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/id", asked
    finally:
        server.should_exit = True
        thread.join()


def test_publish__without_a_token_by_the_identity_of_the_job(
    shared: LoopbackHub, run_dir: RunDir, store: str, tmp_path: Path
) -> None:
    benchmark(shared)
    with identity_provider() as (url, asked):
        env = {
            **ENV,
            "HF_TOKEN": "",
            "HF_HOME": str(tmp_path / "hf"),
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": url,
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "job-token",
        }
        words = ("publish", str(run_dir.root), "--to", store, "--model-pr")
        code, said = tbh(shared, *words, cwd=tmp_path, env=env)
    assert code == 0, said
    assert set(asked) == {shared.url}
    resources = [call["resource"] for call in shared.calls("oauth.token")]
    assert resources == [f"datasets/{store}", MODEL]
