"""Verification of 2 GiB of weights: its speed, its memory, and what worker processes share.

`python -m benchmarks.verification [ROUNDS]`. Speed is a ratio to what all cores hash, measured in
the same process in turns; memory is what the kernel counted. Takes 5 GB in out/bench, given back.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from benchmarks.measure import OUT, ROOT, machine
from benchmarks.processes import answer, finish, mapped, start, status

ROUNDS = 7
WORKERS = 4
MIB = 2**20

SPEED = """
import json, os, sys, threading, time
from pathlib import Path
from aotc_runtime.base.digest import sha256
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.bundle_examination import verify

path, policy, rounds = sys.argv[1], read_policy(Path(sys.argv[2])), int(sys.argv[3])
facts = detect()
cores, size = len(os.sched_getaffinity(0)), os.path.getsize(path)
buffers = [memoryview(bytearray(os.urandom(64 * 2**20))) for _ in range(cores)]

def timed(run, count):
    # Seconds and processor seconds for each byte; to unmap the bundle again is none of them.
    wall, processor = time.perf_counter(), time.process_time()
    kept = run()
    return (time.perf_counter() - wall) / count, (time.process_time() - processor) / count

def ceiling():
    # As many bytes as the bundle has, from memory, one thread for each core.
    times = round(size / (cores * len(buffers[0])))
    def work(buffer):
        for _ in range(times):
            sha256(buffer)
    threads = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
    def run():
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return timed(run, times * cores * len(buffers[0]))

def verification():
    return timed(lambda: verify(open_bundle(path), policy, facts, time.time()), size)

def forget():
    # Take the file out of the page cache.
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)

def reading():
    # All of the file, once, with one buffer for each core: what the disk gives.
    forget()
    def work(number):
        with open(path, "rb", buffering=0) as file:
            for at in range(number * 2**24, size, cores * 2**24):
                file.seek(at)
                left = 2**24
                while left > 0 and (got := file.readinto(buffers[number][:min(left, 2**20)])):
                    left -= got
    threads = [threading.Thread(target=work, args=(number,)) for number in range(cores)]
    def run():
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return timed(run, size)

def cold():
    forget()
    return verification()

measured = {"ceiling": [], "warm": [], "reading": [], "cold": []}
verification()
for _ in range(rounds):
    for name, run in zip(measured, (ceiling, verification, reading, cold)):
        measured[name].append(run())
print(json.dumps(measured), flush=True)
"""

IMPORT = """
import sys
import jaxlib.xla_client
print("true", flush=True)
sys.stdin.read()
"""

VERIFY = """
import sys
import time
from pathlib import Path
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.bundle_examination import verify
source, policy = open_bundle(sys.argv[1]), read_policy(Path(sys.argv[2]))
verified = verify(source, policy, detect(), time.time())
print("true", flush=True)
sys.stdin.read()
"""

LOAD = """
import sys
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
print("true", flush=True)
sys.stdin.read()
"""


def speed(bundle: Path, policy: Path, rounds: int) -> None:
    """Print the rates: warm against hashing from memory, cold against reading the file.

    The ratio of processor seconds tells what other processes on the machine do not blur.
    """
    process = start(SPEED, str(bundle), str(policy), str(rounds))
    seconds: dict[str, list[tuple[float, float]]] = answer(process)
    finish([process])
    print(f"  {'':<34} {'median':>10} {'ratio':>7} {'processor':>10} {'goal':>6}")
    rows = (
        ("all cores hash from memory", "ceiling", "", ""),
        ("verify, in the page cache", "warm", "ceiling", "0.85"),
        ("all cores read the file from disk", "reading", "", ""),
        ("verify, from disk", "cold", "reading", ""),
    )
    for title, name, against, goal in rows:
        rate = 1e-9 / statistics.median(wall for wall, _ in seconds[name])
        line = f"  {title:<34} {rate:5.2f} GB/s"
        if against:
            pairs = list(zip(seconds[against], seconds[name], strict=True))
            line += f" {statistics.median(a[0] / b[0] for a, b in pairs):7.2f}"
            line += f" {statistics.median(a[1] / b[1] for a, b in pairs):10.2f} {goal:>6}"
        print(line)


def memory(bundle: Path, policy: Path, weights: int) -> None:
    """Print the peak of a process that verifies and of one that loads, and what workers share."""
    arguments = (str(bundle), str(policy))
    columns = f"{'all':>9} {'less weights':>14} {'private':>9} {'goal':>7}"
    print(f"  {'peak of a process that':<34} {columns}")
    for title, code, goal in (
        ("imports jaxlib alone", IMPORT, ""),
        ("verifies", VERIFY, "< 150"),
        ("loads, until it is ready", LOAD, ""),
    ):
        process = start(code, *arguments)
        answer(process)
        found = status(process)
        finish([process])
        peak, beyond = found["VmHWM"], found["VmHWM"] - (weights if code != IMPORT else 0)
        sizes = f"{peak / MIB:5.0f} MiB {beyond / MIB:10.0f} MiB {found['RssAnon'] / MIB:5.0f} MiB"
        print(f"  {title:<34} {sizes} {goal:>7}")
    workers = [start(LOAD, *arguments) for _ in range(WORKERS)]
    for worker in workers:
        answer(worker)
    maps = [mapped(worker, bundle) for worker in workers]
    finish(workers)
    resident, proportional = (sum(found[name] for found in maps) for name in ("Rss", "Pss"))
    copies = f"{proportional / weights:.2f} copies of the weights"
    print(f"  the bundle's maps in {WORKERS} workers: {resident / MIB:.0f} MiB resident (Rss)")
    print(f"    in {proportional / MIB:.0f} MiB of memory (Pss): {copies}")


def main(rounds: int) -> None:
    """Build, measure and print."""
    OUT.mkdir(parents=True, exist_ok=True)
    bundle, policy = OUT / "large.aotb", OUT / "large.trust.toml"
    if shutil.disk_usage(OUT).free < 8 * 2**30:
        raise SystemExit("not enough disk for a bundle of 2 GiB and its build")
    try:
        signer = LocalSigner.ephemeral()
        built = build(ROOT / "benchmarks" / "large.toml", bundle, BuildOptions(signer=signer))
        policy.write_text(policy_text("large", [signer.public_pem()]))
        manifest = next(iter(built.bundle.manifests.values()))
        refs = manifest.weights["params"].blobs
        weights = sum(ref.size for ref in refs)
        where = ", ".join(f"{key} {value}" for key, value in machine().items())
        print(f"verification of {weights / MIB:.0f} MiB in {len(refs)} blobs ({where})")
        speed(bundle, policy, rounds)
        memory(bundle, policy, weights)
    finally:
        bundle.unlink(missing_ok=True)
        policy.unlink(missing_ok=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
