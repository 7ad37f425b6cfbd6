"""Search for results that an engine computes otherwise than plain JAX.

    python -m tests.engines.search run OUT --engine iree [PART ...]     programs of `edge_programs`
    python -m tests.engines.search run OUT --seed 1 --count 20000       programs that are generated
    python -m tests.engines.search run OUT --seed 1 --quantized 2000    quantized ones
    python -m tests.engines.search show generated.1.17                  the text of one of them
    python -m tests.engines.search tell OUT                             a table of what was found

OUT gets one line of JSON for each program and engine; the exit code is 1 if one of them differs.
Programs run in a child: a crash is a finding, and the rest goes on in a new child. A search that
was ended goes on where it was. X64=0 in the environment makes every edge program one of at most 32
bits, as JAX does by default.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from functools import lru_cache, partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from aotc_runtime.engines.engine_arrays import Aval

    from .generated_programs import Generated

SECONDS_MAX = 120.0
"""For a program on one engine."""

CALLS_MAX = 1000
"""For one child: jax keeps what it has traced."""

WORDS = ("same", "near", "small", "rounding", "denormal", "overflow", "wrong", "state")
"""How far results are apart: bit by bit the same, but for which NaN; by the last bits; by numbers
small beside others, or the sign of a zero; as close to those of float64 as plain JAX's; otherwise
only where inputs have the smallest normal numbers; only where they have the largest; more; another
result of the same call."""

DIFFERING = ("wrong", "state", "failed", "crashed", "slow")
"""Findings for which an engine has to be repaired, or has to refuse the program."""

TOLERANCES = {2: (1e-2, 1e-2), 4: (1e-5, 1e-5), 8: (1e-12, 1e-12)}
"""By the bytes of a result's element."""

LARGE, SMALL = 1e15, 1e-15
"""Beyond these, numbers overflow or become denormal on the way through few operations."""

type Array = np.ndarray[Any, Any]
type Run = Callable[[Sequence[Array]], list[Array]]


class Case(NamedTuple):
    """A program to run. weights: its first arguments, which every call has.  trials: the inputs of
    each call, by what is odd about them; the first is called again at the end.
    """

    name: str
    function: Callable[..., Any]
    x64: bool
    weights: Sequence[Array]
    trials: Mapping[str, Sequence[Array]]


class Finding(NamedTuple):
    """found: one of WORDS; `refused` or `failed` of an engine, or else `crashed` or `slow`."""

    name: str
    found: str
    told: str
    engine: str = ""


class RefusedError(Exception):
    """Refusal of a program by an engine."""


# Programs


def generated_case(name: str) -> Case:
    """Return a program that is generated, by its name."""
    from .generated_programs import trials

    made, number = program_of(name), name.rpartition(".")[2]
    return Case(name, made.function(), made.x64, made.weights, trials(made, int(number)))


def program_of(name: str) -> Generated:
    """Return the program `generated.SEED.NUMBER` or `quantized.SEED.NUMBER`."""
    from .generated_programs import generated
    from .quantized_programs import quantized

    kind, seed, number = name.split(".")
    return {"generated": generated, "quantized": quantized}[kind](int(seed), int(number))


def edge_case(name: str) -> Case:
    """Return a program of `edge_programs`, with its inputs and their reverse."""
    import numpy as np

    from .edge_programs import PROGRAMS

    function, inputs = PROGRAMS[name]
    given = [np.asarray(each) for each in inputs]
    turned = [each.reshape(-1)[::-1].reshape(each.shape) for each in given]
    is_x64 = os.environ.get("X64") != "0"
    if not is_x64:
        given, turned = ([*map(_narrowed, each)] for each in (given, turned))
    return Case(name, function, is_x64, (), {"edges": given, "edges in reverse": turned})


def _narrowed(array: Array) -> Array:
    import jax
    import numpy as np

    with jax.enable_x64(False):
        return np.asarray(jax.numpy.asarray(array))


def case(name: str) -> Case:
    """Return the program of a name."""
    is_edge = name.partition(".")[0] not in ("generated", "quantized")
    return edge_case(name) if is_edge else generated_case(name)


