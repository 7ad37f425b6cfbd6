"""`python -m scripts.mutation TEXT…`: list the checks that nothing misses once they are gone.

TEXT: for modules alone whose path holds one of these; all without it. `--record TEST…` runs tests
first and keeps which lines each runs.
"""

import argparse
import gc
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from time import monotonic

from hypothesis import Phase, settings

from .checkout import OUT, copied
from .mutants import Mutant, equivalent, mutants, needless_excuses
from .recording import DATA, Executed, record
from .trying import nearest, verdict_on

RESULTS = OUT / "results.jsonl"
RECORDED = ("tests/unit", "tests/hostile")
PRELOADED = (
    *(
        "jax",
        "jax.extend",
        "jax.scipy.linalg",
        "jax.scipy.special",
        "numpy",
        "hypothesis",
        "msgspec",
    ),
    *("pydantic.dataclasses", "pydantic.main", "pydantic.type_adapter", "tomlkit", "psutil"),
    *("cryptography.x509", "cryptography.hazmat.primitives.serialization", "google.protobuf"),
)
"""Libraries that most tests import: the processes of tests are forked with them."""

SO_FAR, SECONDS_FIRST, SECONDS_LAST = "survived the nearest tests", 20, 300
"""Verdict of the first pass, and seconds of its tests and of the last, nearest first. All may
take an hour, and a mutant that survives few tests mostly survives all."""

SECONDS_OF_IMPORT = 0.5
"""About what importing a file of tests takes."""


def main(arguments: Sequence[str]) -> int:
    """1 if there are survivors that are not accounted for, or excuses for none."""
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
    """Append the verdict on each that has none by then, from another process or an earlier run.

    Few tests try each; more come last, for what survived these and is not excused.
    """
    executed = Executed()
    for name in PRELOADED:
        importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutation")
    # A collection of garbage, of which each process of tests has several, passes by what is there.
    gc.freeze()
    with copied() as copy, RESULTS.open("a", encoding="utf-8") as results:
        for seconds in (SECONDS_FIRST, SECONDS_LAST):
            for mutant in found:
                line = _tried(mutant, executed, seconds, copy)
                results.write(json.dumps(line) + "\n" if line else "")
                results.flush()


def _tried(mutant: Mutant, executed: Executed, seconds: float, copy: Path) -> dict[str, object]:
    """Return a line of the results; nothing where all is known that tests so long can tell."""
    known = _results()
    there = known.get(mutant.key, {})
    is_last = seconds == SECONDS_LAST
    if there and (there["verdict"] != SO_FAR or not is_last or equivalent(mutant)):
        return {}
    began = monotonic()
    tests = executed.tests_of(mutant.file, mutant.lines)
    verdict, by = "no test runs it" if executed.is_recorded(mutant.file) else "left out", ""
    if near := nearest(mutant, tests, executed, copy):
        some = list(_within(near, seconds, executed.seconds))
        verdict, by = verdict_on(mutant, some, executed.seconds, copy)
        if verdict == "survived" and some != near and not is_last:
            verdict = SO_FAR
    line = {"key": mutant.key, "verdict": verdict, "mutant": mutant.label, "by": by}
    return {**line, "seconds": round(monotonic() - began, 1)}


def _within(tests: Sequence[str], seconds: float, each: Mapping[str, float]) -> Iterator[str]:
    """Yield the first test, and more while they fit into a time with the imports of their files."""
    files: set[str] = set()
    for test in tests:
        file = test.partition("::")[0]
        seconds -= each[test] + (0 if file in files else SECONDS_OF_IMPORT)
        if seconds < 0 and files:
            return
        files.add(file)
        yield test


def _tell(found: Sequence[Mutant]) -> int:
    known = _results()
    verdicts = [(mutant, known[mutant.key]["verdict"]) for mutant in found]
    left = [(mutant, each) for mutant, each in verdicts if each not in ("noticed", "left out")]
    unexplained = [(mutant, verdict) for mutant, verdict in left if not equivalent(mutant)]
    for mutant, verdict in unexplained:
        print(f"{mutant.label}: {verdict}")
    left_out = sorted({str(mutant.file) for mutant, verdict in verdicts if verdict == "left out"})
    for file in left_out:
        print(f"{file}: left out, no test of it was recorded")
    needless = needless_excuses()
    for excuse in needless:
        print(f"{excuse}: excused, and no check of the modules any more")
    excused = len(left) - len(unexplained)
    print(f"{len(found)} checks removed, {excused} excused, {len(unexplained)} survivors")
    return min(len(unexplained) + len(needless), 1)


def _forget_survivors() -> None:
    """Leave verdicts that tests of a new record cannot change."""
    if RESULTS.exists():
        lines = RESULTS.read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["verdict"] == "noticed"]
        RESULTS.write_text("".join(kept), "utf-8")


def _results() -> dict[str, dict[str, str]]:
    """Lines by key, the last of each: of all shards, as far as they have come."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text("utf-8").splitlines()
    return {each["key"]: each for each in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
