"""Every fault against the real Harbor and the real Hub client, on a loopback Hub: one table.

    python -m bench.faults [--quick] [--jobs 2] [--only TEXT]

Goal: every row survived (or ended with the right code and reason), no attempt lost, no trial
wrongly classified, nothing paid left running.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from bench.fault_cases import cases
from bench.scene import Case, Row, play


def main() -> int:
    """Plays the cases, prints the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the subset that the tests run")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--verbose", action="store_true", help="print what a failed case said")
    options = parser.parse_args()
    chosen = [
        case for case in cases() if options.only in case.name and (case.quick or not options.quick)
    ]
    plain = [play(Case(name="no fault"))[0] for _ in range(2 if len(chosen) > 3 else 1)]
    usual = statistics.median(row.seconds for row in plain)
    print(f"Without a fault a run takes {usual:.1f} s here.\n")
    print(f"{'fault':58} survived  code  lost  wrong  left  extra s", flush=True)
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row, said in pool.map(play, chosen):
            rows.append(row)
            print(_line(row, usual), flush=True)
            if options.verbose and (not row.survived or row.lost or row.left):
                print("\n".join(f"    | {line}" for line in said.splitlines()[-40:]))
    return _summary(rows)


def _line(row: Row, usual: float) -> str:
    word = "yes" if row.survived else "NO"
    trouble = f"  {row.trouble}" if row.trouble else ""
    return (
        f"{row.name:58} {word:8} {row.code:5} {row.lost:5} {row.wrong:6} {row.left:5} "
        f"{row.seconds - usual:8.1f}{trouble}"
    )


def _summary(rows: list[Row]) -> int:
    good = [row for row in rows if row.survived and not (row.lost or row.wrong or row.left)]
    print(
        f"\n{len(good)} of {len(rows)} as they should be; "
        f"{sum(row.lost for row in rows)} attempts lost, "
        f"{sum(row.wrong for row in rows)} wrong classes, "
        f"{sum(row.left for row in rows)} things left running."
    )
    return 0 if len(good) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
