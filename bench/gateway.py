"""What does the gateway cost a model call? Added latency, memory, large bodies: one run, one table.

Three processes on this machine: a stand-in model server, the gateway, and this client, which sends
calls directly and through the gateway, shuffled, 32 at a time. The stand-in "model" takes its time
(`--think`, seconds, ±20 %), because 32 calls at once to a server that answers in no time would
measure how three processes share the cores, not what the gateway adds.

    python bench/gateway.py            # latency, then 20,000 calls for memory, then 10 MB bodies
    python bench/gateway.py --quick    # fewer calls: a look, not a result
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
CONCURRENT = 32
KEY = "bench-key"
GOAL_P50_MS = 3.0
GOAL_P99_MS = 15.0
MEGABYTE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--think", type=float, default=0.25, help="seconds a model call takes")
    parser.add_argument("--rounds", type=int, default=5, help="the median is the result")
    parser.add_argument("--role", choices=("upstream", "gateway"), help=argparse.SUPPRESS)
    parser.add_argument("--upstream", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "upstream":
        asyncio.run(run_upstream())
    elif arguments.role == "gateway":
        asyncio.run(run_gateway(arguments.upstream))
    else:
        sys.exit(asyncio.run(measure(arguments)))


async def run_upstream() -> None:
    """A model server: `think` seconds (from the query), then a small answer with usage."""
    import uvicorn

    answer = json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 400}}],
            "usage": {
                "prompt_tokens": 2000,
                "completion_tokens": 400,
                "prompt_tokens_details": {"cached_tokens": 1500},
            },
        }
    ).encode()

    async def app(scope, receive, send):
        size = 0
        while True:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        query = dict(pair.split("=") for pair in scope["query_string"].decode().split("&") if pair)
        await asyncio.sleep(float(query.get("think", 0)))
        headers = [(b"content-type", b"application/json"), (b"x-size", str(size).encode())]
        body = answer + b" " * int(query.get("pad", 0))
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    # The protocol is named so that asyncio sets TCP_NODELAY, as it does on uvicorn's own sockets.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
    config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False)
    await uvicorn.Server(config).serve(sockets=[listener])


async def run_gateway(upstream: str) -> None:
    from tbh_action.gateway import Gateway, Upstream, serve

    gateway = Gateway(KEY, patience=600, token="bench-token", journal=lambda _: None)
    gateway.set_upstreams([Upstream(name="one", url=upstream)])
    async with serve(gateway) as base_url:
        print(base_url, flush=True)
        await asyncio.Event().wait()


def start(role: str, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A process of this script in that role, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--role", role, *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise SystemExit(f"the {role} did not start")
    return process, address


def memory_mb(process: subprocess.Popen[str]) -> float:
    """Resident memory of a process, in MiB (Linux)."""
    for line in Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def measure(arguments: argparse.Namespace) -> int:
    upstream, direct = start("upstream")
    gateway, through = start("gateway", "--upstream", direct)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    headers = {"Authorization": f"Bearer {KEY}"}
    try:
        async with httpx.AsyncClient(
            limits=limits, headers=headers, timeout=60, trust_env=False
        ) as client:
            fast = await latency(client, direct, through, arguments)
            flat = await memory(client, through, gateway, 2_000 if arguments.quick else 20_000)
            large = await bodies(client, direct, through, gateway)
    finally:
        for process in (gateway, upstream):
            process.terminate()
            process.wait(10)
    return 0 if fast and flat and large else 1


async def latency(
    client: httpx.AsyncClient, direct: str, through: str, arguments: argparse.Namespace
) -> bool:
    """Rounds of calls, direct and through the gateway mixed; the median of the rounds is judged."""
    calls = 320 if arguments.quick else 1600
    print(f"Latency, {CONCURRENT} at a time, {calls} calls each way, {arguments.think} s a call")
    print("(ms on top of the call's own time; added = through − direct, percentile by percentile)")
    print(f"{'round':>5} {'load':>5}   " + "   ".join(f"{n:>22}" for n in ("p50", "p90", "p99")))
    rounds: list[list[float]] = []
    for number in range(1, arguments.rounds + 1):
        load = os.getloadavg()[0]
        taken = await one_round(client, (direct, through), calls, arguments.think)
        rows = [[percentile(times, p) * 1000 for p in (50, 90, 99)] for times in taken]
        added = [b - a for a, b in zip(*rows, strict=True)]
        cells = [f"{a:5.1f} → {b:5.1f} = {d:+5.1f}" for a, b, d in zip(*rows, added, strict=True)]
        print(f"{number:>5} {load:>5.2f}   " + "   ".join(f"{cell:>22}" for cell in cells))
        rounds.append(added)
    p50, p90, p99 = (statistics.median(column) for column in zip(*rounds, strict=True))
    worst = max(added[2] for added in rounds)
    good = p50 < GOAL_P50_MS and p99 < GOAL_P99_MS
    print(
        f"added, median of the rounds: p50 {p50:.2f} ms (goal < {GOAL_P50_MS:.0f}), "
        f"p90 {p90:.2f} ms, p99 {p99:.2f} ms (goal < {GOAL_P99_MS:.0f}; worst round {worst:.1f}): "
        f"{'met' if good else 'MISSED'}\n"
    )
    return good


async def one_round(
    client: httpx.AsyncClient, addresses: tuple[str, str], calls: int, think: float
) -> tuple[list[float], list[float]]:
    """Seconds beyond the model's own time, for each address."""
    taken: tuple[list[float], list[float]] = ([], [])
    chance = random.Random(7)
    ways = [way for way in (0, 1) for _ in range(calls)]
    chance.shuffle(ways)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 8000}]})
    queue = iter(ways)

    async def worker(number: int) -> None:
        await asyncio.sleep(think * number / CONCURRENT)
        for way in queue:
            slept = think * chance.uniform(0.8, 1.2)
            began = time.perf_counter()
            response = await client.post(
                f"{addresses[way]}/chat/completions?think={slept}",
                content=body,
                headers={"X-Tbh-Session": f"task-{number}__agent"},
            )
            taken[way].append(time.perf_counter() - began - slept)
            assert response.status_code == 200, response.text

    await asyncio.gather(*(worker(number) for number in range(CONCURRENT)))
    return taken


