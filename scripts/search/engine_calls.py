"""A program, compiled by an engine, loaded and called as a bundle's executable is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from aotc_runtime.engines.engine_arrays import Aval

type Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A program to run.

    weights: its first arguments, which every call has.  trials: the inputs of each call, by what
    is odd about them; the first is called again at the end.
    """

    name: str
    function: Callable[..., Any]
    x64: bool
    weights: Sequence[Array]
    trials: Mapping[str, Sequence[Array]]


class RefusedError(Exception):
    """Refusal of a program by an engine."""


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
        from aotc.capture.float64_module import widen
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
                blob = VerifiedBlob("", memoryview(widen(self.module.artifact)))
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
    """Return IREE's module, at the first of its levels that compiles.

    It is compiled in this process as the backend's worker does.
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
        assert same_bits(ours, found)
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


def same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    """Return whether two calls have the same results, bit by bit."""
    return [each.tobytes() for each in left] == [each.tobytes() for each in right]
