"""Sandboxes, driven by the real huggingface_hub client; and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import Sandbox
from huggingface_hub.errors import HfHubHTTPError, SandboxError
from loopback_real import FAST, api, command_lines, processes_with, real_hub, until

from tbh_action.errors import NotStartedError
from tbh_action.loopback import isolation
from tbh_action.loopback.client import LoopbackHub
from tbh_action.loopback.tasks import DEMO_TASKS

IMAGE = "ghcr.io/tbh-demo/hello-file:1"


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    yield from real_hub()


@pytest.fixture
def sandbox(hub: LoopbackHub) -> Iterator[Sandbox]:
    with create(hub) as made:
        yield made


def create(hub: LoopbackHub, image: str = IMAGE, **more: object) -> Sandbox:
    return Sandbox.create(image=image, token=hub.token, namespace="demo", **more)


def mounts() -> list[str]:
    return Path("/proc/mounts").read_text(encoding="utf-8").splitlines()


def test_run__output_exit_code_and_folder(sandbox: Sandbox) -> None:
    done = sandbox.run("pwd; echo $HOME; echo oops >&2; exit 3", check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "/app\n/root\n", "oops\n")


def test_run__argv_env_cwd_and_stdin(sandbox: Sandbox) -> None:
    argv = ["/bin/bash", "-c", "read -r line; echo $line $WORD; pwd"]
    done = sandbox.run(argv, env={"WORD": "ö"}, cwd="/tmp", stdin="hello\n")
    assert done.stdout == "hello ö\n/tmp\n"


def test_run__unknown_program_is_127(sandbox: Sandbox) -> None:
    assert sandbox.run(["no-such-program"], check=False).exit_code == 127


def test_run__timeout_ends_the_command_and_its_children(sandbox: Sandbox) -> None:
    started = time.monotonic()
    done = sandbox.run("sleep 771 | sleep 772", timeout=0.3, check=False)
    assert done.timed_out
    assert time.monotonic() - started < 5
    assert not processes_with("sleep 771")
    assert not processes_with("sleep 772")


def test_run__does_not_wait_for_background_children(sandbox: Sandbox) -> None:
    started = time.monotonic()
    assert sandbox.run("sleep 60 & echo done").stdout == "done\n"
    assert time.monotonic() - started < 3


def test_run__much_output_arrives_whole(sandbox: Sandbox) -> None:
    assert len(sandbox.run("head -c 5000000 /dev/zero | tr '\\0' 'ä'").stdout) >= 2_500_000


def test_run__background_process_is_listed_and_killed(sandbox: Sandbox) -> None:
    process = sandbox.run("sleep 60", background=True)
    (listed,) = sandbox.processes()
    assert (listed.id, listed.running, listed.cmd) == (process.id, True, "sleep 60")
    assert process.kill() is True
    assert until(lambda: not sandbox.processes()[0].running)


def test_files__write_read_list_stat_delete(sandbox: Sandbox) -> None:
    files = sandbox.files
    files.write("/app/deep/er/a.txt", b"12345", mode="600")
    assert files.read("/app/deep/er/a.txt") == b"12345"
    files.write("/app/deep/er/a.txt", b"1")
    assert files.read("/app/deep/er/a.txt") == b"1"
    (entry,) = files.list("/app/deep/er")
    assert (entry.name, entry.type, entry.size, entry.mode) == ("a.txt", "file", 1, "600")
    assert files.stat("/app/deep").type == "dir"
    files.mkdir("/app/empty/one")
    assert files.exists("/app/empty/one")
    with pytest.raises(SandboxError):
        files.delete("/app/deep")
    files.delete("/app/deep", recursive=True)
    assert not files.exists("/app/deep")
    with pytest.raises(SandboxError, match="404"):
        files.read("/app/none")


def test_files__large_ones_go_in_ranges(sandbox: Sandbox, tmp_path: Path) -> None:
    data = os.urandom(5_000_001)
    sandbox.files.write("/app/large", data)
    assert sandbox.files.read("/app/large") == data
    sandbox.files.write("/app/large", data[:3_000_000])
    sandbox.files.download("/app/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data[:3_000_000]


def test_tmux__a_session_lives_from_one_exec_to_the_next(sandbox: Sandbox) -> None:
    sandbox.run("tmux new-session -d -s t -x 80 -y 10")
    sandbox.run("tmux send-keys -t t 'echo 1$((1+1))3' Enter")
    assert until(lambda: "123" in sandbox.run("tmux capture-pane -p -t t").stdout)


def test_sandboxes__do_not_see_each_other_nor_change_the_host(hub: LoopbackHub) -> None:
    with create(hub) as one, create(hub) as two:
        for folder in ("/app", "/tests", "/logs", "/solution", "/tmp", "/root", "/home"):
            one.run(f"echo mine > {folder}/tbh-probe-file")
            assert not two.files.exists(f"{folder}/tbh-probe-file")
            assert not Path(f"{folder}/tbh-probe-file").exists()
        assert one.run("touch /usr/tbh-probe /etc/tbh-probe", check=False).exit_code != 0
        one.run("sleep 773", background=True)
        assert "sleep 773" not in two.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_sandbox__of_a_demo_image_has_its_files(hub: LoopbackHub) -> None:
    with create(hub, "ghcr.io/tbh-demo/fix-git:1") as sandbox:
        log = sandbox.run("git -C site log --oneline --format=%s").stdout
        assert log == "Add the news\nStart the site\n"


def test_sandbox__another_token_is_refused_by_its_server(hub: LoopbackHub) -> None:
    with create(hub) as sandbox:
        sandbox._sandbox_token = "wrong"  # the client has no other way to be wrong
        with pytest.raises(SandboxError, match="401"):
            sandbox.run("true")


def test_kill__nothing_is_left(hub: LoopbackHub) -> None:
    mounted = mounts()
    sandbox = create(hub)
    sandbox.run("tmux -L tbh-left new-session -d -s t 'sleep 774'; (setsid sleep 775 &) ; true")
    assert processes_with("sleep 774")
    assert processes_with("sleep 775")
    sandbox.kill()
    until(lambda: not processes_with("sleep 77"))
    until(lambda: not processes_with("tbh-left"))
    assert mounts() == mounted
    job = next(job for job in hub.jobs() if job["id"] == sandbox.id)
    assert job["status"]["stage"] == "CANCELED"
    assert not list(hub.folder.glob(f"*{sandbox.id[-12:]}*"))


def test_idle_timeout__ends_an_unused_sandbox(hub: LoopbackHub) -> None:
    sandbox = create(hub, idle_timeout=1)
    until(lambda: sandbox.id not in [job["id"] for job in hub.alive()], 6)
    with pytest.raises(SandboxError, match="503"):
        sandbox.run("true")


def test_connect__by_id(hub: LoopbackHub) -> None:
    with create(hub) as sandbox:
        sandbox.run("echo here > note")
        again = Sandbox.connect(sandbox.id, namespace="demo", token=hub.token)
        assert again.run("cat note").stdout == "here\n"
        again.close()


def test_create__wrong_token(hub: LoopbackHub) -> None:
    with pytest.raises(HfHubHTTPError):
        Sandbox.create(image=IMAGE, token="hf_wrong", namespace="demo")


def test_create__task_and_attempt_are_known(hub: LoopbackHub) -> None:
    with create(hub, "python:3.12", labels={"tbh-trial": "a-task__Ab3dEf7"}) as sandbox:
        job = next(job for job in hub.jobs() if job["id"] == sandbox.id)
        assert (job["task"], job["attempt"]) == ("a-task", 1)
    with create(hub, "python:3.12", labels={"tbh-trial": "a-task__Zz3dEf7"}) as sandbox:
        job = next(job for job in hub.jobs() if job["id"] == sandbox.id)
        assert (job["task"], job["attempt"]) == ("a-task", 2)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_hub__gone_in_any_way_leaves_no_process(how: signal.Signals) -> None:
    from huggingface_hub import constants

    before = constants.ENDPOINT
    hub = LoopbackHub(settings=FAST).start()
    try:
        constants.ENDPOINT = hub.url
        create(hub).run("tmux new-session -d -s t 'sleep 776'")
        api(hub).run_job(image="x", command=["vllm", "serve", "a/b"], namespace="demo")
        until(lambda: "model_server" in str(descendants(hub.pid)))
        family = descendants(hub.pid)
        assert "sleep 776" in str(family)
        os.kill(hub.pid, how)
        until(lambda: not set(family.items()) & set(command_lines().items()))
    finally:
        constants.ENDPOINT = before
        hub.stop()


def descendants(pid: int) -> dict[int, str]:
    """A process and all that it started, with their command lines."""
    lines, found = command_lines(), {pid}
    parents = {each: parent_of(each) for each in lines}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return {each: lines[each] for each in found if each in lines}


def parent_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(text.rsplit(")", 1)[1].split()[1])


def test_hub__follows_the_process_that_started_it() -> None:
    script = (
        "import os, signal, time\n"
        "from tbh_action.loopback.client import LoopbackHub\n"
        "hub = LoopbackHub().start()\n"
        "print(hub.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: pid not in command_lines())


@pytest.mark.parametrize(
    "task", sorted(path.parent.name for path in DEMO_TASKS.glob("*/task.toml"))
)
def test_demo_task__its_solution_passes_and_nothing_else_does(hub: LoopbackHub, task: str) -> None:
    folder = DEMO_TASKS / task
    rewards = []
    for solved in (False, True):
        with create(hub, f"ghcr.io/tbh-demo/{task}:1") as sandbox:
            for file in (folder / "tests").iterdir():
                sandbox.files.write(f"/tests/{file.name}", file.read_bytes())
            if solved:
                solution = (folder / "solution" / "solve.sh").read_bytes()
                sandbox.files.write("/solution/solve.sh", solution)
                sandbox.run("bash /solution/solve.sh")
            sandbox.run("bash /tests/test.sh")
            rewards.append(sandbox.files.read("/logs/verifier/reward.txt"))
    assert rewards == [b"0\n", b"1\n"]


def test_candidates__as_root_directly_else_a_user_namespace_else_sudo() -> None:
    assert [way[0] for way in isolation.candidates(root=True, sudo=True)] == ["unshare"]
    ways = isolation.candidates(root=False, sudo=True)
    assert [way[0] for way in ways] == ["unshare", "sudo"]
    assert "--map-root-user" in ways[0]


def test_launcher__forbidden_says_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    isolation.launcher.cache_clear()
    with pytest.raises(NotStartedError, match=r"Operation not permitted.*Run it as root"):
        isolation.launcher()
    isolation.launcher.cache_clear()
