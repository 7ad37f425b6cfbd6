"""Time that `aotc profiles suggest` takes for a log of a million calls with a long tail.

`python -m benchmarks.traffic [ROUNDS]`: writes the log into out/bench and runs the command as a
user does, in processes of its own. The answer is the same each time; the seconds are not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import OUT, ROOT, machine

REQUESTS = 1_000_000
ROUNDS = 5
SECONDS_MAX = 10.0
MANIFEST = ROOT / "manifests" / "encoder.toml"


def write_log(path: Path, requests: int) -> None:
    """Batches mostly of one text, lengths by a lognormal whose tail is cut at the range."""
    random = np.random.default_rng(0)
    batch = np.minimum(random.geometric(0.5, requests), 32).tolist()
    seq = np.clip(random.lognormal(2.6, 0.8, requests), 1, 64).astype(int).tolist()
    lines = (f'{{"batch": {b}, "seq": {s}}}\n' for b, s in zip(batch, seq, strict=True))
    path.write_text("".join(lines), "utf-8")


def suggest(log: Path) -> tuple[float, dict[str, object]]:
    """Seconds, and the document that the command prints."""
    command = [sys.executable, "-m", "aotc.cli.main", "profiles", "suggest", str(MANIFEST)]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--traffic", str(log), "--max", "8", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    document: dict[str, object] = json.loads(done.stdout)
    return seconds, document


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / "traffic.jsonl"
    write_log(log, REQUESTS)
    found = [suggest(log) for _ in range(rounds)]
    log.unlink()
    seconds = [each for each, _ in found]
    document = found[0][1]
    suggested = [other["suggested"] for _, other in found]
    chosen = {json.dumps(each["profiles"]) for each in suggested if isinstance(each, dict)}
    assert len(chosen) == 1, "the choice is the same every time"
    print(machine())
    median = statistics.median(seconds)
    print(f"{REQUESTS} calls: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    for key in ("today", "suggested"):
        side = document[key]
        assert isinstance(side, dict)
        print(f"{key}: cost {side['cost']:.4g}, coverage {side['coverage']:.4f}")
    print(f"method: {document['method']}, optimal: {document['optimal']}")
    return 0 if median < SECONDS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
