"""Search for results that an engine computes otherwise than plain JAX.

    python -m tests.engines.search run OUT --engine iree [PART ...]     programs of `edge_programs`
    python -m tests.engines.search run OUT --seed 1 --count 20000       programs that are generated
    python -m tests.engines.search show generated.1.17                  the text of one of them
    python -m tests.engines.search tell OUT                             a table of what was found

OUT gets one line of JSON for each program and engine; the exit code is 1 if one of them differs.
Programs run in children, several in each: a
crash is a finding, and the rest goes on in a new child. A search that was ended goes on where it
was. LEVEL in the environment is IREE's one level of optimization to compile at, instead of the
first that compiles. X64=0 there makes every edge program one of at most 32 bits, as JAX does by
default. HARNESSES takes jax's own harnesses instead, those whose names hold it.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from aotc_runtime.engines.engine_device import Aval

SECONDS_MAX = 120.0
"""For programs that are compiled as one, with one engine."""

TOGETHER = 24
"""Programs that are given to a child at once, and that XLA compiles as one: a third of the time."""

TOGETHER_FOR = {"xla": TOGETHER, "iree": 6, "onnxruntime": 1, "openvino": 1}
"""Programs that an engine compiles as one. What it does not take is looked for one by one."""

CHUNK = 8 * TOGETHER
"""Programs after which every engine has had its share."""

BATCHES_MAX = 40
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
    """What an engine said of a program that it does not compile."""


# Programs


def generated_case(name: str) -> Case:
    """A program that is generated, by its name: `generated.SEED.NUMBER`."""
    from .generated_programs import generated, trials

    _, seed, number = name.split(".")
    made = generated(int(seed), int(number))
    return Case(name, made.function(), made.x64, made.weights, trials(made, int(number)))


def edge_case(name: str) -> Case:
    """A program of `edge_programs` or one of jax's harnesses, with its inputs and their reverse."""
    import numpy as np

    function, inputs = programs()[name]
    given = [np.asarray(each) for each in inputs]
    turned = [each.reshape(-1)[::-1].reshape(each.shape) for each in given]
    is_x64 = os.environ.get("X64") != "0"
    if not is_x64:
        given, turned = ([*map(_narrowed, each)] for each in (given, turned))
    return Case(name, function, is_x64, (), {"edges": given, "edges in reverse": turned})


def _narrowed(array: Array) -> Array:
    import jax

    with jax.enable_x64(False):
        import numpy as np

        return np.asarray(jax.numpy.asarray(array))


def case(name: str) -> Case:
    """The program of a name."""
    return generated_case(name) if name.startswith("generated.") else edge_case(name)


@cache
def programs() -> Mapping[str, tuple[Any, Iterable[Any]]]:
    """Every program that has a name. HARNESSES in the environment: jax's own harnesses instead, and
    the part of their names.
    """
    if "HARNESSES" in os.environ:
        return {name: (function, inputs) for name, function, inputs in _harnesses()}
    from .edge_programs import PROGRAMS

    return dict(PROGRAMS)


def _harnesses() -> Iterator[tuple[str, Any, Sequence[Any]]]:
    from tests.programs import harnesses

    part = os.environ["HARNESSES"]
    for number, harness in enumerate(harnesses.harnesses()):
        if part in harness.fullname:
            yield harnesses.name_of(number), harness.dyn_fun, _Drawn(number)


