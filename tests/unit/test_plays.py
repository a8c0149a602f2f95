from __future__ import annotations

import json
from typing import Any

import pytest

from tbh_action.loopback.plays import PLAYS, reply_to
from tbh_action.loopback.processes import model_command
from tbh_action.loopback.tasks import DEMO_TASKS, image_build, instructions, task_of_image

PROMPT = 'Respond with JSON, "task_complete" when done.\nTask Description:\n{}\nCurrent terminal:\n'


def talk(task: str, shown: list[str], instruction: str = "") -> list[dict[str, Any]]:
    """The model's replies when the terminal shows `shown` after each of them."""
    messages = [{"role": "user", "content": PROMPT.format(instruction or instructions()[task])}]
    replies = []
    for text in [*shown, ""]:
        reply = reply_to(messages).text
        replies.append(json.loads(reply))
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": text}]
    return replies


def keys(reply: dict[str, Any]) -> str:
    return "".join(command["keystrokes"] for command in reply["commands"])


def test_plays__one_for_each_demo_task() -> None:
    assert set(PLAYS) == {folder.name for folder in DEMO_TASKS.iterdir() if folder.is_dir()}


def test_reply_to__a_health_probe_is_answered() -> None:
    assert reply_to([{"role": "user", "content": "Say ready."}]).text == "ready"


def test_reply_to__what_was_read_is_used() -> None:
    reflog = "New Terminal Output:\nab12cd3 HEAD@{1}: commit: Add the contact page\n"
    first, second, third = talk("fix-git", [reflog, "contact.html  index.html"])
    assert "reflog" in keys(first)
    assert "git merge -q --no-edit ab12cd3" in keys(second)
    assert third["task_complete"] is True


def test_reply_to__waits_for_output_that_is_not_there_yet_then_gives_up() -> None:
    replies = talk("count-errors", ["$ cut ..."] * 14)
    assert keys(replies[1]) == ""
    assert replies[1]["task_complete"] is False
    assert replies[-1]["task_complete"] is True
    late = talk("count-errors", ["", "", "\n     37 500\n"])
    assert keys(late[3]) == "echo 37 > errors.txt\n"


def test_reply_to__completion_is_confirmed() -> None:
    replies = talk("hello-file", ["\nHello, terminal!", "Are you sure?"])
    assert [reply["task_complete"] for reply in replies] == [False, True, True]


def test_reply_to__an_instruction_with_its_commands_is_followed() -> None:
    text = "Do this:\n\n```sh\necho ${x} > /app/a\n```\n"
    first, second = talk("", ["\nplay-is-over\n"], text)
    assert keys(first).startswith("echo ${x} > /app/a\n")
    assert second["task_complete"] is True


def test_reply_to__parts_of_text_count_as_text() -> None:
    content = [{"type": "text", "text": PROMPT.format(instructions()["word-count"])}]
    assert "wc -w" in reply_to([{"role": "user", "content": content}]).text


@pytest.mark.parametrize(
    ("image", "task"),
    [
        ("ghcr.io/tbh-demo/fix-git:1", "fix-git"),
        ("python:3.12", "python"),
        ("ghcr.io/x/y@sha256:abc", "y"),
    ],
)
def test_task_of_image__is_the_last_part(image: str, task: str) -> None:
    assert task_of_image(image) == task


def test_image_build__only_demo_images_have_contents() -> None:
    assert "git init" in (image_build("ghcr.io/tbh-demo/fix-git:1") or "")
    assert image_build("ghcr.io/other/fix-git:1") is None
    assert image_build("ghcr.io/tbh-demo/hello-file:1") is None


@pytest.mark.parametrize(
    ("command", "model"),
    [
        (["demo-model-server", "--model", "a/b", "--port", "30000"], "a/b"),
        (["sglang", "serve", "--model-path", "a/b", "--port", "30000"], "a/b"),
        (["sglang", "serve", "--model-path=a/b", "--served-model-name", "c"], "c"),
        (["vllm", "serve", "a/b", "--max-model-len", "100"], "a/b"),
        (["python3", "-m", "sglang.launch_server", "--model-path", "a/b"], "a/b"),
        (["python", "-c", "print(1)"], None),
    ],
)
def test_model_command__knows_model_servers(command: list[str], model: str | None) -> None:
    from pathlib import Path

    made = model_command(command, Path("/s"), loading=1, thinking=0)
    assert (made[made.index("--model") + 1] if made else None) == model
