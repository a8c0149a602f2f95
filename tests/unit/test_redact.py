from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.errors import SpecError
from tbh_action.redact import Redactor, find_clear_keys, is_secret_name

SECRET = "s3cr3t/value+with%chars"
# Assembled here, so that no scanner takes this file for a leak.
SHAPES = [
    "hf_" + "A1b2C3d4" * 5,
    "gh" + "p_" + "A1b2C3d4" * 5,
    "gh" + "s_" + "A1b2C3d4" * 5,
    "github_" + "pat_11ABCDEFG0" + "a1B2" * 15,
    "sk-" + "proj-A1b2C3d4E5f6A1b2C3d4E5f6",
    "AKI" + "AIOSFODNN7EXAMPLE",
    "xox" + "b-123456789012-abcdefghij",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + ".c2lnbmF0dXJlX2hlcmU",
]


def redactor(*values: str) -> Redactor:
    return Redactor.from_environment(values, environ={})


@pytest.mark.parametrize("shape", SHAPES, ids=[shape[:6] for shape in SHAPES])
def test_text__known_shapes(shape: str) -> None:
    assert redactor().text(f'before "{shape}", after') == 'before "***", after'
    assert redactor().text(shape) == "***"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("401 for Bearer abcDEF123456", "401 for Bearer ***"),
        ('{"Authorization": "bearer abcdef1234567890"}', '{"Authorization": "bearer ***"}'),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nxyz=\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_text__the_kind_stays_visible(text: str, clean: str) -> None:
    assert redactor().text(text) == clean
    assert redactor().text(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "task-with-a-very-long-name-in-the-benchmark-2",
        "the bearer of this message is responsible",
        "sk-learn-is-a-very-long-package-name",
        "hf_hub_download failed",
        "normal text",
        "",
        "\ud800 lone",
    ],
)
def test_text__words_stay(text: str) -> None:
    assert redactor().text(text) == text


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_text__exact_value_in_other_writing(form: str) -> None:
    shown = redactor(SECRET).text(f"x {form} y")
    assert shown.startswith("x ***")
    assert form not in shown


@given(
    st.text(max_size=7),
    st.text(alphabet=st.characters(codec="utf-8"), min_size=12, max_size=40).filter(
        lambda text: len(text.strip()) > 11 and len(text.splitlines()) == 1
    ),
)
def test_text__base64_at_any_alignment(user: str, secret: str) -> None:
    secret = secret.strip()
    encoded = base64.b64encode(f"{user}:{secret}".encode("utf-8", "replace"))
    shown = redactor(secret).text(encoded.decode())
    assert "***" in shown
    rest = shown.split("***")
    assert (
        max(len(part) for part in rest) <= (len(user.encode("utf-8", "replace")) + 1) * 4 // 3 + 4
    )


def test_from_environment__by_name() -> None:
    environ = {
        "HF_TOKEN": "token-of-the-hub",
        "OPENAI_API_KEY": "key-of-openai",
        "GITHUB_TOKEN": "token-of-github",
        "HF_HOME": "/root/.cache/huggingface",
        "HF_TOKEN_PATH": "/root/.cache/token",
        "MAX_TOKENS": "123456789",
        "MY_PASSWORD": "short",
        "PATH": "/usr/bin:/bin/long",
    }
    net = Redactor.from_environment(environ=environ)
    text = " ".join(environ.values())
    assert net.text(text) == (
        "*** *** *** /root/.cache/huggingface /root/.cache/token 123456789 short /usr/bin:/bin/long"
    )
    assert "token-of-the-hub" not in repr(net)