class _Drawn:
    """The arguments of a harness, drawn when they are used: some take seconds."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __iter__(self) -> Iterator[Any]:
        import numpy as np

        from tests.programs import harnesses

        return iter(map(np.asarray, harnesses.arguments(self._number, harnesses.FIXTURE_SEED)))


# Programs that are compiled as one


class Lowered:
    """Programs as one module, of the weights of all, then the inputs of all."""

    def __init__(self, cases: Sequence[Case]) -> None:
        import jax
        import numpy as np

        from aotc.capture.portable_stablehlo import portable
        from aotc_runtime.engines.engine_device import Aval

        self.cases = cases
        self._truth: Any = None
        self.weights = [np.asarray(each) for case in cases for each in case.weights]
        self._sizes = [(len(c.weights), len(_first(c.trials))) for c in cases]
        with jax.enable_x64(cases[0].x64):
            arguments = [*self.weights, *self.inputs(0)]
            self._run = jax.jit(self._together, keep_unused=True)
            traced = self._run.trace(*arguments)
            lowered = traced.lower(lowering_platforms=("cpu",))
            self.module = portable(lowered.compiler_ir("stablehlo"))
            leaves, self._tree = jax.tree.flatten(lowered.out_info)
        self.outputs = [Aval(leaf.shape, leaf.dtype) for leaf in leaves]

    @property
    def trials(self) -> int:
        """How many sets of inputs there are."""
        return max(len(case.trials) for case in self.cases)

    def inputs(self, number: int) -> list[Array]:
        """The inputs of a trial; of programs with fewer, their last one."""
        found: list[Array] = []
        for case in self.cases:
            every = [*case.trials.values()]
            found.extend(every[min(number, len(every) - 1)])
        return found

    def by_program(self, flat: Sequence[Array]) -> list[list[Array]]:
        """Results of a call, by program."""
        import jax

        return [jax.tree.leaves(each) for each in jax.tree.unflatten(self._tree, flat)]

    def plain(self, number: int) -> list[list[Array]]:
        """What plain JAX computes for a trial, by program."""
        return self.plain_of(self.inputs(number))

    def plain_of(self, inputs: Sequence[Array]) -> list[list[Array]]:
        """What plain JAX computes, by program."""
        import jax
        import numpy as np

        with jax.enable_x64(self.cases[0].x64):
            made = self._run(*self.weights, *inputs)
        return [[np.asarray(leaf) for leaf in jax.tree.leaves(each)] for each in made]

    def truth(self, inputs: Sequence[Array]) -> list[Array] | None:
        """What the module computes in float64; None if it has no counterpart there."""
        from aotc_runtime.engines.engine_device import Aval

        arguments = [*map(_wide, (*self.weights, *inputs))]
        avals = [Aval(each.shape, each.dtype) for each in arguments]
        outputs = [Aval(each.shape, _wide_dtype(each.dtype)) for each in self.outputs]
        device = _processor()
        try:
            if self._truth is None:
                from aotc.capture.float64_module import widened
                from aotc_runtime.verification.verify_bundle import VerifiedBlob

                blob = VerifiedBlob("", memoryview(widened(self.module.artifact)))
                self._truth = device.compile_symbolic(blob, avals, outputs, {}, "float64")
            put = [device.put(array, aval) for array, aval in zip(arguments, avals, strict=True)]
            results = device.execute(self._truth, put)
        except Exception:  # noqa: BLE001 - then only plain JAX is asked
            return None
        return [device.to_numpy(r, aval) for r, aval in zip(results, outputs, strict=True)]

    def _together(self, *flat: Any) -> list[Any]:
        weights, inputs = iter(flat[: len(self.weights)]), iter(flat[len(self.weights) :])
        return [
            case.function(*(next(weights) for _ in range(w)), *(next(inputs) for _ in range(i)))
            for case, (w, i) in zip(self.cases, self._sizes, strict=True)
        ]


def _processor() -> Any:
    from aotc_runtime.engines.xla import xla_engine as engine

    return engine.start("cpu", None, None)


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    import numpy as np

    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if dtype.kind == "f" or dtype.name == "bfloat16" else dtype


def _wide(array: Array) -> Array:
    return array.astype(_wide_dtype(array.dtype))


def _first[T](every: Mapping[str, T]) -> T:
    return next(iter(every.values()))


# Engines


def compile_xla(lowered: Lowered, alone: bool) -> bytes:
    """XLA's executable, as the backend's worker makes it."""
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


def compile_iree(lowered: Lowered, alone: bool) -> bytes:
    """IREE's module, compiled in this process as the backend's worker does; at all levels in turn
    for a program alone.
    """
    from aotc.compile.target_files import read_target
    from aotc.engines.iree.iree_compiler import FLAGS, _target_flags, complaint
    from aotc.engines.iree.iree_job import LEVEL, LEVELS, Job
    from aotc.engines.iree.iree_worker import compile_job
    from aotc.pipeline.build_plan import candidates

    (target,) = candidates(read_target("cpu-x86-64-v3", Path(__file__).parent), ["iree"], "here")
    words = ""
    stated = os.environ.get("LEVEL")
    places = tuple(range(len(lowered.weights)))
    for level in [stated] if stated else LEVELS if alone else LEVELS[:1]:
        flags = (*FLAGS, *_target_flags(target), f"--{LEVEL}={level}")
        with TemporaryFile() as said:
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


def compile_graph(engine: str, lowered: Lowered, alone: bool) -> bytes:
    """What an engine that takes graphs is given, made as its backend's worker does."""
    from importlib import import_module

    from aotc.engines.onnx_graphs.graph_job import Job

    worker = import_module(f"aotc.engines.{engine}.{engine}_worker")
    result = worker.compile_job(Job(lowered.module.artifact, tuple(range(len(lowered.weights)))))
    if result.problem:
        raise RefusedError(f"{' '.join(result.called)} {result.words}".strip())
    return bytes(result.serialized)


