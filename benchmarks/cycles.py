"""Load and close digits 200 times: what a process keeps.

`python -m benchmarks.cycles [CYCLES]`. Growth is counted after the first cycles, which fill caches
that stay; the goal is under 5 % of all resident memory.
"""

from __future__ import annotations

import sys

from benchmarks import bundles
from benchmarks.measure import verdict
from benchmarks.processes import answer, finish, start

CYCLES = 200
WARM_UP = 5

CODE = """
import gc, json, os, sys
import numpy as np
import aotc_runtime

def held():
    gc.collect()
    text = open("/proc/self/status").read().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in text if " kB" in line}
    maps = open("/proc/self/maps").read().count("\\n")
    files = len(os.listdir("/proc/self/fd"))
    return {"VmRSS": sizes["VmRSS"], "RssAnon": sizes["RssAnon"], "maps": maps, "files": files}

image = np.zeros((8, 64), np.float32)
for number in range(int(sys.argv[3]) + int(sys.argv[4])):
    if number == int(sys.argv[3]):
        before = held()
    with aotc_runtime.load(sys.argv[1], trust=sys.argv[2]) as bundle:
        bundle["predict"](image)
after = held()
print(json.dumps({f"{k} {w}": v for w, x in (("0", before), ("1", after)) for k, v in x.items()}),
      flush=True)
"""


def main(cycles: int) -> None:
    """Measure and print."""
    digits = bundles.digits()
    arguments = (str(digits.bundle), str(digits.policy), str(WARM_UP), str(cycles))
    process = start(CODE, *arguments)
    found = answer(process)
    finish([process])
    print(f"{cycles} times load, call and close, after {WARM_UP}")
    for name, title in (("VmRSS", "resident"), ("RssAnon", "private")):
        before, after = found[f"{name} 0"], found[f"{name} 1"]
        grown = f"{before / 2**20:6.1f} -> {after / 2**20:6.1f} MiB  {after / before - 1:+7.2%}"
        goal = f"  goal < 5%  {verdict(after / before, 1.05)}" if name == "VmRSS" else ""
        print(f"  {title:<10} {grown}{goal}")
    for name in ("maps", "files"):
        print(f"  {name:<10} {found[f'{name} 0']:6} -> {found[f'{name} 1']:6}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CYCLES)
