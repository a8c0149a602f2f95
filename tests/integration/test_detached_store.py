"""The store and the jobs of detached runs: the real client against the loopback Hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http

from tbh_action.controller import state as run_state
from tbh_action.detached import job as controller
from tbh_action.detached.controller import stop_leftovers
from tbh_action.detached.store import Store, open_store
from tbh_action.detached.submission import Submission, submission
from tbh_action.errors import NotStartedError, SpecError
from tbh_action.resolve import resolve
from tbh_action.rundir import RunDir
from tbh_action.server import hf_job
from tests.integration.hub_stand import HubStand, hub_stand, spec, wait_for

# The client's own way of uploading a large file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
REPO_CALLS = ("info", "tree", "paths", "resolve")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStand]:
    # A controller waits for its machine: here only its job is looked at.
    with hub_stand(sandbox_scheduling=30.0) as stand:
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield stand


def store(hub: HubStand, name: str = "night") -> Store:
    return Store(hub.api(), "demo", name, sleep=lambda _: None)


def asked(name: str = "night") -> Submission:
    return submission(
        resolve({"recipe": "qwen3.8-27b-fp8"}),
        name=name,
        namespace="demo",
        package="tbh-action",
        limits={},
        asked_at="",
    )


def start(hub: HubStand, name: str = "night") -> hf_job.PaidJob:
    job = controller.new_controller("demo", "cpu-basic", 600)
    return controller.start(hub.api(), asked(name), job, sync_every=60)


# ------------------------------------------------------------------ store


def test_store__files_come_back_and_another_run_s_do_not(hub: HubStand, tmp_path: Path) -> None:
    night, day = store(hub), store(hub, "night.2")
    night.open()
    night.write({"status.json": b'{"n": 1}', "trials/a.tar.gz": b"\0" * 2000}, "one")
    night.write({"status.json": b'{"n": 2}'}, "two")
    day.write({"status.json": b'{"n": 3}'}, "three")
    assert night.read("status.json") == {"n": 2}
    place = night.download(tmp_path)
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert found == {"status.json", "trials/a.tar.gz"}
    assert (place / "trials/a.tar.gz").read_bytes() == b"\0" * 2000


def test_store__nothing_there(hub: HubStand, tmp_path: Path) -> None:
    night = store(hub)
    assert night.read("status.json") is None
    assert list(night.download(tmp_path).iterdir()) == []
    night.open()
    assert night.read("status.json") is None
    assert list(night.download(tmp_path).iterdir()) == []


def test_open__public_dataset_is_refused(hub: HubStand) -> None:
    hub.api().create_repo("demo/tbh-runs", repo_type="dataset", private=False)
    with pytest.raises(SpecError, match="demo/tbh-runs is public"):
        store(hub).open()


def test_write__comes_through_a_hub_that_stumbles(hub: HubStand) -> None:
    night = store(hub)
    night.open()
    hub.rules(
        {"call": "repo.commit", "times": 1, "action": {"status": 503}},
        {"call": "repo.commit", "times": 1, "action": {"drop": "before"}},
        {"call": "repo.commit", "times": 1, "action": {"status": 412}},
    )
    night.write({"status.json": b"{}"}, "one")
    assert night.read("status.json") == {}


def test_read__a_hub_that_is_away_is_not_an_empty_store(
    hub: HubStand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty store would let a run begin anew, and replace what was earned."""
    night = store(hub)
    night.open()
    night.write({"status.json": b"{}"}, "one")
    monkeypatch.setattr(_http.time, "sleep", lambda _: None)  # the client's own patience
    hub.rules(*({"call": f"repo.{name}", "action": {"status": 500}} for name in REPO_CALLS))
    with pytest.raises(NotStartedError, match="Cannot read the dataset demo/tbh-runs: 500"):
        night.read("status.json")
    with pytest.raises(NotStartedError, match="Cannot read"):
        night.download(tmp_path)