ENGINES: dict[str, Callable[[Lowered, bool], bytes]] = {
    "xla": compile_xla,
    "iree": compile_iree,
    "onnxruntime": partial(compile_graph, "onnxruntime"),
    "openvino": partial(compile_graph, "openvino"),
}
PLATFORMS = {"xla": "cpu"}


def is_refused_alone(engine: str, lowered: Lowered) -> str:
    """Why an engine's own checks refuse a program, before its compiler is asked; "" if not."""
    if engine != "iree":
        return ""
    from aotc.compile.mlir import mlir_context
    from aotc.compile.xla import jaxlib_private
    from aotc.engines.iree.iree_module_text import UnsupportedError, require_supported
    from aotc.engines.iree.repairs import UnrepairableError, repair

    try:
        module = mlir_context.read_artifact(lowered.module.artifact)
        if called := tuple(jaxlib_private.custom_call_targets(module)):
            return f"custom calls: {' '.join(called)}"
        require_supported(module)
        repair(module, range(len(lowered.weights)))
    except (UnsupportedError, UnrepairableError) as error:
        return str(error)
    return ""


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
        from aotc_runtime.engines.engine_device import Aval, Stored
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
        """Results of a call as `on_device` makes it."""
        device = self._device
        puts = [*map(device.put, inputs, self._inputs)]
        given = device.execute(self._executable, [*self._weights, *puts])
        pairs = zip(given, self._outputs, strict=True)
        return [device.to_numpy(buffer, aval).copy() for buffer, aval in pairs]

    def call(self, inputs: Sequence[Array]) -> list[Array]:
        """Results of a call as it is made on arrays."""
        if self._copying is not None:
            return [each.copy() for each in self._copying(*inputs)]
        if self._direct is None:
            return self.by_buffers(inputs)
        given = zip(self._direct(*inputs), self._outputs, strict=True)
        return [self._device.to_numpy(buffer, aval).copy() for buffer, aval in given]