class Lowered:
    """A program as a module, of its weights, then its inputs."""

    def __init__(self, case: Case) -> None:
        import jax
        import numpy as np

        from aotc.capture.portable_stablehlo import portable
        from aotc_runtime.engines.engine_arrays import Aval

        self.case = case
        self.weights = [np.asarray(each) for each in case.weights]
        self.trials = [*case.trials.values()]
        self._truth: Any = None
        with jax.enable_x64(case.x64):
            self._run = jax.jit(case.function, keep_unused=True)
            traced = self._run.trace(*self.weights, *self.trials[0])
            lowered = traced.lower(lowering_platforms=("cpu",))
            self.module = portable(lowered.compiler_ir("stablehlo"))
            leaves = jax.tree.leaves(lowered.out_info)
        self.outputs = [Aval(leaf.shape, leaf.dtype) for leaf in leaves]

    def plain(self, inputs: Sequence[Array], weights: Sequence[Array] | None = None) -> list[Array]:
        """Return what plain JAX computes, with other weights if they are given."""
        import jax
        import numpy as np

        with jax.enable_x64(self.case.x64):
            made = self._run(*(weights or self.weights), *inputs)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(made)]

    def truth(
        self, inputs: Sequence[Array], weights: Sequence[Array] | None = None
    ) -> list[Array] | None:
        """Return what the module computes in float64; None if it has no counterpart there."""
        from aotc.capture.float64_module import widened
        from aotc_runtime.engines.device_features import SymbolicModule
        from aotc_runtime.engines.engine_arrays import Aval
        from aotc_runtime.engines.xla import xla_engine
        from aotc_runtime.verification.verify_bundle import VerifiedBlob

        arguments = [
            each.astype(_wide(each.dtype)) for each in (*(weights or self.weights), *inputs)
        ]
        avals = [Aval(each.shape, each.dtype) for each in arguments]
        outputs = [Aval(each.shape, _wide(each.dtype)) for each in self.outputs]
        device: Any = xla_engine.start("cpu", None, None)
        try:
            if self._truth is None:
                blob = VerifiedBlob("", memoryview(widened(self.module.artifact)))
                module = SymbolicModule(blob, avals, outputs, {}, "float64")
                self._truth = device.features.compile_symbolic(module)
            put = [device.put(array, aval) for array, aval in zip(arguments, avals, strict=True)]
            results = device.execute(self._truth, put)
        except Exception:  # noqa: BLE001 - then only plain JAX is asked
            return None
        return [device.to_numpy(r, aval) for r, aval in zip(results, outputs, strict=True)]


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    import numpy as np

    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if dtype.kind == "f" or dtype.name == "bfloat16" else dtype


# Engines


def compile_xla(lowered: Lowered) -> bytes:
    """Return XLA's executable, as the backend's worker makes it."""
    from aotc.compile.target_files import read_target
    from aotc.compile.xla import cpu_artifact_compiler, xla_objects
    from aotc.compile.xla.xla_job import Job

    target = read_target("cpu-x86-64-v3", Path(__file__).parent)
    job = Job(
        artifact=lowered.module.artifact,
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
        tuning=target.tuning,
        options=dict(target.options),
        threads=target.threads,
        devices=(0,),
        constants=b"",
    )
    result = cpu_artifact_compiler.compile_job(job, randomized=True, own_threads=True)
    if result.problem:
        raise RefusedError(f"{' '.join(result.called)} {result.words}".strip())
    return bytes(xla_objects.canonical(result.serialized))


def compile_iree(lowered: Lowered) -> bytes:
    """Return IREE's module, compiled in this process as the backend's worker does, at the first of
    its levels that compiles.
    """
    from aotc.compile.mlir import mlir_context
    from aotc.compile.target_files import read_target
    from aotc.compile.xla import jaxlib_private
    from aotc.engines.iree.iree_compiler import FLAGS, _target_flags, complaint
    from aotc.engines.iree.iree_job import LEVEL, LEVELS, Job
    from aotc.engines.iree.iree_worker import compile_job
    from aotc.pipeline.build_plan import candidates

    module = mlir_context.read_artifact(lowered.module.artifact)
    if called := tuple(jaxlib_private.custom_call_targets(module)):
        raise RefusedError(f"custom calls: {' '.join(called)}")
    (target,) = candidates(read_target("cpu-x86-64-v3", Path(__file__).parent), ["iree"], "here")
    words = ""
    places = tuple(range(len(lowered.weights)))
    for level in LEVELS:
        flags = (*FLAGS, *_target_flags(target), f"--{LEVEL}={level}")
        # The compiler leaves its statistics in the working folder.
        with TemporaryFile() as said, TemporaryDirectory() as folder, chdir(folder):
            kept = os.dup(2)
            os.dup2(said.fileno(), 2)
            try:
                result = compile_job(Job(lowered.module.artifact, flags, places, target.threads))
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
        if not result.problem:
            return bytes(result.serialized)
        words = f"{words} {level}: {' '.join(result.called)} {result.words or complaint(lines)};"
    raise RefusedError(words.strip())


