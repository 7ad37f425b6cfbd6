"""Processor names and target files are what the compiler's own tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aotc.compile.cpu import cpu_isa
from aotc.compile.cpu.cpu_kind import CpuModel
from aotc.compile.target_files import list_targets

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "llvm_processors.py"


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60
    )


def test_targets_and_names_agree_with_the_compiler_that_is_installed() -> None:
    done = script("check")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_knows_the_features_of_a_processor() -> None:
    name, _, features = script("show", "x86-64-v3").stdout.partition(": ")
    v3 = next(model for model in list_targets(ROOT)[0].values() if model.name == "cpu-x86-64-v3")
    assert name == "x86-64-v3"
    assert isinstance(v3, CpuModel) and features.split() == v3.features


def test_every_name_is_one_that_a_target_may_use_and_stands_once() -> None:
    assert len(set(cpu_isa.CPUS)) == len(cpu_isa.CPUS)
    named = {model.cpu for model in list_targets(ROOT)[0].values() if isinstance(model, CpuModel)}
    assert named and named <= set(cpu_isa.CPUS)