def run_here(
    engine: str, serialized: bytes, inputs: Sequence[Array], outputs: Sequence[Aval]
) -> list[Array]:
    """Results of an executable without weights, which are the same by each way to call it."""
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
    """How far results are apart, in a word, and the numbers that are the furthest.

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
            odd,
            (actual != expected) & ~(np.isnan(actual) & np.isnan(expected)),
            False,
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


def findings(
    engine: str,
    lowered: Lowered,
    expected: Callable[[int], list[list[Array]]],
    load: type[Loaded] = Loaded,
) -> list[Finding]:
    """What an engine makes of programs that are compiled as one, beside what plain JAX does.

    expected: the results of a trial, by program. Raises RefusedError, and what engines raise.
    """
    import jax

    serialized = ENGINES[engine](lowered, len(lowered.cases) == 1)
    with jax.enable_x64(lowered.cases[0].x64):  # jaxlib's call path asks
        given = lowered.weights, lowered.inputs(0), lowered.outputs
        return _found(engine, load(engine, serialized, *given), lowered, expected)


def _found(
    engine: str,
    loaded: Loaded,
    lowered: Lowered,
    expected: Callable[[int], list[list[Array]]],
) -> list[Finding]:
    worst = [Finding(case.name, "same", "", engine) for case in lowered.cases]

    def note(place: int, word: str, told: str) -> None:
        if WORDS.index(word) > WORDS.index(worst[place].found):
            worst[place] = worst[place]._replace(found=word, told=told)

    before = _digest(lowered.weights)
    by_number = [lowered.inputs(number) for number in range(lowered.trials)]
    digests = [_digest(each) for each in by_number]
    kinds = [[*case.trials] for case in lowered.cases]
    made = [lowered.by_program(loaded.call(inputs)) for inputs in by_number]
    again = {
        "the first call again": lowered.by_program(loaded.call(by_number[0])),
        "the first call, by buffers": lowered.by_program(loaded.by_buffers(by_number[0])),
    }
    tamed = _Tamed(loaded, lowered)
    for number in range(lowered.trials):
        for place, (ours, plain) in enumerate(zip(made[number], expected(number), strict=True)):
            if number >= len(kinds[place]):
                continue
            word, told = _worst(ours, plain)
            if word == "wrong":
                word = tamed.word(place, number, ours, plain)
            note(place, word, f"{kinds[place][number]}: {told}")
    for kind, results in again.items():
        for place, (ours, first) in enumerate(zip(results, made[0], strict=True)):
            if not _same_bits(ours, first):
                told = next(
                    (t for p in zip(ours, first, strict=True) if (t := compared(*p)[1])), "bits"
                )
                note(place, "state", f"{kind}: {told}")
    if _digest(loaded.kept) != before:
        note(0, "state", f"weights changed, of {[each.name for each in lowered.cases]}")
    if [_digest(each) for each in by_number] != digests:
        note(0, "state", f"inputs changed, of {[each.name for each in lowered.cases]}")
    return worst


def _worst(ours: Sequence[Array], plain: Sequence[Array]) -> tuple[str, str]:
    worst = "same", ""
    for result, pair in enumerate(zip(ours, plain, strict=True)):
        word, told = compared(*pair)
        if WORDS.index(word) > WORDS.index(worst[0]):
            worst = word, f"result {result}: {told}"
    return worst


class _Tamed:
    """Differences, told apart by the truth, and by the same calls without what overflows."""

    def __init__(self, loaded: Loaded, lowered: Lowered) -> None:
        self._loaded, self._lowered = loaded, lowered
        self._alone: dict[int, Lowered] = {}

    def word(self, place: int, number: int, ours: Sequence[Array], plain: Sequence[Array]) -> str:
        """A word for results that differ from plain JAX. place: of their program."""
        case = self._lowered.cases[place]
        if place not in self._alone:
            self._alone[place] = Lowered([case])
        alone = self._alone[place]
        if _is_as_good(alone, number, ours, plain):
            return "rounding"
        if "extreme" not in [*case.trials][number]:
            return "wrong"
        for word, low, high in (("overflow", 0.0, LARGE), ("denormal", SMALL, LARGE)):
            inputs = [_without(each, low, high) for each in alone.inputs(number)]
            whole = self._lowered.inputs(number)
            first = sum(len(_first(each.trials)) for each in self._lowered.cases[:place])
            whole[first : first + len(inputs)] = inputs
            again = self._lowered.by_program(self._loaded.call(whole))[place]
            expected = alone.plain_of(inputs)[0]
            if _worst(again, expected)[0] != "wrong" or _is_as_good(
                alone, number, again, expected, inputs
            ):
                return word
        return "wrong"


def _without(array: Array, low: float, high: float) -> Array:
    """Numbers beyond these magnitudes replaced by ordinary ones."""
    import numpy as np

    if array.dtype.kind in "biu":
        return array
    with np.errstate(all="ignore"):
        size = np.abs(array.astype(np.float64))
        odd = (np.isfinite(size) & (size > high)) | ((size > 0) & (size < low))
        return np.asarray(np.where(odd, np.sign(array) * 1.5, array).astype(array.dtype))


def _is_as_good(
    alone: Lowered,
    number: int,
    ours: Sequence[Array],
    plain: Sequence[Array],
    inputs: Sequence[Array] | None = None,
) -> bool:
    """Whether results are as close to those of float64 as plain JAX's."""
    import numpy as np

    from aotc.check.value_verdict import Truth, judge

    given = alone.inputs(number) if inputs is None else inputs
    truth = alone.truth(given)
    if truth is None:
        return False
    shaken = []
    if any(each.dtype == np.float64 for each in given):
        for toward in (np.inf, -np.inf):
            moved = [np.nextafter(x, toward) if x.dtype == np.float64 else x for x in given]
            if (other := alone.truth(moved)) is not None:
                shaken.append(other)
    for place, (found, expected, exact) in enumerate(zip(ours, plain, truth, strict=True)):
        known = Truth([exact], [(each[place], exact) for each in shaken])
        tolerance = TOLERANCES.get(expected.itemsize, (0.0, 0.0))
        if not judge("", found, expected, known, *tolerance).right:
            return False
    return True