def compile_graph(engine: str, lowered: Lowered) -> bytes:
    """Return what an engine that takes graphs is given, made as its backend's worker does."""
    from importlib import import_module

    from aotc.engines.onnx_graphs.graph_job import Job

    worker = import_module(f"aotc.engines.{engine}.{engine}_worker")
    result = worker.compile_job(Job(lowered.module.artifact, tuple(range(len(lowered.weights)))))
    if result.problem:
        raise RefusedError(f"{' '.join(result.called)} {result.words}".strip())
    return bytes(result.serialized)


ENGINES: dict[str, Callable[[Lowered], bytes]] = {
    "xla": compile_xla,
    "iree": compile_iree,
    "onnxruntime": partial(compile_graph, "onnxruntime"),
    "openvino": partial(compile_graph, "openvino"),
}
PLATFORMS = {"xla": "cpu"}


class Loaded:
    """An executable on the engine's own device, with its weights.

    inputs: of one call, for their types.
    """

    def __init__(
        self,
        engine: str,
        serialized: bytes,
        weights: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Aval],
    ) -> None:
        from importlib import import_module

        from aotc_runtime.base.digest import sha256
        from aotc_runtime.engines.engine_arrays import Aval, Stored
        from aotc_runtime.verification.verify_bundle import VerifiedBlob

        platform = PLATFORMS.get(engine, engine)
        module = import_module(f"aotc_runtime.engines.{engine}.{engine}_engine")
        self._device = module.start(platform, None, None)
        blob = VerifiedBlob(sha256(serialized), memoryview(serialized))
        self._outputs = outputs
        stored = Stored(blob, self._outputs, "searched")
        (self._executable,) = self._device.deserialize([stored], (0,), ())
        self.kept = [_readonly(each) for each in weights]
        self._weights = [self._device.share(w, Aval(w.shape, w.dtype)) for w in self.kept]
        self._inputs = [Aval(each.shape, each.dtype) for each in inputs]
        self._direct = self._device.direct(
            self._executable, self._weights, self._inputs, self._outputs
        )
        self._copying = getattr(self._direct, "on_host", None)

    def by_buffers(self, inputs: Sequence[Array]) -> list[Array]:
        """Return results of a call as `on_device` makes it."""
        device = self._device
        puts = [*map(device.put, inputs, self._inputs)]
        given = device.execute(self._executable, [*self._weights, *puts])
        pairs = zip(given, self._outputs, strict=True)
        return [device.to_numpy(buffer, aval).copy() for buffer, aval in pairs]

    def call(self, inputs: Sequence[Array]) -> list[Array]:
        """Return results of a call as it is made on arrays."""
        if self._copying is not None:
            return [each.copy() for each in self._copying(*inputs)]
        if self._direct is None:
            return self.by_buffers(inputs)
        given = zip(self._direct(*inputs), self._outputs, strict=True)
        return [self._device.to_numpy(buffer, aval).copy() for buffer, aval in given]


def run_here(
    engine: str, serialized: bytes, inputs: Sequence[Array], outputs: Sequence[Aval]
) -> list[Array]:
    """Return results of an executable without weights, the same by each way to call it."""
    loaded = Loaded(engine, serialized, (), inputs, outputs)
    found = loaded.by_buffers(inputs)
    # What comes second finds the memory of the first.
    for ours in (loaded.call(inputs), loaded.call(inputs)):
        assert [each.dtype for each in ours] == [each.dtype for each in found]
        assert _same_bits(ours, found)
    return found


def _readonly(array: Array) -> Array:
    import numpy as np

    # At a multiple of 64 bytes, as in a mapped file.
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made: Array = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    made.setflags(write=False)
    return made


