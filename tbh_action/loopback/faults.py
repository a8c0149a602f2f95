"""Faults on demand: which call fails, how, how often, and at what concurrency.

A rule is a JSON object. All of its parts but `action` may be left out.

    {"name": "three bad execs",            shown in the call log
     "call": "sandbox.exec",               a name or glob, or a list of them; default "*"
     "match": {"task": "fix-*",            globs, or lists of globs; all must agree:
               "job": "6543*",             task, job (id), kind (server, sandbox), image, flavor,
               "label": {"tbh-run": "r1"}, labels of the job by name, path (of the request);
               "command": "apt-get",       a regular expression searched in an exec's command
               "attempt": 1},              n-th sandbox of its task (a number or a list)
     "per": "call",                        what is counted: "call" (all calls together), "job" or
                                           "task" (each one by itself)
     "from": 5, "times": 2,                the 5th and 6th matching call; default: from the first,
                                           without end
     "when": {"concurrency_at_least": 4,   sandboxes alive now, this one included
              "probability": 0.1,          seeded dice
              "by_concurrency": {"3": 0.03, "8": 0.7},   probability, linear between the points
              "after": 5, "until": 20},    seconds since the rule was set
     "action": {…}}

With `per` "job" or "task" the dice are thrown once for each, at its `from`-th matching call, and
decide for all of its `times` calls; with "call" each call throws its own.

Calls: `whoami`, `jobs.hardware`, `jobs.create`, `jobs.inspect`, `jobs.list`, `jobs.cancel`,
`jobs.labels`, `jobs.logs`; `sandbox.health`, `.exec`, `.processes`, `.read`, `.write`, `.list`,
`.stat`, `.delete`, `.mkdir`; `model.health`, `.models`, `.chat`, `.other`; and two that are no
requests but the moment when a job begins to run: `server.start`, `sandbox.start`. The first rule
that hits decides.

Actions, one key each (`delay` may stand beside another):

    {"status": 500}            answer so; with "retry_after": 2, "headers": {…}, "body": text or
                               object; with "after": true the call is carried out first (a job
                               that was created although the answer says 500)
    {"drop": "before"}         cut the connection: "before" anything is done, "after" it was done
                               without an answer, or in the "middle" of the answer
    {"delay": 3}               seconds, then go on
    {"hang": true}             never answer
    {"job": "die"}             end the job's process now (`exit_code`, default 1): its stage becomes
                               ERROR; with "message" and "logs": [lines] to be found on the Hub
    {"job": "timeout"}         the job's time is over now
                               (both at `server.start`, `sandbox.start`: once it runs, after
                               "delay" seconds; a "delay" alone there is time spent SCHEDULING)
    {"job": "stuck"}           at `server.start`, `sandbox.start`: stays SCHEDULING for ever
    {"job": "deaf"}            at the same: RUNNING, but nothing ever answers
    {"token": "revoke"}        from now on every token is refused
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Final, Literal, cast

from tbh_action.errors import SpecError

_ACTION_KEYS: Final = ("status", "drop", "hang", "job", "token", "delay")
_RULE_KEYS: Final = frozenset(("name", "call", "match", "per", "from", "times", "when", "action"))
_MATCH_KEYS: Final = frozenset(
    ("task", "job", "kind", "image", "flavor", "path", "label", "command", "attempt")
)
_CALLS: Final = re.compile(r"[a-z.*?\[\]-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request as rules see it. `concurrency` counts the sandboxes that are alive."""

    name: str
    path: str = ""
    task: str = ""
    job: str = ""
    kind: str = ""
    image: str = ""
    flavor: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    attempt: int = 0
    concurrency: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What to do to a call instead of, before or after answering it; see the module's docstring."""

    rule: str
    delay: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    after: bool = False
    drop: Literal["before", "after", "middle"] | None = None
    hang: bool = False
    job: Literal["die", "timeout", "stuck", "deaf"] | None = None
    exit_code: int = 1
    message: str | None = None
    logs: Sequence[str] = ()
    revoke: bool = False

    @property
    def label(self) -> str:
        """A few words for the call log."""
        parts = [f"{self.delay:g} s late"] if self.delay else []
        if self.status is not None:
            parts.append(f"{self.status}{' after the fact' if self.after else ''}")
        parts += [f"drop {self.drop}"] if self.drop else []
        parts += ["hang"] if self.hang else []
        parts += [f"job {self.job}"] if self.job else []
        parts += ["token revoked"] if self.revoke else []
        return f"{self.rule}: {', '.join(parts)}" if self.rule else ", ".join(parts)


def parse_action(document: Mapping[str, Any], rule: str) -> Action:
    """An action from its JSON.

    Raises:
        SpecError: no known action in it.
    """
    if not any(key in document for key in _ACTION_KEYS):
        raise SpecError(f"Fault rule {rule or '?'}: an action needs one of {_ACTION_KEYS}.")
    headers = {str(key): str(value) for key, value in document.get("headers", {}).items()}
    if "retry_after" in document:
        headers["Retry-After"] = str(document["retry_after"])
    status, drop, job = document.get("status"), document.get("drop"), document.get("job")
    if drop is True:
        drop = "before"
    if drop not in (None, "before", "after", "middle"):
        raise SpecError(f"Fault rule {rule or '?'}: drop is before, after or middle, not {drop!r}.")
    if job not in (None, "die", "timeout", "stuck", "deaf"):
        raise SpecError(f"Fault rule {rule or '?'}: unknown job action {job!r}.")
    return Action(
        rule=rule,
        delay=float(document.get("delay", 0)),
        status=int(status) if status is not None else None,
        headers=headers,
        body=document.get("body"),
        after=bool(document.get("after", False)),
        drop=cast('Literal["before", "after", "middle"] | None', drop),
        hang=bool(document.get("hang", False)),
        job=job,
        exit_code=int(document.get("exit_code", 1)),
        message=document.get("message"),
        logs=tuple(str(line) for line in document.get("logs", ())),
        revoke=document.get("token") == "revoke",
    )


