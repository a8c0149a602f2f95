from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.github.marker import Marker, digest, marker, parse, strip

SHA = "0123456789abcdef0123456789abcdef01234567"


def test_marker__is_one_html_comment_with_all_its_values() -> None:
    assert marker("k", 12, SHA, attempt=2, state="in-progress") == (
        f"<!-- tbh-action key={digest('k')} run=12 attempt=2 sha={SHA} state=in-progress -->"
    )


@given(st.text(), st.integers(0, 10**12), st.text())
def test_marker__any_key_and_sha_is_read_back_whole(key: str, run: int, sha: str) -> None:
    text = marker(key, run, sha)
    found = parse(text + "\nbody --> more")
    assert found is not None
    assert (found.key, found.run_number, str(found)) == (digest(key), run, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        f"> {marker('k', 1, SHA)}",
        f"look:\n{marker('k', 1, SHA)}",
        marker("k", 1, SHA).replace("run=1", "run=-1"),
        marker("k", 1, SHA).replace("done", "gone"),
    ],
)
def test_parse__a_quoted_or_broken_marker_is_none(text: str) -> None:
    assert parse(text) is None


def test_strip__takes_every_marker_out() -> None:
    assert strip(f"{marker('k', 1, SHA)}\nbody {marker('j', 2, '')}end") == "body end"


def test_version__orders_runs_then_attempts() -> None:
    versions = [Marker(key="0" * 16, run_number=r, attempt=a).version for r, a in ((2, 1), (1, 9))]
    assert versions[0] > versions[1]