def _digest(arrays: Sequence[Array]) -> str:
    whole = sha256()
    for each in arrays:
        whole.update(each.tobytes())
    return whole.hexdigest()


class Batch:
    """Programs whose results by plain JAX are computed together, and then those of engines."""

    def __init__(self, names: Sequence[str], say: Callable[[Any], None]) -> None:
        self._say = say
        self._cases: dict[str, Case] = {}
        self._expected: dict[str, list[list[Array]]] = {}
        self._alone: dict[str, Lowered] = {}
        for name in names:
            try:
                self._cases[name] = case(name)
            except Exception as error:  # noqa: BLE001 - what jax does not do is a finding
                self._end([name], "", "untraceable", error)

    def _end(self, names: Sequence[str], engine: str, found: str, error: object) -> None:
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self._say({"found": [Finding(name, found, text[:400], engine) for name in names]})

    def run(self, engines: Sequence[str]) -> None:
        """Run them on engines; `say` gets what is begun, and what is found."""
        for x64 in (False, True):
            names = [name for name, each in self._cases.items() if each.x64 == x64]
            self._reference(names)
            known = [name for name in names if name in self._expected]
            for engine in engines:
                step = TOGETHER_FOR[engine]
                left = [name for name in known if not self._refused(engine, name)]
                for place in range(0, len(left), step):
                    self._engine(engine, left[place : place + step])

    def _reference(self, names: Sequence[str]) -> None:
        if not names:
            return
        try:
            lowered = Lowered([self._cases[name] for name in names])
            made = [lowered.plain(number) for number in range(lowered.trials)]
        except Exception as error:  # noqa: BLE001 - what jax does not do is a finding
            if len(names) == 1:
                self._end(names, "", "untraceable", error)
                return
            half = len(names) // 2
            self._reference(names[:half])
            self._reference(names[half:])
            return
        for place, name in enumerate(names):
            self._expected[name] = [each[place] for each in made]
        self._alone[" ".join(names)] = lowered

    def _lowered(self, names: Sequence[str]) -> Lowered:
        key = " ".join(names)
        if key not in self._alone:
            self._alone[key] = Lowered([self._cases[name] for name in names])
        return self._alone[key]

    def _refused(self, engine: str, name: str) -> bool:
        if TOGETHER_FOR[engine] == 1 or engine != "iree":
            return False
        if words := is_refused_alone(engine, self._lowered([name])):
            self._end([name], engine, "refused", words)
        return bool(words)

    def _engine(self, engine: str, names: Sequence[str]) -> None:
        def expected(number: int) -> list[list[Array]]:
            every = [self._expected[name] for name in names]
            return [each[min(number, len(each) - 1)] for each in every]

        self._say({"begun": [engine, *names]})
        try:
            lowered = self._lowered(names)
            found = findings(engine, lowered, expected)
        except RefusedError as error:
            word, told = "refused", str(error)
        except Exception as error:  # noqa: BLE001 - what an engine says is a finding
            word, told = "failed", f"{type(error).__name__}: {error}"
        else:
            self._say({"found": found})
            return
        if len(names) == 1:
            self._end(names, engine, word, told)
            return
        half = len(names) // 2
        self._engine(engine, names[:half])
        self._engine(engine, names[half:])


# Children