# What is found


def compared(actual: Array, expected: Array) -> tuple[str, str]:
    """Return how far results are apart, in a word, and the numbers that are the furthest.

    One of `same`, `near`, `small` and `wrong`.
    """
    import numpy as np

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return "wrong", f"{actual.dtype}{actual.shape} for {expected.dtype}{expected.shape}"
    if actual.tobytes() == expected.tobytes():
        return "same", ""
    if expected.dtype.kind in "biu":
        place = np.argwhere(actual != expected)[0]
        return "wrong", f"{actual[tuple(place)]!r} for {expected[tuple(place)]!r} at {place}"
    if expected.dtype.kind == "c":
        parts = expected.real.dtype
        actual, expected = (np.atleast_1d(each).view(parts) for each in (actual, expected))
    bits = {2: 8e-3, 4: 1e-5, 8: 1e-13}[expected.dtype.itemsize]
    if expected.dtype == np.float16:
        bits = 2e-3
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        odd = ~(np.isfinite(actual) & np.isfinite(expected))
        differ = np.where(
            odd, (actual != expected) & ~(np.isnan(actual) & np.isnan(expected)), False
        )
        if differ.any():
            return "wrong", _told(actual, expected, differ)
        apart = np.where(odd, 0, np.abs(actual - expected))
        largest = np.max(np.abs(expected), initial=0, where=~odd)
        relative = apart / np.maximum(np.abs(expected), 1e-300)
        beyond = (relative > 10 * bits) & (apart > bits * max(largest, 1e-300))
        beyond &= apart > (bits if expected.ndim > 0 else 0)
        if beyond.any():
            return "wrong", _told(actual, expected, beyond)
        signs = (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
        little = (relative > bits) | signs
        if little.any():
            return "small", _told(actual, expected, little)
        worst = relative == relative.max()
        return ("near" if apart.any() else "same"), _told(actual, expected, worst)


def _told(actual: Any, expected: Any, where: Any) -> str:
    import numpy as np

    places = np.argwhere(where)
    shown = [
        f"{float(actual[tuple(p)])!r} for {float(expected[tuple(p)])!r} at {p.tolist()}"
        for p in places[:6]
    ]
    return f"{len(places)} of {actual.size}: {', '.join(shown)}"


def _same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    return [each.tobytes() for each in left] == [each.tobytes() for each in right]


def finding(engine: str, lowered: Lowered, load: type[Loaded] = Loaded) -> Finding:
    """Return how results of an engine differ from those of plain JAX the most.

    Raises RefusedError, and what engines raise.
    """
    import jax

    serialized = ENGINES[engine](lowered)
    with jax.enable_x64(lowered.case.x64):  # jaxlib's call path asks
        loaded = load(engine, serialized, lowered.weights, lowered.trials[0], lowered.outputs)
        return Finding(lowered.case.name, *_found(loaded, lowered), engine)


def _found(loaded: Loaded, lowered: Lowered) -> tuple[str, str]:
    weights, inputs = _digest(lowered.weights), [*map(_digest, lowered.trials)]
    made = [loaded.call(given) for given in lowered.trials]
    again = {
        "the first call again": loaded.call(lowered.trials[0]),
        "the first call, by buffers": loaded.by_buffers(lowered.trials[0]),
    }
    found = [("same", "")]
    for kind, given, ours in zip(lowered.case.trials, lowered.trials, made, strict=True):
        plain = lowered.plain(given)
        word, told = _worst(ours, plain)
        if word == "wrong":
            word = _tamed(loaded, lowered, kind, ours, plain)
        found.append((word, f"{kind}: {told}"))
    for kind, results in again.items():
        if not _same_bits(results, made[0]):
            pairs = zip(results, made[0], strict=True)
            told = next((told for p in pairs if (told := compared(*p)[1])), "bits")
            found.append(("state", f"{kind}: {told}"))
    if _digest(loaded.kept) != weights:
        found.append(("state", "weights changed"))
    if [*map(_digest, lowered.trials)] != inputs:
        found.append(("state", "inputs changed"))
    return max(found, key=lambda each: WORDS.index(each[0]))


def _worst(ours: Sequence[Array], plain: Sequence[Array]) -> tuple[str, str]:
    found = [("same", "")]
    for result, pair in enumerate(zip(ours, plain, strict=True)):
        word, told = compared(*pair)
        found.append((word, f"result {result}: {told}"))
    return max(found, key=lambda each: WORDS.index(each[0]))


def _tamed(
    loaded: Loaded, lowered: Lowered, kind: str, ours: Sequence[Array], plain: Sequence[Array]
) -> str:
    """Return a word for results that differ from plain JAX, told apart by the truth, and by the
    same call without what overflows.
    """
    given = lowered.case.trials[kind]
    if _is_as_good(lowered, given, ours, plain):
        return "rounding"
    for word, low in (("overflow", 0.0), ("denormal", SMALL)) if kind == "extreme" else ():
        inputs = [_without(each, low, LARGE) for each in given]
        again, expected = loaded.call(inputs), lowered.plain(inputs)
        if _worst(again, expected)[0] != "wrong" or _is_as_good(lowered, inputs, again, expected):
            return word
    return "wrong"


def _without(array: Array, low: float, high: float) -> Array:
    """Replace numbers beyond these magnitudes by ordinary ones."""
    import numpy as np

    if array.dtype.kind in "biu":
        return array
    with np.errstate(all="ignore"):
        size = np.abs(array.astype(np.float64))
        odd = (np.isfinite(size) & (size > high)) | ((size > 0) & (size < low))
        return np.asarray(np.where(odd, np.sign(array) * 1.5, array).astype(array.dtype))


def _is_as_good(
    lowered: Lowered, given: Sequence[Array], ours: Sequence[Array], plain: Sequence[Array]
) -> bool:
    """Return whether results are as close to those of float64 as plain JAX's."""
    import numpy as np

    from aotc.check.trial_truth import Truth, verdict_of

    truth = lowered.truth(given)
    if truth is None:
        return False
    shaken, random = [], np.random.default_rng(0)
    moving = [np.float64]
    if lowered.case.name.startswith("quantized."):
        moving.append(np.float32)  # what is near the middle of two integers becomes either
    if any(each.dtype in moving for each in (*lowered.weights, *given)):
        for _ in range(4):
            weights, moved = (
                [_moved(x, random) if x.dtype in moving else x for x in each]
                for each in (lowered.weights, given)
            )
            if (other := lowered.truth(moved, weights)) is not None:
                shaken += [(other, truth), (lowered.plain(moved, weights), other)]
    for place, (found, expected, exact) in enumerate(zip(ours, plain, truth, strict=True)):
        known = Truth([exact], [(one[place], other[place]) for one, other in shaken])
        tolerance = TOLERANCES.get(expected.itemsize, (0.0, 0.0))
        if not verdict_of("", found, expected, known, *tolerance).right:
            return False
    return True


def _moved(array: Array, random: np.random.Generator) -> Array:
    """Return the next numbers, up or down."""
    import numpy as np

    ends = np.where(random.random(array.shape) < 0.5, np.inf, -np.inf)
    return np.asarray(np.nextafter(array, ends.astype(array.dtype)))


def _digest(arrays: Sequence[Array]) -> str:
    whole = sha256()
    for each in arrays:
        whole.update(each.tobytes())
    return whole.hexdigest()


# Children


def child() -> None:
    """Answer each line of stdin, a program's name and an engine, with what is found."""
    import faulthandler

    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(_tried(*json.loads(line))), file=out, flush=True)


