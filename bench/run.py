"""Runs the scenarios and prints the table: `python bench/run.py [--quick] [--only NAME] [--rounds N]`.

A bar that is missed makes the exit status 1. A whole run, not a quick or partial one, writes `results.md`.
"""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.contest import complain
from bench.measure import CORES, Effort
from bench.report import Row, document, noise, stolen, table
from bench.scenarios import SCENARIOS
from bench.servers import ServerError

RESULTS = Path(__file__).resolve().parent / "results.md"
FULL = Effort(rounds=9, loose_rounds=5, peer_rounds=3, starts=7, peer_starts=3, seconds=1.0, millions=10, slow_s=60)
QUICK = Effort(rounds=3, loose_rounds=2, peer_rounds=1, starts=3, peer_starts=1, seconds=0.7, millions=0.2, slow_s=10)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="toolyard's speed, beside the floor and its peers")
    parser.add_argument("--quick", action="store_true", help="few and short rounds: a look, not a measurement")
    parser.add_argument("--only", action="append", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, help=f"rounds where a bar is tight (default {FULL.rounds})")
    parser.add_argument("--seconds", type=float, help=f"length of a round (default {FULL.seconds:g})")
    parser.add_argument("--millions", type=float, help=f"calls in the ledger of history (default {FULL.millions:g})")
    return parser.parse_args()


def effort_for(options: argparse.Namespace) -> Effort:
    chosen = QUICK if options.quick else FULL
    named = {name: getattr(options, name) or getattr(chosen, name) for name in ("rounds", "seconds", "millions")}
    return replace(chosen, **named)


def measured(name: str, effort: Effort) -> list[Row]:
    """What breaks ends its scenario, as a miss, and not the run."""
    try:
        return SCENARIOS[name](effort)
    except ServerError as error:
        complain(error)
        return [Row(name, "", "no figure", is_broken=True)]


def main() -> int:
    options = arguments()
    if len(CORES) < 2:
        sys.exit("the bench needs two cores: one for the server, one for the load")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    effort, before = effort_for(options), stolen()
    rows: list[Row] = []
    for name in options.only or SCENARIOS:
        print(f"{name} …", flush=True)
        rows += measured(name, effort)
    print(f"\n{table(rows)}\n\n{noise(before)}")
    if not (options.only or options.quick):
        RESULTS.write_text(document(rows, effort, noise(before)))
    return 1 if any(row.is_miss for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