def test_from_environment__lines_of_a_secret() -> None:
    net = redactor("first-line-secret\nsecond-line-secret\n")
    assert net.text("a second-line-secret b") == "a *** b"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("api_key", True),
        ("apiKey", True),
        ("Authorization", True),
        ("x-api-key", True),
        ("SOME_KEY", True),
        ("key", False),
        ("max_tokens", False),
        ("n_input_tokens", False),
        ("token_path", False),
        ("tokenizer", False),
    ],
)
def test_is_secret_name__cases(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_document__strings_and_keys() -> None:
    net = redactor(SECRET)
    assert net.document({SECRET: [SECRET, 1, None, {"a": f"x{SECRET}"}]}) == {
        "***": ["***", 1, None, {"a": "x***"}]
    }


def test_find_clear_keys__places() -> None:
    config = {
        "agents": [
            {
                "env": {
                    "OPENAI_API_KEY": "clear-value-here",
                    "HF_TOKEN": "${HF_TOKEN}",
                    "OTHER_TOKEN": "sk-p****xyz",
                    "HEADER_AUTH": "Bearer ${TOKEN:-}",
                },
                "kwargs": {"api_base": "http://127.0.0.1:1/v1", "note": SHAPES[0], "api_key": ""},
            }
        ],
        "n_attempts": 1,
    }
    assert find_clear_keys(config) == ["agents.0.env.OPENAI_API_KEY", "agents.0.kwargs.note"]
    assert find_clear_keys({"plain": "the-exact-one"}, redactor("the-exact-one")) == ["plain"]
    assert find_clear_keys({"plain": "the-exact-one"}) == []


def test_tree__copies_clean(tmp_path: Path) -> None:
    src = tmp_path / "src"
    (src / "deep" / SHAPES[0]).mkdir(parents=True)
    (src / "a.log").write_text(f"one {SECRET} two {SECRET}\n", encoding="utf-8")
    (src / "deep" / SHAPES[0] / "b.txt").write_text("clean", encoding="utf-8")
    (src / "binary").write_bytes(b"\0\1" + SECRET.encode() + b"\2")
    (src / "packed.log").write_bytes(gzip.compress(SECRET.encode()))
    (src / "link").symlink_to("/etc/passwd")
    os.mkfifo(src / "pipe")
    report = redactor(SECRET).tree(src, tmp_path / "dst")
    assert (tmp_path / "dst/a.log").read_text(encoding="utf-8") == "one *** two ***\n"
    assert (tmp_path / "dst/deep/***/b.txt").read_text(encoding="utf-8") == "clean"
    assert (tmp_path / "dst/binary").read_bytes() == b"\0\1" + b"*" * len(SECRET) + b"\2"
    assert report.files == 3
    assert report.redacted == {"a.log": 2, "binary": 1}
    assert set(report.left_out) == {"packed.log", "link", "pipe"}


@pytest.mark.parametrize("shift", [0, 1, 7, 20, 36, 4096, 8191, 8192])
@pytest.mark.parametrize("line_end", [b"", b"\n"])
def test_tree__secret_across_a_chunk(tmp_path: Path, shift: int, line_end: bytes) -> None:
    (tmp_path / "src").mkdir()
    before = (b"x" * 99 + (line_end or b"-")) * 10_486
    data = before[: (1 << 20) - shift - 1] + b"-" + SHAPES[0].encode() + b"-" + before
    (tmp_path / "src/log").write_bytes(data)
    redactor().tree(tmp_path / "src", tmp_path / "dst")
    assert (tmp_path / "dst/log").read_bytes() == data.replace(SHAPES[0].encode(), b"***")


def test_tree__a_huge_file_keeps_both_ends(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    lines = [f"line {number} {SECRET if number % 7 == 0 else ''}" for number in range(20_000)]
    (tmp_path / "src/log").write_text("\n".join(lines), encoding="utf-8")
    redactor(SECRET).tree(tmp_path / "src", tmp_path / "dst", max_file_bytes=50_000)
    text = (tmp_path / "dst/log").read_text(encoding="utf-8")
    assert len(text) <= 50_100
    assert text.startswith("line 0 ***\n")
    assert text.endswith("line 19999 ***")
    assert "bytes left out" in text
    assert SECRET[:5] not in text


def test_tree__a_copy_inside_the_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lies inside"):
        redactor().tree(tmp_path, tmp_path / "inside")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "src").mkdir()
    with pytest.raises(SpecError, match="not empty"):
        redactor().tree(tmp_path / "src", tmp_path / "full")
