"""A program's way from its manifest to results without jax, each step as its user takes it."""

import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .compared import Compared, compare

HERE = Path(__file__).resolve().parent
SEED = 7
STEPS = 6
"""Calls of an entry point, each with other inputs and some with results of the one before."""


@dataclass(frozen=True)
class Places:
    """server: the interpreter of an environment with the runtime alone.  key: path of a private
    key, beside it the public one.
    """

    server: Path
    key: Path


@dataclass(frozen=True)
class Made:
    """compared: by entry point.  seconds: of processors.  size: of the bundle, in bytes."""

    compared: Mapping[str, Compared]
    seconds: float
    size: int


def ran(command: list[str | Path], environment: Mapping[str, str], folder: Path) -> str:
    """Return what a command that has to succeed printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.args[:5]} failed:\n{done.stderr[-6000:]}"
    return done.stdout


def processor_seconds() -> float:
    """Of child processes so far: unlike a clock, they do not count other work on the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def round_trip(
    module: str, text: str, environment: Mapping[str, str], places: Places, folder: Path
) -> Made:
    """Build, sign, verify and load a program, and compare it with plain JAX.

    module: with the functions that `text`, a build manifest, names.  folder: an empty one.
    """
    started = processor_seconds()
    manifest = tomllib.loads(text)
    (folder / "manifest.toml").write_text(text)
    bundle, policy = folder / "program.aotb", folder / "trust.toml"
    reference, served = folder / "reference", folder / "served"
    aotc: list[str | Path] = [sys.executable, "-m", "aotc.cli.main"]
    beside = {**environment, "PYTHONPATH": str(HERE)}
    build = ("build", "manifest.toml", "--key", places.key, "--output", bundle, "--keep-going")
    ran([*aotc, *build], beside, folder)
    public = places.key.with_suffix(".pub")
    trust = ("trust", "init", "--key", public, "--name", manifest["name"], "--output", policy)
    ran([*aotc, *trust], {}, folder)
    ran([*aotc, "verify", bundle, "--trust", policy], {}, folder)
    plain = (HERE / "reference.py", module, "manifest.toml", str(SEED), str(STEPS), reference)
    ran([sys.executable, *plain], beside, folder)
    load = (HERE / "server.py", bundle, policy, reference, served)
    ran([places.server, *load], {}, folder)
    compared = compare(reference, served, manifest)
    return Made(compared, processor_seconds() - started, bundle.stat().st_size)
