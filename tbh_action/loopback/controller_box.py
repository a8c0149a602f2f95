"""The machine of a controller job: namespaces of its own, an empty disk, the program.

Started by the loopback Hub as process 1 of fresh mount and PID namespaces, from the standard
library alone. The first line of standard input is its configuration (JSON: `argv`, `env`,
`folder`). When standard input ends, the program is told to end, and a few seconds later the kernel
ends every process of the job with this one, as when a container is stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Final

# Below what the Hub waits for a job's process to end.
_GRACE: Final = 4.0


def main() -> int:
    """The program's exit code."""
    config: dict[str, Any] = json.loads(sys.stdin.readline())
    _mount("proc", "/proc", required=False)
    # The same place in each job, and empty in each: what a job leaves on its disk is gone with it.
    _mount("tmpfs", config["folder"], required=True)
    program = subprocess.Popen(
        config["argv"],
        cwd=config["folder"],
        env=config["env"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    signal.signal(signal.SIGTERM, lambda *_: program.terminate())
    threading.Thread(target=_end_with_input, args=(program,), daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


def _mount(kind: str, place: str, *, required: bool) -> None:
    done = subprocess.run(
        ["mount", "-t", kind, kind, place], capture_output=True, text=True, check=False
    )
    if required and done.returncode != 0:
        sys.exit(f"cannot mount {place}: {done.stderr.strip()}")


def _end_with_input(program: subprocess.Popen[bytes]) -> None:
    while sys.stdin.read(1 << 10):
        pass
    program.terminate()
    try:
        program.wait(_GRACE)
    except subprocess.TimeoutExpired:
        os._exit(137)


if __name__ == "__main__":
    sys.exit(main())
