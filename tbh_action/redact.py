"""Secrets out of everything that leaves the run directory.

Two nets: the exact values of the secrets that this process knows (in clear, in base64, as a URL
and as JSON write them), and the shapes of well-known tokens that it does not know. Files are
streamed, so a log of any size costs a constant amount of memory.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, quote_plus

from tbh_action.errors import SpecError

MASK: Final = "***"
# Shorter values are words, not secrets: hiding each "true" or "demo" would destroy the text.
MIN_SECRET: Final = 8
_CHUNK: Final = 1 << 20
# No pattern below matches more than this, so a match never outgrows what is held back of a chunk.
_LONGEST: Final = 8192

_SECRET_NAME: Final = re.compile(
    r"(?i:(?:^|_)(?:token|secret|password|passwd|credentials?|auth|authorization)(?:_|$)"
    r"|(?:api|access|private|secret|auth|signing|account|master)_?key$)"
    r"|[A-Z0-9]_KEY$"
)
_NO_SECRET_NAME: Final = re.compile(
    r"(?i)(path|file|dir|url|host|name|endpoint|home|sock|type|method)$"
)

# Each pattern starts with literal bytes: `re` then searches at the speed of memory.
_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rb"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{20,4000}",
        rb"hf_oauth_[A-Za-z0-9_.-]{20,2000}",
        rb"api_org_[A-Za-z0-9]{20,4000}",
        rb"gh(?<![A-Za-z0-9]gh)[pousr]_[A-Za-z0-9]{20,4000}",
        rb"github_pat_[A-Za-z0-9_]{20,4000}",
        rb"sk-(?<![A-Za-z0-9_]sk-)(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{20,4000}",
        rb"AKIA(?<![A-Z0-9]AKIA)[A-Z0-9]{16}(?![A-Z0-9])",
        rb"ASIA(?<![A-Z0-9]ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
        rb"aws_secret_access_key[\"']?\s{0,9}[=:]\s{0,9}[\"']?[A-Za-z0-9/+]{40}",
        rb"xox[abprs]-[A-Za-z0-9-]{10,4000}",
        rb"glpat-[A-Za-z0-9_-]{20,4000}",
        rb"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{35}",
        rb"Bearer +(?!\*\*\*)[A-Za-z0-9._~+/=-]{8,4000}",
        rb"bearer +(?!\*\*\*)(?=[A-Za-z._~+/=-]{0,200}\d)[A-Za-z0-9._~+/=-]{16,4000}",
        rb"Authorization: *Basic +[A-Za-z0-9+/=]{8,4000}",
        rb"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,2000}",
        rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8000}",
    )
)
# What of a match is shape and not secret stays, so that a reader sees what was there.
_KEPT: Final = re.compile(
    rb"^(Bearer +|bearer +|Authorization: *Basic +|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    rb"|aws_secret_access_key[\"']?\s*[=:]\s*[\"']?)"
)
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


@dataclass(slots=True)
class TreeReport:
    """What `Redactor.tree` did. Paths are relative to the source, `/` between their parts."""

    files: int = 0
    redacted: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secrets by `***`. Never printed: its `repr` holds nothing."""

    needles: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def from_environment(
        cls, extra: Iterable[str] = (), *, environ: Mapping[str, str] | None = None
    ) -> Redactor:
        """Knows each variable whose name says secret (HF_TOKEN, OPENAI_API_KEY, …), and `extra`."""
        variables = os.environ if environ is None else environ
        values = {value for name, value in variables.items() if is_secret_name(name)}
        forms = {form for value in (*values, *extra) for form in _forms(value)}
        return cls(tuple(sorted(forms, key=lambda form: (-len(form), form))))

    def text(self, text: str) -> str:
        """`text` without secrets."""
        data = text.encode("utf-8", errors="surrogatepass")
        spans = self._spans(data)
        if not spans:
            return text
        return _replace(data, spans, same_length=False).decode("utf-8", errors="surrogatepass")

    def document(self, value: Any) -> Any:
        """A JSON value with `text` applied to each string in it, keys included."""
        # One search over all strings: most documents hold no secret and are returned as they are.
        joined = "\0".join(map(str, _distinct_strings(value)))
        data = joined.encode("utf-8", errors="surrogatepass")
        return self._walk(value) if self._spans(data) else value

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(item) for item in value]
        return value

    def tree(self, src: Path, dst: Path, *, max_file_bytes: int = 64 << 20) -> TreeReport:
        """Copies the files below `src` to `dst` without secrets, names included.

        Links, special files and compressed files (whose inside cannot be checked) are left out; of
        a file above `max_file_bytes` the first and the last half of that are kept.

        Raises:
            SpecError: `dst` lies inside `src` or is not empty.
        """
        source, target = src.resolve(), dst.resolve()
        if target.is_relative_to(source):
            raise SpecError(f"{dst} lies inside {src}; choose another place for the clean copy.")
        if target.exists() and any(target.iterdir()):
            raise SpecError(f"{dst} is not empty; choose an empty directory for the clean copy.")
        target.mkdir(parents=True, exist_ok=True)
        report = TreeReport()
        for path in sorted(source.rglob("*")):
            name = self.text(path.relative_to(source).as_posix())
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            reason = _unfit(path, mode)
            if reason:
                report.left_out[name] = reason
                continue
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            report.files += 1
            if count := self._copy(path, target / name, max_file_bytes):
                report.redacted[name] = count
        return report

    def _copy(self, src: Path, dst: Path, limit: int) -> int:
        count = 0
        with src.open("rb") as reader, dst.open("wb") as writer:
            binary = b"\0" in reader.read(_LONGEST)
            reader.seek(0)
            carry = b""
            for chunk, last in _chunks(reader, limit):
                data = carry + chunk
                spans = self._spans(data)
                cut = len(data) if last else _cut(spans, max(0, len(data) - _LONGEST))
                done = [span for span in spans if span[1] <= cut]
                count += len(done)
                writer.write(_replace(data[:cut], done, same_length=binary))
                carry = data[cut:]
        return count

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets are: sorted, not overlapping."""
        found: list[tuple[int, int]] = []
        for needle in self.needles:
            at = data.find(needle)
            while at >= 0:
                found.append((at, at + len(needle)))
                at = data.find(needle, at + len(needle))
        for shape in _SHAPES:
            for match in shape.finditer(data):
                kept = _KEPT.match(match[0])
                found.append((match.start() + (kept.end() if kept else 0), match.end()))
        return _merge(found)


def is_secret_name(name: str) -> bool:
    """Whether a variable's or a key's name says that its value is a secret."""
    flat = name.replace("-", "_")
    return bool(_SECRET_NAME.search(flat)) and not _NO_SECRET_NAME.search(flat)


def find_clear_keys(config: Any, redactor: Redactor | None = None) -> list[str]:
    """The places (`agents.0.env.OPENAI_API_KEY`) of a config that hold a secret in clear.

    A reference (`${OPENAI_API_KEY}`) and what Harbor masked (`sk-p****xyz`) are not clear. A file
    with such a place is refused for upload: its owner must learn of it, and rotate the key.
    """
    net = redactor or Redactor()
    return [place for place, name, text in _strings(config) if _is_clear(name, text, net)]


def _is_clear(name: str, text: str, net: Redactor) -> bool:
    if not text or MASK in text or re.fullmatch(r"\s*(\w+\s+)?\$\{[^}]*\}\s*", text):
        return False
    return (is_secret_name(name) and len(text) >= MIN_SECRET) or net.text(text) != text


def _strings(value: Any, place: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """Each string of a JSON value: its place, the nearest key's name, itself."""
    if isinstance(value, str):
        yield place, name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, f"{place}.{key}" if place else str(key), str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _strings(item, f"{place}.{index}" if place else str(index), name)