class Rule:
    """One rule and its counters."""

    def __init__(self, document: Mapping[str, Any], *, at: float, seed: str) -> None:
        unknown = set(document) - {
            "name",
            "call",
            "match",
            "per",
            "from",
            "times",
            "when",
            "action",
        }
        if unknown or not isinstance(document.get("action"), Mapping):
            raise SpecError(
                f"A fault rule has an action and optionally name, call, match, per, from, times, "
                f"when; not {sorted(unknown) or 'this'}: {json.dumps(document)[:200]}."
            )
        self.document = dict(document)
        self.name = str(document.get("name", ""))
        calls = document.get("call", "*")
        self.calls: tuple[str, ...] = (calls,) if isinstance(calls, str) else tuple(calls)
        for call in self.calls:
            if not _CALLS.fullmatch(call):
                raise SpecError(f"Fault rule {self.name or '?'}: {call!r} is not a call's name.")
        self.match: Mapping[str, Any] = document.get("match", {})
        if wrong := set(self.match) - _MATCH_KEYS:
            raise SpecError(f"Fault rule {self.name or '?'}: can't match by {sorted(wrong)}.")
        self.when: Mapping[str, Any] = document.get("when", {})
        self.per = str(document.get("per", "call"))
        self.first = int(document.get("from", 1))
        times = document.get("times")
        self.last = None if times is None else self.first + int(times) - 1
        self.action = parse_action(document["action"], self.name)
        self.at = at
        self._seed = seed
        self._counts: Counter[str] = Counter()
        self._dice: dict[str, bool] = {}

    def hit(self, call: Call, *, now: float) -> bool:
        """Whether this rule decides about `call`; counts it when it matches."""
        if not self._matches(call) or not self._in_time(now):
            return False
        if call.concurrency < self.when.get("concurrency_at_least", 0):
            return False
        key = {"job": call.job, "task": call.task}.get(self.per, "")
        self._counts[key] += 1
        count = self._counts[key]
        if count < self.first or (self.last is not None and count > self.last):
            return False
        if self.per == "call":
            return self._throw(f"{count}", call)
        if key not in self._dice:
            self._dice[key] = self._throw(key, call)
        return self._dice[key]

    def _in_time(self, now: float) -> bool:
        since = now - self.at
        until = self.when.get("until")
        return since >= self.when.get("after", 0) and (until is None or since < until)

    def _throw(self, key: str, call: Call) -> bool:
        chance = float(self.when.get("probability", 1.0))
        if table := self.when.get("by_concurrency"):
            chance *= interpolate(table, call.concurrency)
        if chance >= 1:
            return True
        return random.Random(f"{self._seed}/{key}").random() < chance  # noqa: S311

    def _matches(self, call: Call) -> bool:
        return any(fnmatchcase(call.name, pattern) for pattern in self.calls) and all(
            fits(call, key, wanted) for key, wanted in self.match.items()
        )


def fits(call: Call, key: str, wanted: Any) -> bool:
    """Whether one part of a rule's `match` agrees with the call."""
    if key == "command":
        return re.search(wanted, call.command) is not None
    if key == "attempt":
        return call.attempt in (wanted if isinstance(wanted, list) else [wanted])
    if key == "label":
        return all(globbed(call.labels.get(name, ""), globs) for name, globs in wanted.items())
    return globbed(getattr(call, key), wanted)


def globbed(value: str, globs: str | Iterable[str]) -> bool:
    """Whether `value` fits the glob, or one of several."""
    patterns = (globs,) if isinstance(globs, str) else globs
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def interpolate(table: Mapping[str, float], at: float) -> float:
    """A probability between the table's points, linear; below the first point towards 0 at 0,
    above the last one constant."""
    points = sorted((float(key), float(value)) for key, value in table.items())
    if not points:
        return 0.0
    points.insert(0, (0.0, 0.0)) if points[0][0] > 0 else None
    if at >= points[-1][0]:
        return points[-1][1]
    for (left, low), (right, high) in pairwise(points):
        if left <= at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return points[0][1]


class Faults:
    """The rules in force. `decide` is all that the Hub asks."""

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed
        self._rules: list[Rule] = []

    def set(self, documents: Sequence[Mapping[str, Any]], *, now: float) -> None:
        """Replaces all rules; counters start anew.

        Raises:
            SpecError: a rule is not understood; then the old ones stay.
        """
        self._rules = self._parsed(documents, now, 0)

    def add(self, documents: Sequence[Mapping[str, Any]], *, now: float) -> None:
        """Adds rules behind those that are there."""
        self._rules += self._parsed(documents, now, len(self._rules))

    def decide(self, call: Call, *, now: float) -> Action | None:
        """The action of the first rule that hits. Later rules don't count a call that was hit."""
        for rule in self._rules:
            if rule.hit(call, now=now):
                return rule.action
        return None

    def to_json(self) -> list[dict[str, Any]]:
        """The rules as they were given."""
        return [rule.document for rule in self._rules]

    def _parsed(
        self, documents: Sequence[Mapping[str, Any]], now: float, offset: int
    ) -> list[Rule]:
        return [
            Rule(document, at=now, seed=f"{self._seed}/{number + offset}")
            for number, document in enumerate(documents)
        ]
