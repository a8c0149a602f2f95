"""`python -m tbh_action.loopback`: the loopback Hub in the foreground.

Prints the `export` lines that point the real clients at it, then serves until Ctrl-C:

    python -m tbh_action.loopback --demo >hub.env &    # then: . ./hub.env
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from tbh_action.errors import SpecError
from tbh_action.loopback import hub, isolation
from tbh_action.loopback.demo import demo_faults
from tbh_action.loopback.settings import Settings
from tbh_action.loopback.tasks import make_repository


@click.command(help="A stand-in for the Hugging Face Hub on 127.0.0.1, for tests and the demo.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback only.")
@click.option("--port", default=0, help="0 takes a free one.")
@click.option("--faults", "faults_file", type=click.Path(path_type=Path), help="JSON rules.")
@click.option("--demo", is_flag=True, help="With the demo's faults.")
@click.option("--speed", default=1.0, show_default=True, help="Divides all waiting times.")
@click.option("--seed", default=0, show_default=True, help="For the dice of fault rules.")
@click.option("--setting", "pairs", multiple=True, metavar="KEY=VALUE", help="See settings.py.")
@click.option("--child", is_flag=True, hidden=True, help="Serve until standard input ends.")
def main(
    *,
    host: str,
    port: int,
    faults_file: Path | None,
    demo: bool,
    speed: float,
    seed: int,
    pairs: tuple[str, ...],
    child: bool,
) -> None:
    hub.check_host(host)
    rules = [*_read_rules(faults_file), *(demo_faults() if demo else [])]
    settings = Settings(
        token=f"hf_loopback{secrets.token_hex(12)}",
        admin_key=secrets.token_hex(16),
        speed=speed,
        seed=seed,
        **_settings(pairs),
    )
    isolation.launcher()
    with tempfile.TemporaryDirectory(prefix="tbh-hub-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        make_repository(place / "git")
        (place / "home").mkdir()

        def ready(url: str) -> None:
            _announce(settings, place, url, as_json=child)

        listener = hub.listen(port)
        until = _standard_input_ends() if child else asyncio.Event().wait()
        try:
            asyncio.run(
                hub.serve(settings, place, listener, faults=rules, ready=ready, until=until)
            )
        except KeyboardInterrupt:
            click.echo("The loopback Hub has stopped.", err=True)


def _announce(settings: Settings, folder: Path, url: str, *, as_json: bool) -> None:
    environment = hub.client_environment(url, settings.token, folder)
    if as_json:
        known = {"url": url, "token": settings.token, "admin_key": settings.admin_key}
        click.echo(json.dumps({**known, "environment": environment}))
    else:
        for name, value in {**environment, "TBH_LOOPBACK_ADMIN_KEY": settings.admin_key}.items():
            click.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()


def _read_rules(file: Path | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    try:
        rules = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"Fault rules {file}: {error}.") from error
    if not isinstance(rules, list):
        raise SpecError(f"Fault rules {file}: a JSON list of rules is wanted.")
    return rules


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    known = {"server_scheduling", "sandbox_scheduling", "model_loading", "model_thinking"}
    values = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in known:
            raise SpecError(f"--setting {key}: known are {', '.join(sorted(known))}.")
        values[key] = float(value)
    return values


async def _standard_input_ends() -> None:
    """Whoever started this Hub holds the other end: when it is gone, so are we."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    main()