async def memory(
    client: httpx.AsyncClient, through: str, gateway: subprocess.Popen[str], calls: int
) -> bool:
    """Resident memory of the gateway while calls come as fast as they can."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 8000}]})
    queue = iter(range(calls))
    samples: list[tuple[int, float]] = []

    async def worker() -> None:
        for number in queue:
            response = await client.post(
                f"{through}/chat/completions",
                content=body,
                headers={"X-Tbh-Session": f"task-{number % 90}__agent"},
            )
            assert response.status_code == 200, response.text
            if number % (calls // 10) == 0:
                samples.append((number, memory_mb(gateway)))

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENT)))
    seconds = time.perf_counter() - began
    samples.append((calls, memory_mb(gateway)))
    print(f"Memory over {calls:,} calls ({calls / seconds:,.0f} calls/s), MiB resident:")
    print("  " + "  ".join(f"{number:,}: {size:.1f}" for number, size in samples))
    # The first tenth warms up; after it, growth would be a leak.
    growth = samples[-1][1] - samples[1][1]
    good = growth < 3.0
    print(f"growth after the first tenth: {growth:+.1f} MiB: {'flat' if good else 'GROWS'}\n")
    return good


async def bodies(
    client: httpx.AsyncClient, direct: str, through: str, gateway: subprocess.Popen[str]
) -> bool:
    """10 MB there and 10 MB back, whole."""
    body = b'{"messages": "' + os.urandom(5 * MEGABYTE).hex().encode() + b'"}'
    url = f"/chat/completions?pad={10 * MEGABYTE}"
    seconds: dict[str, float] = {}
    good = True
    for name, address in (("direct", direct), ("through", through)):
        took = []
        for _ in range(3):
            began = time.perf_counter()
            response = await client.post(address + url, content=body)
            took.append(time.perf_counter() - began)
            good &= response.headers["x-size"] == str(len(body))
            good &= len(response.content) > 10 * MEGABYTE
        seconds[name] = statistics.median(took)
    print(
        f"10 MB bodies: direct {seconds['direct'] * 1000:.0f} ms, through "
        f"{seconds['through'] * 1000:.0f} ms, gateway now {memory_mb(gateway):.0f} MiB: "
        f"{'pass' if good else 'BROKEN'}"
    )
    return good


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