def _tried(name: str, engine: str) -> Finding:
    lowered = _lowered(name)
    if isinstance(lowered, Finding):
        return lowered
    try:
        return finding(engine, lowered)
    except RefusedError as error:
        return Finding(name, "refused", str(error)[:400], engine)
    except Exception as error:  # noqa: BLE001 - what an engine says is a finding
        return Finding(name, "failed", f"{type(error).__name__}: {error}"[:400], engine)


@lru_cache(maxsize=1)
def _lowered(name: str) -> Lowered | Finding:
    try:
        lowered = Lowered(case(name))
        for given in lowered.trials:
            lowered.plain(given)
    except Exception as error:  # noqa: BLE001 - what jax does not do is a finding
        return Finding(name, "untraceable", f"{type(error).__name__}: {error}"[:400])
    return lowered


class Child:
    """A process that runs programs on engines, and the next one where one has ended. said: a file
    for what they print.
    """

    def __init__(self, said: Path) -> None:
        self._said = said
        self._calls = 0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, name: str, engine: str) -> Finding:
        """Return what became of a program."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([name, engine]).encode() + b"\n")
        answers = bool(select.select([process.stdout], [], [], SECONDS_MAX)[0])
        if answers and (line := process.stdout.readline()):
            return Finding(*json.loads(line))
        if answers:
            process.wait(SECONDS_MAX)
        self.end()
        return Finding(name, "crashed" if answers else "slow", f"{process.returncode}", engine)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._calls >= CALLS_MAX:
            self.end()
        if self._process is None:
            self._calls = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.engines.search", "child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said.open("a"),
                bufsize=0,
            )
        self._calls += 1
        return self._process

    def end(self) -> None:
        """Stop it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