def _distinct_strings(value: Any) -> set[Any]:
    """The strings of a JSON value, and the keys. A loop: generators in generators cost more."""
    found: set[Any] = set()
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            found.add(item)
        elif item is None or isinstance(item, (int, float)):
            continue  # first, since the question whether it is a Mapping is a slow one
        elif isinstance(item, Mapping):
            found.update(item)
            rest.extend(item.values())
        elif isinstance(item, (list, tuple)):
            rest.extend(item)
    return found


def _forms(value: str) -> Iterator[bytes]:
    """The ways in which a secret may be written. A secret of several lines counts line by line."""
    for part in {value.strip(), *(line.strip() for line in value.splitlines())}:
        if len(part) < MIN_SECRET:
            continue
        raw = part.encode("utf-8", errors="surrogateescape")
        yield raw
        for text in (quote(part, safe="", errors="replace"), quote_plus(part, errors="replace")):
            yield text.encode("ascii")
        yield json.dumps(part)[1:-1].encode("ascii")
        for encoded in _base64_forms(raw):
            yield encoded
            yield encoded.translate(bytes.maketrans(b"+/", b"-_"))


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """What base64 makes of `raw` inside a longer text: one form for each of three alignments,
    without the characters at both ends that depend on what stands beside it."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        start = -(-offset * 8 // 6)
        end = (offset + len(raw)) * 8 // 6
        if end - start >= MIN_SECRET:
            yield encoded[start:end]


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _replace(data: bytes, spans: list[tuple[int, int]], *, same_length: bool) -> bytes:
    """`same_length` keeps offsets of a binary file true."""
    parts: list[bytes] = []
    at = 0
    for start, end in spans:
        parts += [data[at:start], b"*" * (end - start) if same_length else MASK.encode()]
        at = end
    return b"".join([*parts, data[at:]])


def _cut(spans: list[tuple[int, int]], cut: int) -> int:
    """`cut`, moved to the start of a secret that lies across it."""
    for start, end in spans:
        if start < cut < end:
            return start
    return cut


def _chunks(reader: IO[bytes], limit: int) -> Iterator[tuple[bytes, bool]]:
    """The file in pieces, each with whether it is the last; the middle of a huge file left out.

    Beside the gap only whole lines are kept: half a secret would not be seen as one.
    """
    size = os.fstat(reader.fileno()).st_size
    if size <= limit:
        yield from ((data, False) for data, _ in _read(reader, size))
    else:
        half = limit // 2
        for data, last in _read(reader, half):
            yield (data[: data.rfind(b"\n") + 1] if last else data), False
        reader.seek(size - half)
        rest = half - len(reader.readline(half))
        yield f"[… {size - half - rest} bytes left out …]\n".encode(), False
        yield from ((data, False) for data, _ in _read(reader, rest))
    yield b"", True


def _read(reader: IO[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """The next `size` bytes in pieces, each with whether it is the last of them."""
    while size > 0 and (data := reader.read(min(_CHUNK, size))):
        size -= len(data)
        yield data, size <= 0


def _unfit(path: Path, mode: int) -> str | None:
    """Why a file cannot be copied clean."""
    if stat.S_ISLNK(mode):
        return "symbolic link"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    try:
        with path.open("rb") as file:
            head = file.read(6)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    kind = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), None)
    return f"{kind} file, which cannot be checked" if kind else None