def child() -> None:
    """Run the programs that stdin names; print lines of JSON of what begins, and what is found."""
    import faulthandler
    import tempfile

    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(said: Any) -> None:
        print(json.dumps(said), file=out, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the compiler leaves its statistics in the working folder
        for line in sys.stdin:
            engines, names = json.loads(line)
            Batch(names, say).run(engines)
            say({"done": True})


class Child:
    """A child that runs programs on some engines."""

    def __init__(self, engines: str | Sequence[str], said: Path) -> None:
        self._engines = [engines] if isinstance(engines, str) else [*engines]
        self._said = said
        self._batches = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def run(self, names: Sequence[str]) -> list[Finding]:
        """What became of programs, on each engine. A crash and a time-out end this process, not the
        next, and are looked for one by one.
        """
        found: list[Finding] = []
        for engine, left in self._run(self._engines, names, found).items():
            for each in left:
                self._run([engine], [each], found, ending=True)
        return found

    def _run(
        self,
        engines: Sequence[str],
        names: Sequence[str],
        found: list[Finding],
        ending: bool = False,
    ) -> dict[str, list[str]]:
        """Run programs; returns those that a crash has left to be run, by engine."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([engines, names]).encode() + b"\n")
        begun: list[str] = []
        word = "slow"
        while (line := self._line(process.stdout.fileno())) is not None:
            if not line:
                word = "crashed"
                process.wait(SECONDS_MAX)
                break
            said = json.loads(line)
            if "done" in said:
                return {}
            begun = said.get("begun", begun)
            found.extend(Finding(*each) for each in said.get("found", ()))
        self.end()
        if ending:
            known = {each.name for each in found if each.engine in (*engines, "")}
            for name in names:
                if name not in known:
                    found.append(Finding(name, word, f"{process.returncode}", engines[0]))
            return {}
        ended = {each.name for each in found if not each.engine}
        known_by = defaultdict(set)
        for each in found:
            known_by[each.engine].add(each.name)
        left = {
            engine: [n for n in names if n not in known_by[engine] and n not in ended]
            for engine in engines
        }
        if len(begun) == 2 and begun[1] in left[begun[0]]:
            engine, name = begun
            found.append(Finding(name, word, f"{process.returncode}", engine))
            left[engine].remove(name)
        return {engine: each for engine, each in left.items() if each}

    def _line(self, file: int) -> bytes | None:
        """The next line of the child; b"" when it has ended, None when it is slow."""
        while b"\n" not in self._rest:
            if not select.select([file], [], [], SECONDS_MAX)[0]:
                return None
            if not (read := os.read(file, 1 << 16)):
                return b""
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._batches >= BATCHES_MAX:
            self.end()
        if self._process is None:
            self._batches = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.engines.search", "child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said.open("a"),
                bufsize=0,
            )
            self._rest = b""
        self._batches += 1
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
    wanted: dict[tuple[int, str], list[str]] = {}
    for place, name in enumerate(names):
        asked = [e for e in engines if place % shares.get(e, 1) == 0]
        left = [] if "" in known[name] else [e for e in asked if e not in known[name]]
        if left:
            # Those for the same engines of some thousand names, so that all engines get on.
            wanted.setdefault((place // CHUNK, " ".join(left)), []).append(name)
    for (_, key), each in wanted.items():
        one = Child(key.split(), out.with_suffix(".said"))
        try:
            for place in range(0, len(each), TOGETHER):
                found = one.run(each[place : place + TOGETHER])
                with out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(f._asdict()) + "\n" for f in found)
        finally:
            one.end()


def read(out: Path) -> Iterator[Finding]:
    """What a search has found."""
    with out.open(encoding="utf-8") as file:
        for line in file:
            yield Finding(**json.loads(line))


def table(out: Path) -> str:
    """How many programs each engine takes, refuses and computes otherwise, and what it refuses."""
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
    run.add_argument("--share", action="append", default=[], metavar="ENGINE=NUMBER")
    show = commands.add_parser("show")
    show.add_argument("name")
    tell = commands.add_parser("tell")
    tell.add_argument("out", type=Path)
    asked = parser.parse_args()
    if asked.command == "child":
        child()
    elif asked.command == "run":
        if asked.count:
            numbers = range(asked.first, asked.first + asked.count)
            names = [f"generated.{asked.seed}.{number}" for number in numbers]
        else:
            names = [
                name
                for name in programs()
                if not asked.parts or any(part in name for part in asked.parts)
            ]
        shares = {
            engine: int(number) for engine, _, number in (s.partition("=") for s in asked.share)
        }
        search(asked.out, asked.engine or [*ENGINES], names, shares)
        print(table(asked.out))
        sys.exit(any(each.found in DIFFERING for each in read(asked.out)))
    elif asked.command == "show":
        from .generated_programs import generated

        _, seed, number = asked.name.split(".")
        print(generated(int(seed), int(number)).text)
    else:
        print(table(asked.out))


if __name__ == "__main__":
    main()
