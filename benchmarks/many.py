"""A program with many entry points, and what its executables cost.

`python -m benchmarks.engine many` and `use` measure them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from aotc.base.stages import CompileJob
from aotc.base.workers.forked_workers import zygotes_of
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.compile.xla.xla_compiler import XlaBackend, request_of
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline.build import build
from aotc.pipeline.build_plan import compile_jobs, resolve_candidates
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified

WIDTH = 64
PROFILES = (1, 4, 16, 64)
TARGETS = ("cpu-x86-64-v2", "cpu-x86-64-v3")

HEAD = '''"""Functions of the same shape and different steps."""

import jax
import jax.numpy as jnp
from jax import lax

'''

STEPS = (
    "x = jnp.tanh(x @ params['w{n}'])",
    "x = jax.nn.softmax(x * {scale}, axis=-1)",
    "x = x + jnp.sort(x, axis=-1)[:, ::-1] * {scale}",
    "x = lax.fori_loop(0, {count}, lambda i, v: jnp.sin(v) + {scale}, x)",
    "x = (x - x.mean(axis=-1, keepdims=True)) * lax.rsqrt(x.var(axis=-1, keepdims=True) + {scale})",
    "x = jnp.cumsum(x, axis=0) * {scale}",
    "x = jnp.where(x > {scale}, x, {scale} * jnp.exp(x))",
)
MATRICES = 3


def function(number: int) -> Iterator[str]:
    """The lines of a function, which has other steps than the others."""
    yield f"def f{number:03}(params, x):"
    for place in range(2 + number % 3):
        step = STEPS[(number * 3 + place * (1 + number // len(STEPS))) % len(STEPS)]
        scale = f"{0.125 + (number % 7) / 16:g}"
        text = step.format(n=(number + place) % MATRICES, scale=scale, count=3 + number % 5)
        yield f"    {text}"
    yield "    return x"
    yield ""


def entry_point(number: int) -> str:
    """Its part of the manifest."""
    return f"""
[entry_points.f{number:03}]
function = "functions:f{number:03}"
bind = {{ params = "params" }}
inputs.x = {{ shape = ["batch", {WIDTH}], dtype = "float32" }}
tolerance = {{ rtol = 1e-3, atol = 1e-4 }}

[entry_points.f{number:03}.fixtures]
seed = {number}
"""


def write(
    folder: Path,
    functions: int,
    profiles: Sequence[int] = PROFILES,
    targets: Sequence[str] = TARGETS,
) -> Path:
    """A program with so many functions, its weights and its manifest; the path of the last."""
    lines = [line for number in range(functions) for line in (*function(number), "")]
    (folder / "functions.py").write_text(HEAD + "\n".join(lines))
    chance = np.random.default_rng(0)
    weights = {
        f"w{n}": (chance.standard_normal((WIDTH, WIDTH)) / WIDTH).astype(np.float32)
        for n in range(MATRICES)
    }
    (folder / "weights.safetensors").write_bytes(write_tensors(weights, where="weights"))
    manifest = folder / "many.toml"
    sizes, names = ", ".join(map(str, profiles)), ", ".join(f'"{name}"' for name in targets)
    manifest.write_text(
        f"""schema = 1
name = "many"
version = "1.0.0"
targets = [{names}]

[weights.params]
source = "weights.safetensors"

[dimensions.batch]
range = [1, {max(profiles)}]
profiles = [{sizes}]
"""
        + "".join(map(entry_point, range(functions)))
    )
    return manifest


LOOP = """
import sys
from pathlib import Path

from aotc.compile.xla import xla_worker as worker

worker.prepare()
import msgspec

from aotc.compile.xla.cpu_artifact_compiler import compile_job
from aotc.compile.xla.xla_job import Job

for job in msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=list[Job]):
    assert compile_job(job, randomized=False, own_threads=False).serialized
"""
"""All compilations in one process. It gives other bytes, and loses all of them by one crash."""


@dataclass(frozen=True, slots=True)
class Spent:
    """seconds: on the clock.  processor: of all processors, this process and those that it had."""

    seconds: float
    processor: float

    def __str__(self) -> str:
        return f"{self.seconds:6.1f} s, {self.processor:6.1f} s of processors"


class Meter:
    """Time and memory that are spent from here on."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), _processor()

    def read(self) -> Spent:
        return Spent(time.perf_counter() - self._clock, _processor() - self._processor)


