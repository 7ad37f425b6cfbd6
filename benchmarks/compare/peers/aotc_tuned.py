"""Ours, with engine and options chosen by measurement at build, of all that are installed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import aotc
from benchmarks.compare.peers.aotc import imports, leaves, version

__all__ = ["imports", "leaves", "load", "prepare", "version"]

NAME = "tuned"
ENGINES = {
    "iree": ("iree.compiler", "iree.runtime"),
    "onnxruntime": ("onnx", "onnxruntime"),
    "openvino": ("onnx", "openvino"),
}


def prepare(case: Path) -> Sequence[Path]:
    from aotc.commands.tune.tuning_service import Measure

    text = (case / "program" / "manifest.toml").read_text()
    listed = f'targets = ["native"]\nengines = {json.dumps(engines())}\n'
    (case / "program" / "tuned.toml").write_text(text.replace('targets = ["native"]\n', listed))
    return aotc.prepare(case, NAME, Measure(), "tuned.toml")


def engines() -> list[str]:
    """XLA, and those whose compiler and runtime are installed."""
    return ["xla", *(name for name, needs in ENGINES.items() if all(map(is_there, needs)))]


def is_there(module: str) -> bool:
    """Return whether a module can be imported."""
    parent = module.partition(".")[0]
    return find_spec(parent) is not None and find_spec(module) is not None


def load(case: Path) -> Callable[[Any], Any]:
    return aotc.load(case, NAME)
