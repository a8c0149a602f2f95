"""The scripted model: what it says next, given a conversation.

It keeps no state. Each reply follows from the messages alone, by replaying a fixed play over them:
the play is found by the task's instruction, the place in it by what the terminal has shown since.
So a conversation may move to another server, or be repeated, and comes out the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tbh_action.loopback.tasks import instructions

# How often the model looks again at a terminal that does not show what it waits for.
_PATIENCE: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One reply: what is said, and the commands (`{name}` stands for what was read before).

    With `look`, a regular expression, the model goes on only when the terminal has shown it; its
    named groups are what was read. `think` is how many seconds the reply takes, at least.
    """

    say: str
    do: tuple[str, ...]
    look: str = ""
    think: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The model's next message, and how long it thinks before."""

    text: str
    think: float = 0.0
    task: str = ""
    turn: int = 0


PLAYS: Final[Mapping[str, tuple[Turn, ...]]] = {
    "hello-file": (
        Turn(
            say="I write the line and read it back.",
            do=("echo 'Hello, terminal!' > hello.txt", "cat hello.txt"),
            look=r"\nHello, terminal!",
        ),
    ),
    "fix-git": (
        Turn(
            say="A commit that no branch holds is still in the reflog.",
            do=("cd /app/site && git --no-pager reflog",),
            look=r"(?P<commit>[0-9a-f]{7}) \S*(?:\([^)]*\) )?HEAD@\{\d+\}: commit: Add the contact",
        ),
        Turn(
            say="The lost commit is {commit}. I merge it into main.",
            do=("git merge -q --no-edit {commit}", "git --no-pager log --oneline | cat; ls"),
            look=r"contact\.html",
        ),
    ),
    "count-errors": (
        Turn(
            say="I count the log's requests by status.",
            do=("cut -d' ' -f9 access.log | sort | uniq -c",),
            look=r"\n\s*(?P<count>\d+) 500\b",
        ),
        Turn(say="{count} requests got a 500.", do=("echo {count} > errors.txt",)),
    ),
    "csv-totals": (
        Turn(say="I look at the file.", do=("head -3 sales.csv",), look="region,product,amount"),
        # The header's line is summed as well, and nothing is sorted: wrong, and the model is sure.
        Turn(
            say="I add up the third column by the first one.",
            do=(
                r"""awk -F, '{{s[$1]+=$3}} END {{for (r in s) print r","s[r]}}' sales.csv >t.csv""",
                "mv t.csv totals.csv",
            ),
        ),
    ),
    "regex-dates": (
        Turn(
            say="A date is four digits, two digits, two digits.",
            do=(
                "echo '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}' > pattern.txt",
                "grep -c -E -f pattern.txt lines.txt",
            ),
            look=r"\n[0-9]+",
        ),
    ),
    "deep-thought": (Turn(say="Let me think.", do=("echo thinking",), think=600.0),),
    "private-image": (Turn(say="I create the file.", do=("touch /app/done",)),),
    "word-count": (
        Turn(say="I count the words.", do=("wc -w text.txt",), look=r"\n(?P<words>\d+) text\.txt"),
        Turn(say="There are {words}.", do=("echo {words} > words.txt",)),
    ),
    "sort-numbers": (
        Turn(
            say="sort can do both at once.",
            do=("sort -nu numbers.txt > sorted.txt", "cat sorted.txt"),
            look=r"\n100\b",
        ),
    ),
    "broken-mirror": (
        Turn(
            say="tac prints a file's lines in reverse.",
            do=("tac original.txt > mirror.txt", "cat mirror.txt"),
            look=r"three\s+two\s+one",
        ),
    ),
    "lfs-checksum": (
        Turn(
            say="I write the bytes once, then repeat them.",
            do=(
                'for b in $(seq 0 255); do printf "\\\\x$(printf %02x $b)"; done > one.bin',
                "for i in $(seq 16); do cat one.bin; done > pattern.bin",
                "sha256sum pattern.bin",
            ),
            look=r"\n(?P<sum>[0-9a-f]{64})\s+pattern\.bin",
        ),
        Turn(say="I note the checksum.", do=("echo {sum} > sum.txt",)),
    ),
}


def reply_to(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """The next message of the conversation."""
    texts = [(str(message.get("role")), text_of(message)) for message in messages]
    first = next((text for role, text in texts if role == "user"), "")
    if '"task_complete"' not in first:
        return Reply(text="ready")
    task = task_of(first)
    play = PLAYS.get(task) or _spelled_out(first)
    replies = [place for place, (role, _) in enumerate(texts) if role == "assistant"]
    seen = [_shown_after(texts, place) for place in replies]
    return _next(task, play, seen)


def _next(task: str, play: Sequence[Turn], seen: Sequence[str]) -> Reply:
    """The reply after the terminal has shown `seen`, one text for each reply so far."""
    read: dict[str, str] = {}
    place = waited = 0
    for shown in seen:
        if place >= len(play):
            break
        found = re.search(play[place].look, shown)
        if found:
            read |= found.groupdict()
            place, waited = place + 1, 0
        else:
            waited += 1
            if waited >= _PATIENCE:
                return Reply(text=_message("I don't get any further.", done=True), task=task)
    if place >= len(play):
        done = _message("The task is done.", done=True)
        return Reply(text=done, task=task, turn=len(seen))
    turn = play[place]
    if waited:
        wait = _message("Nothing to see yet; I wait.", commands=("",), seconds=0.25 * waited)
        return Reply(text=wait, task=task, turn=len(seen))
    commands = tuple(command.format_map(read) + "\n" for command in turn.do)
    text = _message(turn.say.format_map(read), commands=commands)
    return Reply(text=text, think=turn.think, task=task, turn=len(seen))


def task_of(text: str) -> str:
    """The demo task whose instruction stands in `text`, or an empty string."""
    for name, instruction in instructions().items():
        if instruction in text:
            return name
    return ""


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text, whether given as a string or in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def _shown_after(texts: Sequence[tuple[str, str]], place: int) -> str:
    return "\n".join(text for role, text in texts[place + 1 : place + 2] if role == "user")


def _spelled_out(first: str) -> tuple[Turn, ...]:
    """An instruction that holds its own commands in a block of shell is simply followed; for any
    other unknown task the model looks around and gives up."""
    block = re.search(r"```sh\n(.*?)\n```", first, re.DOTALL)
    if block is None:
        return (Turn(say="I look around.", do=("ls -la",)),)
    lines = tuple(line.replace("{", "{{").replace("}", "}}") for line in block[1].splitlines())
    ended = "play-is-over"
    return (
        Turn(
            say="I follow the instruction.",
            do=(*lines, f"echo {ended.replace('-', '-$()')}"),
            look=f"\n{ended}",
        ),
    )


def _message(
    say: str, *, commands: Sequence[str] = (), done: bool = False, seconds: float = 0.1
) -> str:
    return json.dumps(
        {
            "analysis": say,
            "plan": "Done." if done else "Run the commands, then look at the output.",
            "commands": [{"keystrokes": keys, "duration": seconds} for keys in commands],
            "task_complete": done,
        },
        indent=1,
    )
