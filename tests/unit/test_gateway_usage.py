"""Tokens are read from answers as they are, and cached ones are never added twice."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.gateway.stats import StatsBook
from tbh_action.gateway.usage import StreamUsage, Usage, usage_in, usage_in_json

CHAT = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"usage": CHAT}, Usage(input=100, cached=60, output=20)),
        (
            {"usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None}},
            Usage(input=5, cached=0, output=1),
        ),
        (
            {
                "usage": {
                    "input_tokens": 9,
                    "output_tokens": 2,
                    "input_tokens_details": {"cached_tokens": 4},
                }
            },
            Usage(input=9, cached=4, output=2),
        ),
        (
            {"type": "response.completed", "response": {"usage": {"input_tokens": 9}}},
            Usage(input=9, cached=0, output=0),
        ),
        ({"usage": None}, None),
        ({"usage": {}}, None),
        ({"usage": {"prompt_tokens": "many"}}, None),
        ({"usage": {"prompt_tokens": True}}, None),
        ({"usage": {"prompt_tokens": -1}}, None),
        ({"choices": []}, None),
        (["usage"], None),
        # More cached than there were: a server's mistake must not make the uncached part negative.
        (
            {"usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}},
            Usage(input=5, cached=5, output=0),
        ),
    ],
)
def test_usage_in(document: Any, expected: Usage | None) -> None:
    assert usage_in(document) == expected


@pytest.mark.parametrize(
    "body", [b"", b"not json", b'{"usage": ', b"[DONE]", b'{"usage":' + b"[" * 99_999]
)
def test_usage_in_json__no_json(body: bytes) -> None:
    assert usage_in_json(body) is None


def events(*documents: Any) -> bytes:
    lines = [f"data: {json.dumps(document)}\n\n" for document in documents]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


STREAM = events({"choices": [{"delta": {"content": "é usage"}}]}, {"choices": [], "usage": CHAT})


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_stream_usage__cut_anywhere(cuts: list[int]) -> None:
    reader = StreamUsage()
    places = [0, *sorted(cuts), len(STREAM)]
    for start, end in itertools.pairwise(places):
        reader.feed(STREAM[start:end])
    assert reader.usage == Usage(input=100, cached=60, output=20)


def test_stream_usage__running_totals_are_not_added() -> None:
    reader = StreamUsage()
    reader.feed(events(*({"usage": {**CHAT, "completion_tokens": n}} for n in (1, 2, 20))))
    assert reader.usage == Usage(input=100, cached=60, output=20)


def test_stream_usage__an_endless_line_takes_no_memory() -> None:
    reader = StreamUsage()
    for _ in range(64):
        reader.feed(b"data: " + b"x" * (1 << 16))
    assert len(reader._rest) <= 2 << 20
    reader.feed(b"\n" + events({"usage": CHAT}))
    assert reader.usage is not None


def test_stats_book__sums_per_trial() -> None:
    book = StatsBook()
    usage = Usage(input=100, cached=60, output=20)
    for seconds, failed in ((2.0, False), (5.0, True)):
        book.add(
            "a",
            seconds=seconds,
            lost=1.0,
            retries=2,
            failed=failed,
            usage=None if failed else usage,
        )
    stats = book.trials["a"]
    assert (stats.calls, stats.known, stats.failed, stats.retries) == (2, 1, 1, 4)
    assert (stats.input, stats.cached, stats.output) == (100, 60, 20)
    assert (stats.seconds, stats.slowest_seconds, stats.lost_seconds) == (7.0, 5.0, 2.0)


def test_stats_book__invented_trials_take_no_memory() -> None:
    book = StatsBook()
    for number in range(30_000):
        book.add(f"t{number}", seconds=0, lost=0, retries=0, failed=False, usage=None)
    assert len(book.trials) <= 20_001
    assert sum(stats.calls for stats in book.trials.values()) == 30_000
