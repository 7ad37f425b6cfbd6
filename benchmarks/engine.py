"""Time that the build engine saves: a build without a change, and two jobs instead of one.

`python -m benchmarks.engine rebuild [--rounds N]`: every example into an empty cache, then again.
`python -m benchmarks.engine jobs [--rounds N]`: vision and lm, 3 targets, 4 profiles, no cache.
`python -m benchmarks.engine many [--rounds N] [--functions N]`: generated functions, 4 profiles, 2
targets; their compilations in the build beside the same ones in a loop in one process, and both
numbers of jobs.
`python -m benchmarks.engine use`: what loading, calling and reporting cost with 10, 100 and 1,000
executables in a bundle, those of a few functions under many names.
Figures are ratios of builds in turns: other work on the machine changes both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import many as generated
from benchmarks.measure import ROOT, paired_ratio, verdict

EXAMPLES = ("digits", "gp", "lm", "train", "vision")
TARGETS = ("cpu-x86-64-v2", "cpu-x86-64-v3", "cpu-x86-64-v4")
REBUILD_GOAL = 0.35
JOBS_GOAL = 1 / 1.7
MANY_GOAL = 1.5

FOUR_PROFILES = {
    "vision": (("profiles = [1, 4]", "profiles = [1, 2, 4, 8]"),),
    "lm": (("profiles = [1, 2]", "profiles = [1, 2, 3, 4]"), ("[16, 32]", "[32]")),
}
"""By example, how its manifest gets four profiles for every entry point."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A build by the command line. ran: kinds of the tasks that were not cached."""

    seconds: float
    ran: tuple[str, ...]
    root_digest: str


def built(manifest: Path, folder: Path, *arguments: str) -> Timed:
    """Build in a process of its own."""
    started = time.perf_counter()
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "aotc.cli.main", "build", str(manifest), "--json"),
            *("-o", str(folder / "bundle.aotb"), *arguments),
        ],
        stdout=subprocess.PIPE,
        check=True,
        cwd=folder,
    )
    seconds = time.perf_counter() - started
    document: dict[str, Any] = json.loads(done.stdout)
    ran = tuple(task["kind"] for task in document["tasks"] if not task["cached"])
    return Timed(seconds, ran, document["root_digest"])


def rebuild(rounds: int) -> bool:
    """Clean builds of all examples, then the same again with nothing changed."""
    clean: list[float] = []
    again: list[float] = []
    ran: set[str] = set()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            cache = ("--cache", str(folder / "cache"))
            pairs = []
            for example in EXAMPLES:
                manifest = ROOT / "manifests" / f"{example}.toml"
                first, second = (built(manifest, folder, *cache) for _ in range(2))
                assert first.root_digest == second.root_digest, example
                ran |= set(second.ran)
                pairs.append((first.seconds, second.seconds))
                print(f"  {example:<8} {first.seconds:6.1f} s  {second.seconds:6.2f} s")
            clean.append(sum(first for first, _ in pairs))
            again.append(sum(second for _, second in pairs))
    ratio = paired_ratio(again, clean)
    print(f"no-change rebuild of all examples  {ratio:.1%} of the clean build")
    print(f"goal: at most {REBUILD_GOAL:.0%}  {verdict(ratio, REBUILD_GOAL)}")
    print(f"goal: no compiler starts  {'met' if 'executable' not in ran else 'missed'}")
    return ratio <= REBUILD_GOAL and ran == {"capture", "pack"}


