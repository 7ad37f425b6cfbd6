"""Contestants, and the environments that the others need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare.cases import Case
from benchmarks.compare.worker import START
from benchmarks.measure import OUT, ROOT

ENVIRONMENTS = OUT / "envs"
INSTALL_SECONDS_MAX = 900
PREPARE_SECONDS_MAX = 3600
SERVE_SECONDS_MAX = 300


class LeftOutError(Exception):
    """Reasons why a peer, or a peer with one model, is not measured."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer of the comparison.

    `module` is its name in benchmarks.compare.peers. `requires` lists what pip installs into an
    environment named for the first of these; none for peers that run in aotc's own.
    """

    name: str
    module: str
    requires: tuple[str, ...] = ()


SAME_JAX = tuple(f"{name}=={version(name)}" for name in ("jax", "jaxlib", "numpy"))

ONNX_RUNTIME = Contestant("onnxruntime", "onnxruntime", ("onnxruntime", "onnx", "numpy"))
TORCH = ("torch", "numpy", "setuptools")
EAGER = Contestant("torch, eager", "torch_eager", TORCH)

CONTESTANTS = (
    Contestant("aotc", "aotc"),
    Contestant("aotc --tune", "aotc_tuned"),
    Contestant("jax.jit", "jit"),
    Contestant("jax.jit, cached", "jit_cached"),
    Contestant("jax.export", "export", (*SAME_JAX, "flatbuffers", "equinox", "safetensors")),
    ONNX_RUNTIME,
    Contestant("openvino", "openvino", ("openvino", "onnx", "numpy")),
    Contestant("iree", "iree", ("iree-base-compiler", "iree-base-runtime", "numpy")),
    Contestant("AOTInductor", "aotinductor", TORCH),
    EAGER,
    Contestant("torch.compile", "torch_compile", TORCH),
)

WRITERS = {
    "pt2": (EAGER, "benchmarks.compare.torch_models"),
    "onnx": (ONNX_RUNTIME, "benchmarks.compare.onnx_graphs"),
}
"""By the ending of a model file: in whose environment it is written, and by which module."""


def python_of(contestant: Contestant) -> str:
    """The Python that runs it; makes its environment first. Raises LeftOutError."""
    if not contestant.requires:
        return sys.executable
    folder = ENVIRONMENTS / contestant.requires[0].partition("=")[0]
    python, wanted = folder / "bin" / "python", json.dumps(contestant.requires)
    stamp = folder / "installed.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    print(f"installing {', '.join(contestant.requires)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _checked([sys.executable, "-m", "venv", str(folder)], INSTALL_SECONDS_MAX)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _checked([*pip, *contestant.requires], INSTALL_SECONDS_MAX)
    stamp.write_text(wanted)
    return str(python)


def write_file(case: Case) -> None:
    """Write the model file that aotc builds, beside its build manifest. Raises LeftOutError."""
    contestant, module = WRITERS[case.file]
    code = (
        f"import sys; from pathlib import Path; from {module} import write; "
        "write(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    file = case.folder / "program" / f"model.{case.file}"
    command = [python_of(contestant), "-c", code, str(case.folder), str(file)]
    _checked(command, PREPARE_SECONDS_MAX)


def prepare(contestant: Contestant, python: str, case: Path) -> dict[str, Any]:
    """Make the artifact: its bytes, the seconds that took, and the version. Raises LeftOutError."""
    return _answer(contestant, python, "prepare", case, 0.0, PREPARE_SECONDS_MAX)


def serve(contestant: Contestant, python: str, case: Path, seconds: float) -> dict[str, Any]:
    """One fresh process from its start to its results. Raises LeftOutError."""
    document = _answer(contestant, python, "serve", case, seconds, SERVE_SECONDS_MAX)
    if not document["correct"]:
        raise LeftOutError(f"its results are others, by {document['max_abs_error']:.2g}")
    return document


def _answer(
    contestant: Contestant, python: str, mode: str, case: Path, seconds: float, limit: float
) -> dict[str, Any]:
    arguments = (str(time.monotonic()), mode, contestant.module, str(case), str(seconds))
    printed = _checked([python, "-c", START, *arguments], limit)
    document: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return document


def _checked(command: Sequence[str], seconds_max: float) -> str:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("JAX_", "XLA_", "TF_", "PYTHON"))
    }
    # The examples are what the jax peers call; the runtime is this checkout's, not another's.
    environment["PYTHONPATH"] = f"{ROOT / 'manifests'}{os.pathsep}{ROOT / 'runtime'}"
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LeftOutError(f"not done after {seconds_max:.0f} s") from error
    if done.returncode != 0:
        raise LeftOutError(_reason(done.stderr) or f"exit status {done.returncode}")
    return done.stdout


def _reason(stderr: str) -> str:
    """The line that says most: a compiler's first error, else what an exception ends with."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error: " in line]
    return (errors or lines[-1:] or [""])[0][:300]
