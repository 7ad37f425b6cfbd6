"""`python -m scripts.mutation TEXT…`: list the checks that nothing misses once they are gone.

TEXT: for modules alone whose path holds one of these; all without it. `--record TEST…` runs tests
first and keeps which lines each runs.
"""

import argparse
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from time import monotonic

from .checkout import OUT, copied
from .mutants import Mutant, equivalent, mutants
from .recording import DATA, Executed, record
from .trying import verdict_on

RESULTS = OUT / "results.jsonl"
RECORDED = ("tests/unit", "tests/hostile")
PRELOADED = ("jax", "numpy", "cryptography.x509", "hypothesis", "msgspec", "pydantic", "tomlkit")


def main(arguments: Sequence[str]) -> int:
    """1 if there are survivors that are not accounted for."""
    asked = argparse.ArgumentParser(prog="python -m scripts.mutation", description=__doc__)
    asked.add_argument("texts", nargs="*", metavar="TEXT")
    asked.add_argument("--record", action="store_true")
    asked.add_argument("--jobs", default=os.environ.get("JOBS", "3"))
    asked.add_argument("--shard", default=os.environ.get("SHARD", "1/1"), metavar="I/N")
    given = asked.parse_args(arguments)
    if given.record or not DATA.exists():
        record(given.texts if given.record and given.texts else RECORDED, given.jobs)
        _forget_survivors()
        if given.record:
            return 0
    number, of = map(int, given.shard.split("/"))
    found = list(mutants(given.texts))[number - 1 :: of]
    _try(found)
    return _tell(found)


def _try(found: Sequence[Mutant]) -> None:
    """Append the verdict on each that has none by then, from another process or an earlier run."""
    executed = Executed()
    for name in PRELOADED:
        importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    with copied() as copy, RESULTS.open("a", encoding="utf-8") as results:
        for mutant in found:
            if _key(mutant) in _results():
                continue
            began = monotonic()
            tests = executed.tests_of(mutant.file, mutant.lines)
            verdict = "no test runs it" if executed.is_recorded(mutant.file) else "left out"
            if tests:
                seconds = sum(executed.seconds[test] for test in tests)
                verdict = verdict_on(mutant, tests, seconds, copy)
            line = {"key": _key(mutant), "verdict": verdict, "mutant": mutant.label}
            results.write(json.dumps({**line, "seconds": round(monotonic() - began, 1)}) + "\n")
            results.flush()


def _tell(found: Sequence[Mutant]) -> int:
    known = _results()
    verdicts = [(mutant, known[_key(mutant)]) for mutant in found]
    left = [(mutant, each) for mutant, each in verdicts if each not in ("noticed", "left out")]
    unexplained = [(mutant, verdict) for mutant, verdict in left if not equivalent(mutant)]
    for mutant, verdict in unexplained:
        print(f"{mutant.label}: {verdict}")
    left_out = sorted({str(mutant.file) for mutant, verdict in verdicts if verdict == "left out"})
    for file in left_out:
        print(f"{file}: left out, no test of it was recorded")
    excused = len(left) - len(unexplained)
    print(f"{len(found)} checks removed, {excused} excused, {len(unexplained)} survivors")
    return min(len(unexplained), 1)


def _forget_survivors() -> None:
    """Leave verdicts that tests of a new record cannot change."""
    if RESULTS.exists():
        lines = RESULTS.read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["verdict"] == "noticed"]
        RESULTS.write_text("".join(kept), "utf-8")


def _results() -> dict[str, str]:
    """Verdicts by key: of all shards, as far as they have come."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text("utf-8").splitlines()
    return {each["key"]: each["verdict"] for each in map(json.loads, lines)}


def _key(mutant: Mutant) -> str:
    """Another one once its file has changed."""
    return hashlib.sha256(f"{mutant.file}\n{mutant.source}".encode()).hexdigest()[:20]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
