"""Runs this repository's workflows with act in host mode, against loopback services only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.github import LoopbackGitHub, User
from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE

ROOT: Final = Path(__file__).resolve().parents[2]
STAND_INS: Final = ROOT / "tests/act/stand-ins"
WORKFLOWS: Final = ROOT / "tests/act/workflows"
_USES: Final = re.compile(r"uses: (actions/[\w-]+)@([0-9a-f]{40})")
_COPIED: Final = (".github", "tbh_action", "templates", "action.yml", "requirements.lock")


@dataclass(kw_only=True)
class Ended:
    """One `act` call: its exit code, its log as people see it, the summaries of its steps."""

    code: int
    log: str
    summaries: list[str]

    def jobs(self, result: str) -> list[str]:
        """The jobs that ended with `Job succeeded` or `Job failed`."""
        found = re.findall(rf"^\[(?:[^\]/]*/)?(.*?)\s*\].*Job {result}", self.log, re.MULTILINE)
        return [name.strip() for name in found]


@dataclass(kw_only=True)
class World:
    """A clone of this repository as act sees it, and what its runs share."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def prepare(self) -> None:
        """Copies the working tree, as it is now, into a git repository of its own."""
        self.repository.mkdir(parents=True)
        for name in _COPIED:
            source, target = ROOT / name, self.repository / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        for file in sorted(WORKFLOWS.glob("*.yml")):
            shutil.copy(file, self.repository / ".github/workflows")
        shutil.copytree(ROOT / "tests/act/nested", self.repository / ".github/actions/nested")
        for file in (self.repository / ".github").rglob("*.yml"):
            text = file.read_text(encoding="utf-8")
            # act does not know `$/` (this repository at this commit); here `./` is the same.
            file.write_text(text.replace("uses: $/", "uses: ./"), encoding="utf-8")
        self._commit()
        self.artifacts.mkdir()
        self._environment()

    def _commit(self) -> None:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
        for command in (
            ["init", "-q", "-b", "main", "."],
            ["add", "-A", "-f"],
            ["commit", "-q", "-m", "x"],
        ):
            subprocess.run([*git, *command], cwd=self.repository, check=True)
        subprocess.run(
            ["git", "remote", "add", "origin", "https://github.com/octo/repo.git"],
            cwd=self.repository,
            check=False,
            capture_output=True,
        )

    def _environment(self) -> None:
        """The action's environment, as if it had been installed: the tests' packages, seen through
        one of its own, so that the real one is not written to."""
        venv = self.folder / "venv"
        lock = (self.repository / "requirements.lock").read_bytes()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        ours, theirs = (
            Path(sysconfig.get_path("purelib", vars={"base": str(base)}))
            for base in (venv, sys.prefix)
        )
        (ours / "tests.pth").write_text(f"import site; site.addsitedir({str(theirs)!r})\n")
        (venv / "bin/harbor").symlink_to(Path(sys.prefix) / "bin/harbor")
        stamp = subprocess.run(["cksum"], input=lock, capture_output=True, check=True).stdout
        (venv / ".tbh-action").write_bytes(stamp.rstrip(b"\n"))
        self.variables["TBH_ACTION_VENV"] = str(venv)

    def branches(self) -> Path:
        """A bare repository that stands for https://github.com/octo/repo in git's eyes."""
        bare = self.folder / "origin.git"
        if not bare.exists():
            subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
            home = self.folder / "home"
            home.mkdir(exist_ok=True)
            (home / ".gitconfig").write_text(
                f'[url "{bare.as_uri()}"]\n\tinsteadOf = https://github.com/octo/repo\n',
                encoding="utf-8",
            )
        return bare

    def run(
        self,
        event: str,
        workflow: str,
        *,
        inputs: Mapping[str, str] | None = None,
        payload: Mapping[str, Any] | None = None,
        job: str | None = None,
        run_id: int = 1,
        extra: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        kill_when: str | None = None,
    ) -> Ended:
        """One workflow run. `kill_when`: SIGINT to act as soon as its log holds this text, which
        kills the running step without grace."""
        file = self.folder / f"event-{run_id}.json"
        document = {"inputs": dict(inputs)} if inputs else {}
        file.write_text(json.dumps(document | dict(payload or {})), encoding="utf-8")
        command = [
            *(str(ROOT / ".venv/bin/act"), event, "-W", f".github/workflows/{workflow}"),
            *("-P", "ubuntu-latest=-self-hosted", "--pull=false", "--no-cache-server", "--json"),
            *("--github-instance", "127.0.0.1:1", "-e", str(file)),
        ]
        for key, value in (inputs or {}).items():
            command += ["--input", f"{key}={value}"]
        for name, ref in sorted(self._third_party()):
            folder = STAND_INS / name.split("/")[1]
            if folder.is_dir():
                command += ["--local-repository", f"{name}@{ref}={folder}"]
        command += ["--local-repository", f"org/tbh-action@v1={self.repository}"]
        own = {
            "ACT_ARTIFACTS": str(self.artifacts),
            "ACT_PYTHON": sys.executable,
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_NUMBER": str(run_id),
            "GITHUB_SERVER_URL": "https://github.com",
        }
        for key, value in {**own, **self.variables, **(variables or {})}.items():
            command += ["--env", f"{key}={value}"]
        for key, value in (self.secrets if secrets is None else secrets).items():
            command += ["-s", f"{key}={value}"]
        if job is not None:
            command += ["-j", job]
        return self._act([*command, *extra], kill_when)

    def _third_party(self) -> set[tuple[str, str]]:
        return {
            (found[1], found[2])
            for file in (self.repository / ".github").rglob("*.yml")
            for found in _USES.finditer(file.read_text(encoding="utf-8"))
        } | {
            (found[1], found[2])
            for found in _USES.finditer((self.repository / "action.yml").read_text("utf-8"))
        }

    def _act(self, command: Sequence[str], kill_when: str | None) -> Ended:
        environment = {
            "HOME": str(self.folder / "home"),
            "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}",
            "TMPDIR": str(self.folder / "tmp"),
        }
        for folder in ("home", "tmp"):
            (self.folder / folder).mkdir(exist_ok=True)
        process = subprocess.Popen(
            command,
            cwd=self.repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watchdog = threading.Timer(240, process.kill)
        watchdog.start()
        lines, summaries = [], []
        assert process.stdout is not None
        for line in process.stdout:
            text, summary = _read(line)
            lines.append(text)
            summaries += [summary] if summary else []
            if kill_when is not None and kill_when in text:
                process.send_signal(signal.SIGINT)
                kill_when = None
        code = process.wait()
        watchdog.cancel()
        return Ended(code=code, log="\n".join(lines), summaries=summaries)


def _read(line: str) -> tuple[str, str]:
    """One line of `act --json`: what people see, and a step's summary if it is one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.rstrip("\n"), ""
    text = f"[{entry.get('job', '')}] {str(entry.get('msg', '')).rstrip()}"
    if entry.get("command") == "summary":
        return text, str(entry.get("content", ""))
    return text, ""


TOKEN: Final = "ghs_actTestToken0001"
BOT: Final = "github-actions[bot]"


@contextlib.contextmanager
def loopback_world(
    folder: Path, *, settings: dict[str, float] | None = None
) -> Iterator[tuple[World, LoopbackHub, LoopbackGitHub]]:
    """A prepared world with its Hub and its GitHub."""
    tokens = {TOKEN: User(login=BOT)}
    with LoopbackHub(speed=4, settings=settings) as hub, LoopbackGitHub(tokens) as github:
        variables = hub.environment()
        secrets = {"HF_TOKEN": variables.pop("HF_TOKEN"), "GITHUB_TOKEN": TOKEN}
        variables |= {"GITHUB_API_URL": github.url, "DEMO_RECIPE": str(DEMO_MODEL_RECIPE)}
        world = World(folder=folder, variables=variables, secrets=secrets)
        world.prepare()
        yield world, hub, github


def pull_request(head: str = "octo/repo") -> dict[str, Any]:
    """The payload of a pull request from a branch of repository `head`."""
    return {
        "action": "synchronize",
        "number": 5,
        "pull_request": {
            "number": 5,
            "head": {"ref": "change", "sha": "a" * 40, "repo": {"full_name": head}},
            "base": {"ref": "main", "sha": "b" * 40, "repo": {"full_name": "octo/repo"}},
        },
    }