def _processor() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def compilations(manifest_path: Path, folder: Path) -> list[CompileJob]:
    """Every compilation of the program."""
    manifest = read_build_manifest(manifest_path)
    targets = [each[0] for each in resolve_candidates(manifest)]
    wanted = {target.name: manifest.executables(target.name) for target in targets}
    program = build(manifest_path, output=folder / "program.aotb").program
    made = compile_jobs(program.entry_points.values(), targets, wanted)
    return [job for each in made.values() for job in each.values()]


def in_a_loop(jobs: Sequence[CompileJob], folder: Path) -> Spent:
    """The compilations in one process, one after the other."""
    asked = folder / "jobs.msgpack"
    asked.write_bytes(msgspec.msgpack.encode([request_of(job) for job in jobs]))
    environment = {**os.environ, "PJRT_NPROC": str(jobs[0].target.threads)}
    meter = Meter()
    command = [sys.executable, "-P", "-c", LOOP, str(asked)]
    subprocess.run(command, check=True, env=environment)
    return meter.read()


def as_a_build(jobs: Sequence[CompileJob], at_a_time: int) -> Spent:
    """The compilations as a build has them."""
    zygotes = zygotes_of(XlaBackend.WORKER)
    zygotes.end()  # what those of an earlier build used counts when they are over
    backend, meter = XlaBackend(), Meter()
    with ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(backend.compile, jobs))
    zygotes.end()
    return meter.read()


LOADING = """
import sys, time
from itertools import count
import aotc_runtime
import numpy as np

started = time.process_time()
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
loading = time.process_time() - started
call, x = bundle["f000"], np.zeros((1, int(sys.argv[3])), np.float32)
took = []
for _ in range(2000):
    started = time.perf_counter()
    call(x)
    took.append(time.perf_counter() - started)
print(loading, sorted(took)[len(took) // 2])
"""
"""Prints seconds of processors that loading took, and the median of a call."""


@dataclass(frozen=True, slots=True)
class Used:
    """Costs of using a bundle, in seconds; all but those of a call are of processors."""

    loading: float
    call: float
    reporting: float
    inspecting: float


def repeated(bundle: Path, executables: int, folder: Path) -> tuple[Path, Path]:
    """Return a bundle of one target with so many executables, and a policy for it.

    They are the first of another bundle under more names.
    """
    contents, _ = read_unverified(open_streamed(bundle))
    _, manifest = min(contents.manifests.items())
    names = sorted(manifest.entry_points)
    per_name = len(manifest.entry_points[names[0]].profiles)
    entry_points = {
        f"f{number:03}": manifest.entry_points[names[number % len(names)]]
        for number in range(max(1, executables // per_name))
    }
    profiles = {
        name: each.profiles[: min(per_name, executables)] for name, each in entry_points.items()
    }
    repeating = msgspec.structs.replace(
        manifest,
        entry_points={
            name: msgspec.structs.replace(each, profiles=profiles[name])
            for name, each in entry_points.items()
        },
        evidence=msgspec.UNSET,
    )
    blobs = [Blob(contents.blobs[d], kind) for d, (kind, _) in references(repeating).items()]
    signer = LocalSigner.ephemeral()
    assembled = assemble([TargetParts(repeating, blobs)])
    envelope = attest(assembled.root.digest, "repeated", endorsement(), signer).envelope
    path, trust = folder / f"{executables}.aotb", folder / f"{executables}.toml"
    pack(path, Form.ARCHIVE, assembled, [envelope])
    trust.write_text(policy_text("many", [signer.public_pem()]), "utf-8")
    return path, trust


def used(bundle: Path, trust: Path) -> Used:
    """Load it, call it, and have two commands read it."""
    loading = [sys.executable, "-P", "-c", LOADING, str(bundle), str(trust), str(WIDTH)]
    told = subprocess.run(loading, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    page = bundle.with_suffix(".html")
    aotc = [sys.executable, "-P", "-m", "aotc.cli.main"]
    costs: list[float] = []
    for command in (["report", str(bundle), "-o", str(page)], ["inspect", str(bundle)]):
        meter = Meter()
        subprocess.run([*aotc, *command], check=True, stdout=subprocess.DEVNULL)
        costs.append(meter.read().processor)
    return Used(float(told[0]), float(told[1]), *costs)
