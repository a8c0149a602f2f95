"""Comments against GitHub's API on loopback, through the real client."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tbh_action.github.api import GitHubApi, GitHubError
from tbh_action.github.comments import Thread, author, compose
from tbh_action.github.marker import Marker, digest
from tbh_action.loopback.github import Fault, LoopbackGitHub, User

BOT = "github-actions[bot]"
KEY = digest("CI\nbench\n\n")


@pytest.fixture
def hub() -> Iterator[LoopbackGitHub]:
    tokens = {
        "token": User(login=BOT),
        "reader": User(login=BOT, write=False),
        "human": User(login="octocat"),
    }
    with LoopbackGitHub(tokens) as server:
        yield server


def thread(hub: LoopbackGitHub, token: str = "token", sleeps: list[float] | None = None) -> Thread:
    slept = sleeps if sleeps is not None else []
    api = GitHubApi(token, url=hub.url, sleep=slept.append)
    return Thread(api=api, repository="octo/repo", number=5, author=author(api))


def mark(run: int, attempt: int = 1) -> Marker:
    return Marker(key=KEY, run_number=run, attempt=attempt, sha="abcdef0")


def write(target: Thread, run: int, text: str, attempt: int = 1) -> str:
    marker = mark(run, attempt)
    return target.upsert(marker, compose(marker, text)).action


def test_author__is_the_tokens_login_for_bots_and_people(hub: LoopbackGitHub) -> None:
    assert [author(thread(hub, token).api) for token in ("token", "human")] == [BOT, "octocat"]


def test_upsert__creates_then_updates_in_place_then_leaves_alone(hub: LoopbackGitHub) -> None:
    actions = [write(thread(hub), 1, "one"), write(thread(hub), 2, "two")]
    calls = len(hub.calls)
    actions.append(write(thread(hub), 2, "two"))
    assert actions == ["created", "updated", "unchanged"]
    assert [method for method, path in hub.calls[calls:] if "graphql" not in path] == ["GET"]
    assert hub.bodies(5) == [compose(mark(2), "two")]


def test_upsert__finds_ours_on_page_2_behind_a_look_alike(hub: LoopbackGitHub) -> None:
    fake = hub.add_comment(5, compose(mark(99), "evil"), login="mallory")
    for number in range(100):
        hub.add_comment(5, f"comment {number}", login="octocat")
    ours = hub.add_comment(5, compose(mark(1), "old"), login=BOT)
    other = hub.add_comment(5, compose(Marker(key=digest("B"), run_number=9), "b"), login=BOT)
    assert write(thread(hub), 2, "new") == "updated"
    assert len(hub.comments) == 103
    assert ours["body"] == compose(mark(2), "new")
    assert "evil" in fake["body"]
    assert "b\n" in other["body"]


def test_upsert__a_stale_run_does_not_overwrite(hub: LoopbackGitHub) -> None:
    write(thread(hub), 5, "newer", attempt=2)
    assert write(thread(hub), 4, "older", attempt=3) == "stale"
    assert write(thread(hub), 5, "older attempt", attempt=1) == "stale"
    assert hub.bodies(5) == [compose(mark(5, 2), "newer")]


def test_upsert__two_writers_at_once_leave_one_comment_with_the_newer_text(
    hub: LoopbackGitHub,
) -> None:
    barrier = threading.Barrier(6)

    def writer(run: int) -> None:
        target = thread(hub)
        barrier.wait()
        write(target, run, f"run {run}")

    writers = [threading.Thread(target=writer, args=(run,)) for run in (1, 1, 2, 3, 3, 4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert hub.bodies(5) == [compose(mark(4), "run 4")]


def test_upsert__an_answer_that_was_lost_leaves_no_second_comment(hub: LoopbackGitHub) -> None:
    hub.faults.append(Fault(method="POST", path="/comments", status=502, after=True))
    sleeps: list[float] = []
    write(thread(hub, sleeps=sleeps), 1, "text")
    assert sleeps == [1]
    assert hub.bodies(5) == [compose(mark(1), "text")]


def test_upsert__waits_for_a_secondary_limit(hub: LoopbackGitHub) -> None:
    message = "You have exceeded a secondary rate limit."
    hub.faults.append(Fault(method="POST", path="/comments", status=403, message=message))
    hub.faults.append(Fault(path="/comments", status=429, headers={"Retry-After": "9"}))
    sleeps: list[float] = []
    assert write(thread(hub, sleeps=sleeps), 1, "text") == "created"
    assert sleeps == [9, 60]


def test_upsert__a_token_that_can_only_read_says_what_to_give(hub: LoopbackGitHub) -> None:
    with pytest.raises(GitHubError, match="pull-requests: write"):
        write(thread(hub, "reader"), 1, "text")
    assert hub.bodies(5) == []


@pytest.mark.parametrize("first", ["create", "update"])
@pytest.mark.parametrize(("extra", "fits"), [(-1, True), (0, True), (1, False)])
def test_upsert__the_limit_is_the_same_on_create_and_on_update(
    hub: LoopbackGitHub, first: str, extra: int, fits: bool
) -> None:
    if first == "update":
        write(thread(hub), 1, "short")
    marker = mark(2)
    body = compose(marker, "x" * (65_536 + extra - len(compose(marker, "x")) + 1))
    assert len(body) == 65_536 + extra
    if fits:
        assert thread(hub).upsert(marker, body).action == f"{first}d"
    else:
        with pytest.raises(GitHubError, match="too long") as caught:
            thread(hub).upsert(marker, body)
        assert caught.value.status == 422


def test_upsert__survives_that_its_comment_is_deleted_between_reading_and_writing(
    hub: LoopbackGitHub,
) -> None:
    write(thread(hub), 1, "old")
    hub.faults.append(Fault(method="PATCH", status=404, message="Not Found"))
    hub.comments.clear()
    hub.add_comment(5, compose(mark(1), "old"), login=BOT)
    assert write(thread(hub), 2, "new") == "updated"
    assert hub.bodies(5) == [compose(mark(2), "new")]


def test_minimise_and_delete__act_on_ours_only(hub: LoopbackGitHub) -> None:
    hub.add_comment(5, compose(mark(1), "look-alike"), login="mallory")
    write(thread(hub), 1, "ours")
    target = thread(hub)
    (comment,) = target.ours(KEY)
    target.minimise(comment)
    assert hub.minimized == {comment.node_id}
    target.delete(comment)
    target.delete(comment)
    assert len(hub.comments) == 1


def test_compose__a_notice_goes_away_and_the_result_stays() -> None:
    result = compose(mark(1), "the result")
    running = compose(mark(2), result, notice="> [!NOTE]\n> A new run is on its way.")
    assert "the result" in running
    assert running.startswith(str(mark(2)))
    assert compose(mark(1), running) == result