def test_write__refused_is_said_at_once(hub: HubStand) -> None:
    night = store(hub)
    night.open()
    hub.rules({"call": "repo.commit", "action": {"status": 403, "body": {"error": "read only"}}})
    with pytest.raises(NotStartedError, match="Cannot write the dataset demo/tbh-runs: 403"):
        night.write({"status.json": b"{}"}, "one")
    assert len(hub.calls("repo.commit")) == 1


@pytest.mark.parametrize("name", ["a/b", "..", "", "-x", "x" * 51, "naïve", "a b"])
def test_open_store__a_name_that_is_none(hub: HubStand, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name"):
        open_store(hub.api(), name, None)


def test_open_store__namespace_of_the_token(hub: HubStand) -> None:
    assert open_store(hub.api(), "night", None).repo == "demo/tbh-runs"
    with pytest.raises(NotStartedError, match="whose token this is: 401"):
        open_store(hub.api("hf_wrong"), "night", None)


# ------------------------------------------------------------------- jobs


def test_start__of_two_at_once_one_stays(hub: HubStand) -> None:
    first = start(hub)
    second = start(hub)
    assert second.job_id == first.job_id
    assert hub.alive() == [first.job_id]
    assert start(hub, "night-2").job_id != first.job_id


def test_start__lost_answer_starts_no_second_controller(hub: HubStand) -> None:
    hub.rules({"call": "jobs.create", "times": 1, "action": {"drop": "after"}})
    job = start(hub)
    assert hub.alive() == [job.job_id]
    assert job.kind == "controller"


def test_controllers__newest_first_and_only_of_this_run(hub: HubStand) -> None:
    first = start(hub)
    hf_job.cancel(hub.api(), first)
    second = start(hub)
    start(hub, "night-2")
    found = controller.controllers(hub.api(), "night", "demo")
    assert [job.job_id for job in found] == [second.job_id, first.job_id]
    assert [job.ended for job in found] == [False, True]


def test_stop_all__everything_of_this_run_and_nothing_else(hub: HubStand) -> None:
    mine, other = start(hub), start(hub, "night-2")
    state = run_state.new_state("night")
    server = server_of(hub, state.run_id)
    foreign = server_of(hub, run_state.new_state("night-2").run_id)
    stopped: list[str] = []
    left = controller.stop_all(
        hub.api(), "night", "demo", stopped=lambda job: stopped.append(job.job_id)
    )
    assert left == []
    assert stopped[0] == mine.job_id, "the controller first: it would start another server"
    assert server.job_id in stopped
    assert sorted(hub.alive()) == sorted([other.job_id, foreign.job_id])


def test_stop_all__says_what_it_could_not_stop(hub: HubStand) -> None:
    server = server_of(hub, run_state.new_state("night").run_id)
    hub.rules({"call": "jobs.cancel", "action": {"status": 500}})
    left = controller.stop_all(
        hub.api(), "night", "demo", stopped=lambda _: None, sleep=lambda _: None
    )
    assert [job.job_id for job in left] == [server.job_id]


def test_stop_leftovers__a_known_server_is_kept_for_adoption(hub: HubStand, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    state = run_state.new_state("night")
    known, unknown = server_of(hub, state.run_id), server_of(hub, state.run_id)
    foreign = server_of(hub, run_state.new_state("night").run_id)
    state.record(known)
    run_state.save(run_dir, state)
    stop_leftovers(hub.api(), run_dir, "demo")
    assert sorted(hub.alive()) == sorted([known.job_id, foreign.job_id])
    assert unknown.job_id not in hub.alive()


def server_of(hub: HubStand, run_id: str, **more: Any) -> hf_job.PaidJob:
    """A model server that is up, of the run with this id."""
    asked_for = spec(**more)
    job = hf_job.create_server(hub.api(), asked_for, hf_job.new_server(asked_for), run_id)
    wait_for(lambda: hf_job.inspect(hub.api(), job).stage == "RUNNING")
    return job
