"""An engine that does not start is left out of the turns, with the reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aotc.base.child_processes import Processes
from aotc.commands.tune import startup_measurement
from aotc.pipeline.parity_check import ProvisionalBundle

WORKER = """
import sys
from aotc.base.workers.worker_child import answer

spawned, bundle, policy = sys.argv[1:4]
if bundle == "crashing":
    __import__("os").abort()
answer(type(None), lambda job, progress: (float(len(bundle)), 7))
"""


def measured(
    folder: Path, *bundles: str
) -> tuple[dict[str, list[tuple[float, int]]], dict[str, str]]:
    made = {name: ProvisionalBundle(Path(name), folder / "trust.toml") for name in bundles}
    return startup_measurement.measure(made, folder, dict(os.environ), Processes())


def test_a_bundle_that_does_not_load_is_told_by_its_code(tmp_path: Path) -> None:
    started, failed = measured(tmp_path, "gone.aotb")
    assert started == {}
    assert failed["gone.aotb"].startswith("AOTC-E")


def test_a_process_that_crashes_keeps_no_other_from_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_measurement, "COMMAND", (sys.executable, "-c", WORKER))
    started, failed = measured(tmp_path, "xla", "crashing")
    assert started == {"xla": [(3.0, 7)] * startup_measurement.ROUNDS}
    assert failed == {"crashing": "its process was killed by SIGABRT"}
