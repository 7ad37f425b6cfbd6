"""Milliseconds of importing by package, for importing and for loading digits.

`python -m benchmarks.import_budget [ROUNDS]`. What numpy and jaxlib import on their own counts for
them, whoever asks first; other modules of the standard library count for the package that asked
for them first, because that is who can stop asking. `-X importtime` itself costs a little, so the
sum is somewhat more than the same imports take without it.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from benchmarks import bundles
from benchmarks.measure import ROOT, machine, verdict

ROUNDS = 9
OWN_BUDGET = 0.5
"""What aotc-runtime may add to numpy and jaxlib, which nothing that runs XLA can do without: a part
of the time that numpy and what it imports took in the same process.
"""

LARGEST_SHOWN = 8

PACKAGES = ("numpy", "jaxlib", "msgspec", "cryptography", "aotc_runtime")
ALIASES = {"ml_dtypes": "jaxlib", "_cffi_backend": "cryptography", "typing_extensions": "msgspec"}
SHARED = "shared"
"""The group of modules that numpy and jaxlib import as well, by whomever they are imported."""

FLOOR = ("python", SHARED, "numpy", "jaxlib")
"""Groups that are not ours: what `import jaxlib.xla_client` costs by itself."""


READY = "-- imported --"
FLOOR_CODE = f"""
import sys
import numpy
sys.stderr.write({READY!r} + "\\n")
import ml_dtypes
import jaxlib.xla_client
"""
CODE = f"""
import sys
from aotc_runtime import load
sys.stderr.write({READY!r} + "\\n")
load(sys.argv[1], trust=sys.argv[2])
"""

_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|( +)(\S+)\Z")


@dataclass(frozen=True, slots=True)
class Imported:
    """One module. self_us: its own microseconds, without what it imported in turn."""

    module: str
    depth: int
    self_us: int
    stage: str


def parse(stderr: str) -> list[Imported]:
    """The modules in the order in which Python finished importing them."""
    found = []
    stage = "import"
    for line in stderr.splitlines():
        if line == READY:
            stage = "load"
        elif match := _LINE.match(line):
            found.append(Imported(match[3], len(match[2]) // 2, int(match[1]), stage))
    return found


def with_groups(
    imported: Iterable[Imported], shared: frozenset[str]
) -> Iterator[tuple[str, Imported]]:
    """Each module with the package that it counts for. shared: those that the floor imports."""
    # Python prints a module after everything that it imported: backwards, parents come first.
    parents: list[tuple[int, str]] = []
    for each in reversed(list(imported)):
        while parents and parents[-1][0] >= each.depth:
            parents.pop()
        package = each.module.partition(".")[0]
        package = ALIASES.get(package, package)
        inherited = parents[-1][1] if parents else "python"
        group = package if package in PACKAGES else inherited
        parents.append((each.depth, group))
        yield SHARED if group not in FLOOR and each.module in shared else group, each


def by_group(imported: Iterable[Imported], shared: frozenset[str]) -> dict[tuple[str, str], float]:
    """Milliseconds by (group, stage)."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for group, each in with_groups(imported, shared):
        sums[group, each.stage] += each.self_us / 1000
    return sums


def imports_once(measured: bundles.Measured) -> list[Imported]:
    """The imports of a fresh process that loads the bundle."""
    return run(CODE, str(measured.bundle), str(measured.policy))


def floor_once() -> list[Imported]:
    """The imports of a fresh process that imports numpy, and then jaxlib."""
    return run(FLOOR_CODE)


def run(code: str, *arguments: str) -> list[Imported]:
    """The imports of a fresh process that runs the code."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code, *arguments],
        cwd=ROOT / "manifests",
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        check=True,
        capture_output=True,
        text=True,
    )
    return parse(done.stderr)


def main(rounds: int) -> None:
    """Measure and print."""
    measured = bundles.digits()
    imports_once(measured)
    floor = floor_once()
    runs = [imports_once(measured) for _ in range(rounds)]
    shared = frozenset(each.module for each in floor)
    sums = [by_group(run, shared) for run in runs]
    where = ", ".join(f"{key} {value}" for key, value in machine().items())
    print(f"import budget, median of {rounds} processes, ms ({where})")
    print(f"  {'':<14} {'import':>8} {'load':>8} {'modules':>9}")
    medians = {
        (group, stage): statistics.median(each.get((group, stage), 0.0) for each in sums)
        for group in ("python", SHARED, *PACKAGES)
        for stage in ("import", "load")
    }
    modules: dict[str, int] = defaultdict(int)
    for group, _ in with_groups(runs[-1], shared):
        modules[group] += 1
    for group in ("python", SHARED, *PACKAGES):
        times = "".join(f" {medians[group, stage]:8.1f}" for stage in ("import", "load"))
        print(f"  {group:<14}{times} {modules[group]:>9}")
    own = sum(ms for (group, _), ms in medians.items() if group not in FLOOR)
    numpy = modules_of_numpy(floor)
    ratio = statistics.median(_ratio(run, shared, numpy) for run in runs)
    largest = sorted(_module_medians(runs, shared).items(), key=lambda item: -item[1])
    named = ", ".join(f"{module} {ms:.1f}" for module, ms in largest[:LARGEST_SHOWN])
    print(
        f"  ours, that is without {', '.join(FLOOR)}: {own:.1f} ms; {ratio:.2f} of what numpy took "
        f"in the same process (goal {OWN_BUDGET}: {verdict(ratio, OWN_BUDGET)})"
    )
    print(f"  most of it  {named}")


def modules_of_numpy(floor: Iterable[Imported]) -> frozenset[str]:
    """List numpy and what importing it imports in a new process."""
    before = [each for each in floor if each.stage == "import"]
    numpy = before.pop()
    assert numpy.module == "numpy", "the last of the first stage"
    # Python prints a module after everything that it imported.
    inside = takewhile(lambda each: each.depth > numpy.depth, reversed(before))
    return frozenset({"numpy", *(each.module for each in inside)})


def _ratio(run: list[Imported], shared: frozenset[str], numpy: frozenset[str]) -> float:
    """Return our share of a process as a part of what numpy took in the same process."""
    ours = sum(each.self_us for group, each in with_groups(run, shared) if group not in FLOOR)
    return ours / sum(each.self_us for each in run if each.module in numpy)


def _module_medians(runs: list[list[Imported]], shared: frozenset[str]) -> dict[str, float]:
    """Milliseconds of each module that is ours to import or not."""
    times: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for group, each in with_groups(run, shared):
            if group not in FLOOR:
                times[each.module].append(each.self_us / 1000)
    return {module: statistics.median(values) for module, values in times.items()}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
