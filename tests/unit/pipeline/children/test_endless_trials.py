"""A padded call that does not end is given up, with the process that makes it."""

import subprocess
import sys
from pathlib import Path

import msgspec

SCRIPT = """
import sys, threading
from pathlib import Path
from aotc.base.errors import ParityError
from aotc.pipeline.children.trial_reference import end_after
from aotc.check.trial_records import Call, EntryTrials, Trial
from aotc.check.trial_verdict import endless
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc.base.workers.worker_child import Progress

trial = Trial(Call(ExecutableKey("f", (("n", 3),))), ("n",), ({"n": 4},), "inf")
entry = EntryTrials("f", 0.0, 0.0, trials=(trial,))
progress = Progress(sys.stdout, Path(sys.argv[1]))
seconds = float(sys.argv[2])
refusal = lambda: ParityError(endless(entry, trial, seconds, lambda *keys: ".".join(keys)))
with end_after(seconds, refusal, progress):
    threading.Event().wait(float(sys.argv[3]))
"""


def ended(folder: Path, allowed: float, takes: float) -> tuple[int, list[dict[str, str]]]:
    arguments = map(str, (folder, allowed, takes))
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=False, timeout=60)
    file = folder / "findings.json"
    return done.returncode, msgspec.json.decode(file.read_bytes()) if file.exists() else []


def test_a_call_that_takes_too_long_is_refused_with_its_sizes_and_its_fill(tmp_path: Path) -> None:
    code, (finding,) = ended(tmp_path, 0.1, 60)
    assert (code, finding["code"]) == (8, "AOTC-E955")
    assert finding["where"].startswith("entry_points.f.out_of_profile.n, output")
    assert finding["found"] == (
        "none within 0 s from plain JAX itself, padded to n=4 and filled with infinity"
    )


def test_a_call_in_time_goes_on(tmp_path: Path) -> None:
    assert ended(tmp_path, 60, 0.01) == (0, [])