def jobs(rounds: int) -> bool:
    """Measure the same builds with one job and with two, in turns, on two processors.

    One job on one processor, which has no goal, shows the use of a second processor.
    """
    two = sorted(os.sched_getaffinity(0))[:2]
    seconds: dict[tuple[int, int], list[float]] = {(1, 2): [], (2, 2): [], (1, 1): []}
    digests: set[tuple[str, str]] = set()
    targets = [argument for name in TARGETS for argument in ("--target", name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for example, changes in FOUR_PROFILES.items():
            shutil.copytree(ROOT / "manifests" / example, folder / example)
            text = (ROOT / "manifests" / f"{example}.toml").read_text()
            for before, after in changes:
                assert before in text, before
                text = text.replace(before, after)
            (folder / f"{example}.toml").write_text(text)
        for _ in range(rounds):
            for (count, processors), totals in seconds.items():
                os.sched_setaffinity(0, two[:processors])
                total = 0.0
                for example in FOUR_PROFILES:
                    options = ("--cache", "off", "--jobs", str(count), *targets)
                    timed = built(folder / f"{example}.toml", folder, *options)
                    digests.add((example, timed.root_digest))
                    total += timed.seconds
                    where = f"--jobs {count}, processors: {processors}"
                    print(f"  {example:<8} {where}  {timed.seconds:6.1f} s")
                totals.append(total)
    ratio = paired_ratio(seconds[2, 2], seconds[1, 2])
    alone = paired_ratio(seconds[2, 2], seconds[1, 1])
    print(f"two jobs are {1 / ratio:.2f} times as fast as one")
    print(f"goal: 1.7 times  {verdict(ratio, JOBS_GOAL)}")
    print(f"two jobs are {1 / alone:.2f} times as fast as one job on one processor")
    print(f"the same root digests  {'met' if len(digests) == len(FOUR_PROFILES) else 'missed'}")
    return ratio <= JOBS_GOAL and len(digests) == len(FOUR_PROFILES)


def many(rounds: int, functions: int) -> bool:
    """Measure a generated program with many entry points.

    Processor seconds are shown beside wall time: other work on the machine changes them less.
    """
    loop: list[generated.Spent] = []
    ours: dict[int, list[generated.Spent]] = {1: [], 2: []}
    whole: dict[int, list[generated.Spent]] = {1: [], 2: []}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = generated.write(folder, functions)
        compilations = generated.compilations(manifest, folder)
        print(f"{len(compilations)} executables")
        for _ in range(rounds):
            loop.append(generated.in_a_loop(compilations, folder))
            print(f"  in a loop             {loop[-1]}")
            for count in (1, 2):
                ours[count].append(generated.as_a_build(compilations, count))
                print(f"  compiled, --jobs {count}    {ours[count][-1]}")
            for count in (1, 2):
                meter = generated.Meter()
                built(manifest, folder, "--cache", "off", "--jobs", str(count))
                whole[count].append(meter.read())
                print(f"  whole build, --jobs {count} {whole[count][-1]}")
    ratio = paired_ratio([s.seconds for s in ours[2]], [s.seconds for s in loop])
    work = paired_ratio([s.processor for s in ours[2]], [s.processor for s in loop])
    print(f"with two jobs an executable takes {ratio:.2f} times what it takes in a loop")
    print(f"goal: at most {MANY_GOAL:g} times  {verdict(ratio, MANY_GOAL)}")
    print(f"and {work:.2f} times the seconds of processors")
    for what, each in (("compiled", ours), ("built", whole)):
        faster = paired_ratio([s.seconds for s in each[1]], [s.seconds for s in each[2]])
        print(f"{what} with two jobs {faster:.2f} times as fast as with one")
    return ratio <= MANY_GOAL


def use() -> bool:
    """Bundles of more and more executables, beside each other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = generated.write(folder, 4, targets=generated.TARGETS[:1])
        built(manifest, folder, "--cache", "off")
        print("| executables | load, ms | a call, us | report, s | inspect, s |")
        print("|---|---|---|---|---|")
        found = {}
        for count in (4, 10, 100, 1000):
            bundle, trust = generated.repeated(folder / "bundle.aotb", count, folder)
            each = found[count] = min(
                (generated.used(bundle, trust) for _ in range(3)), key=lambda each: each.loading
            )
            print(
                f"| {count} | {each.loading * 1e3:.0f} | {each.call * 1e6:.1f} | "
                f"{each.reporting:.2f} | {each.inspecting:.2f} |"
            )
    for what in ("loading", "reporting", "inspecting"):
        few, some, many = (getattr(found[count], what) for count in (4, 100, 1000))
        print(
            f"{what}: another executable adds {(some - few) / 96 * 1e3:.2f} ms up to 100, "
            f"{(many - some) / 900 * 1e3:.2f} ms up to 1000"
        )
    print(f"a call costs {found[1000].call / found[4].call:.2f} times what it does among 4")
    return True


def main() -> int:
    """Measure; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurement", choices=("jobs", "many", "rebuild", "use"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--functions", type=int, default=30)
    given = parser.parse_args()
    measurements: dict[str, Callable[[], bool]] = {
        "jobs": lambda: jobs(given.rounds),
        "many": lambda: many(given.rounds, given.functions),
        "rebuild": lambda: rebuild(given.rounds),
        "use": use,
    }
    return 0 if measurements[given.measurement]() else 1


if __name__ == "__main__":
    sys.exit(main())