# The whole of a search


def search(
    out: Path, engines: Sequence[str], names: Sequence[str], shares: Mapping[str, int]
) -> None:
    """Run what is not yet in `out`. shares: engines that get every so many programs only."""
    known = defaultdict(set)
    if out.exists():
        for each in read(out):
            known[each.name].add(each.engine)
    child = Child(out.with_suffix(".said"))
    try:
        with out.open("a", encoding="utf-8") as file:
            for (place, name), engine in product(enumerate(names), engines):
                if place % shares.get(engine, 1) or known[name] & {engine, ""}:
                    continue
                found = child.run(name, engine)
                known[name].add(found.engine)
                print(json.dumps(found._asdict()), file=file, flush=True)
    finally:
        child.end()


def read(out: Path) -> Iterator[Finding]:
    """Yield what a search has found."""
    with out.open(encoding="utf-8") as file:
        for line in file:
            yield Finding(**json.loads(line))


def table(out: Path) -> str:
    """Summarize what each engine takes, refuses and computes otherwise."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    for each in read(out):
        counts[each.engine or "plain JAX"][each.found] += 1
        if each.found in ("refused", "failed"):
            refused[each.engine][_reason(each.told)] += 1
    lines = [f"{engine}: {dict(count.most_common())}" for engine, count in counts.items()]
    for each in read(out):
        if each.found in DIFFERING:
            lines.append(f"{each.name} on {each.engine}: {each.found}: {each.told[:160]}")
    for engine, reasons in refused.items():
        lines.append(f"{engine} refuses:")
        lines += [f"  {count} {reason}" for reason, count in reasons.most_common(60)]
    return "\n".join(lines)


def _reason(told: str) -> str:
    named = re.search(r"stablehlo\.[a-z_]+(?: of [a-z0-9]+)?", told)
    return named[0] if named else re.sub(r"[0-9]+", "N", told)[:80]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines.search")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("child")
    run = commands.add_parser("run")
    run.add_argument("out", type=Path)
    run.add_argument("parts", nargs="*")
    run.add_argument("--engine", action="append", choices=[*ENGINES], default=[])
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--first", type=int, default=0)
    run.add_argument("--count", type=int, default=0)
    run.add_argument("--quantized", type=int, default=0)
    run.add_argument("--share", action="append", default=[], metavar="ENGINE=NUMBER")
    show = commands.add_parser("show")
    show.add_argument("name")
    tell = commands.add_parser("tell")
    tell.add_argument("out", type=Path)
    asked = parser.parse_args()
    if asked.command == "child":
        child()
    elif asked.command == "run":
        if asked.count or asked.quantized:
            names = [
                f"{kind}.{asked.seed}.{number}"
                for kind, count in (("generated", asked.count), ("quantized", asked.quantized))
                for number in range(asked.first, asked.first + count)
            ]
        else:
            from .edge_programs import PROGRAMS

            parts = asked.parts or [""]
            names = [name for name in PROGRAMS if any(part in name for part in parts)]
        shares = {
            engine: int(number) for engine, _, number in (s.partition("=") for s in asked.share)
        }
        search(asked.out, asked.engine or [*ENGINES], names, shares)
        print(table(asked.out))
        sys.exit(any(each.found in DIFFERING for each in read(asked.out)))
    elif asked.command == "show":
        print(program_of(asked.name).text)
    else:
        print(table(asked.out))


if __name__ == "__main__":
    main()
