"""Search for results that an engine computes otherwise than plain JAX.

    python -m scripts.search run OUT [PART ...] --engine iree     programs of `edge_programs`
    python -m scripts.search run OUT --seed 1 --count 20000       programs that are generated
    python -m scripts.search run OUT --seed 1 --quantized 2000    quantized ones
    python -m scripts.search show generated.1.17                  the text of one of them
    python -m scripts.search tell OUT                             a table of what was found

OUT gets one line of JSON for each program and engine; the exit code is 1 if one of them differs.
Programs run in a child: a crash is a finding, and the rest goes on in a new child. A search that
was ended goes on where it was. X64=0 in the environment makes every edge program one of at most 32
bits, as JAX does by default.
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from .children import Child, child, program_of
from .engine_calls import ENGINES
from .findings import DIFFERING, Finding


def search(
    out: Path, engines: Sequence[str], names: Sequence[str], shares: Mapping[str, int]
) -> None:
    """Run what is not yet in `out`. shares: engines that get every so many programs only."""
    known = defaultdict(set)
    if out.exists():
        for each in read(out):
            known[each.name].add(each.engine)
    child = Child(out.with_suffix(".said"))
    try:
        with out.open("a", encoding="utf-8") as file:
            for (place, name), engine in product(enumerate(names), engines):
                if place % shares.get(engine, 1) or known[name] & {engine, ""}:
                    continue
                found = child.run(name, engine)
                known[name].add(found.engine)
                print(json.dumps(found._asdict()), file=file, flush=True)
    finally:
        child.end()


def read(out: Path) -> Iterator[Finding]:
    """Yield what a search has found."""
    with out.open(encoding="utf-8") as file:
        for line in file:
            yield Finding(**json.loads(line))


def table(out: Path) -> str:
    """Summarize what each engine takes, refuses and computes otherwise."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    for each in read(out):
        counts[each.engine or "plain JAX"][each.found] += 1
        if each.found in ("refused", "failed"):
            refused[each.engine][_reason(each.told)] += 1
    lines = [f"{engine}: {dict(count.most_common())}" for engine, count in counts.items()]
    for each in read(out):
        if each.found in DIFFERING:
            lines.append(f"{each.name} on {each.engine}: {each.found}: {each.told[:160]}")
    for engine, reasons in refused.items():
        lines.append(f"{engine} refuses:")
        lines += [f"  {count} {reason}" for reason, count in reasons.most_common(60)]
    return "\n".join(lines)


def _reason(told: str) -> str:
    named = re.search(r"stablehlo\.[a-z_]+(?: of [a-z0-9]+)?", told)
    return named[0] if named else re.sub(r"[0-9]+", "N", told)[:80]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m scripts.search")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("child")
    run = commands.add_parser("run")
    run.add_argument("out", type=Path)
    run.add_argument("parts", nargs="*")
    run.add_argument("--engine", action="append", choices=[*ENGINES], default=[])
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--first", type=int, default=0)
    run.add_argument("--count", type=int, default=0)
    run.add_argument("--quantized", type=int, default=0)
    run.add_argument("--share", action="append", default=[], metavar="ENGINE=NUMBER")
    show = commands.add_parser("show")
    show.add_argument("name")
    tell = commands.add_parser("tell")
    tell.add_argument("out", type=Path)
    asked = parser.parse_args()
    if asked.command == "child":
        child()
    elif asked.command == "run":
        if asked.count or asked.quantized:
            names = [
                f"{kind}.{asked.seed}.{number}"
                for kind, count in (("generated", asked.count), ("quantized", asked.quantized))
                for number in range(asked.first, asked.first + count)
            ]
        else:
            from scripts.search.edge_programs import PROGRAMS

            parts = asked.parts or [""]
            names = [name for name in PROGRAMS if any(part in name for part in parts)]
        shares = {
            engine: int(number) for engine, _, number in (s.partition("=") for s in asked.share)
        }
        search(asked.out, asked.engine or [*ENGINES], names, shares)
        print(table(asked.out))
        sys.exit(any(each.found in DIFFERING for each in read(asked.out)))
    elif asked.command == "show":
        print(program_of(asked.name).text)
    else:
        print(table(asked.out))


if __name__ == "__main__":
    main()
