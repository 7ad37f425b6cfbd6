"""`python -m benchmarks.compare`: benchmarks/RESULTS.md has its results."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.compare.cases import CASES, EXAMPLES, KINDS
from benchmarks.compare.contest import run_case
from benchmarks.compare.contestants import CONTESTANTS
from benchmarks.compare.picture import svg
from benchmarks.compare.table import lines, tuned_lines
from benchmarks.measure import OUT, machine


def main() -> None:
    """Measure, print the table, write the picture and the figures."""
    known = [contestant.module for contestant in CONTESTANTS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=main.__doc__)
    parser.add_argument("--peers", default=",".join(known), help=f"some of {','.join(known)}")
    parser.add_argument("--models", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls in each process")
    parser.add_argument("--json", type=Path, default=OUT / "compare.json", metavar="FILE")
    parser.add_argument("--picture", type=Path, default=OUT / "compare.svg", metavar="FILE")
    options = parser.parse_args()
    peers, models = options.peers.split(","), options.models.split(",")
    for name in (*peers, *models):
        if name not in (*known, *KINDS):
            parser.error(f"{name} is neither a peer nor a model")
    if options.rounds < 1:
        parser.error("at least one round")

    sys.path.insert(0, str(EXAMPLES))
    contestants = [each for each in CONTESTANTS if each.module in peers]
    document = {
        "machine": dict(machine()),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "cases": {
            case.name: run_case(case, contestants, options.rounds, options.seconds)
            for case in CASES
            if case.kind in models
        },
    }
    for line in lines(document):
        print(line)
    if "aotc_tuned" in peers:
        print("\nmedian call, their time divided by ours")
        for line in tuned_lines(document):
            print(line)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    options.picture.write_text(svg(document))
    print(f"\nfigures in {options.json}, picture in {options.picture}")


if __name__ == "__main__":
    main()
