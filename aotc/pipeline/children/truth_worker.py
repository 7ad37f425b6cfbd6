"""Judges calls whose results differ from those of plain JAX.

It uses the module in float64, or StableHLO's reference interpreter, in a process that
`aotc.pipeline.children.program_worker` is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

import numpy as np

from aotc.base.msgpack_values import unpack
from aotc.base.stages import CapturedEntryPoint
from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress
from aotc.bundle.write.bundle_writer import Blob
from aotc.capture.float64_module import NotInterpretedError, NotWidenedError, interpret, widen
from aotc.capture.weight_sets import read_shards
from aotc.check.plain_structures import array_of
from aotc.check.trial_records import Array, Call, call_file, found_file, read_call
from aotc.check.trial_truth import Side, Truth, Verdict, second_opinion, verdict_of, worst_of
from aotc.pipeline.parity_check import TruthJob
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import AotcError
from aotc_runtime.engines.device_features import SymbolicModule
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.bundle_manifest import InputArgument
from aotc_runtime.verification.verify_bundle import VerifiedBlob

ARGUMENTS_MAX = 2**29 + 2**27
"""Bytes of weights and inputs that are converted to float64."""

NEIGHBOURS = 4
"""Inputs beside a call's own that show the errors of plain JAX."""

ORDERS = 2
"""Draws of errors that show how far sums in another order may be apart."""

ONCE = {"xla_backend_optimization_level": "0"}
"""Options for modules that run once: code that is not optimized is there in half of the time."""

INTERPRETED_MAX = 3 * 10**6
"""Numbers that the arguments and results of a module have, at most, squared as products do."""


def work(scratch: Scratch, encoded: bytes, progress: Progress) -> list[Verdict] | list[Side]:
    """Return a verdict for each call, or an opinion where the job has no options of XLA.

    `encoded` is a `TruthJob`.
    """
    # Before any thread of an engine, which inherits it.
    confined_process.shut_off(str(scratch.folder))
    job = unpack(encoded, TruthJob)
    program = scratch.program.read().entry_points
    cases = [_Case(call, program[call.key.entry_point], scratch, job) for call in job.calls]
    if not job.options:
        return [case.opinion() for case in cases]
    device, verdicts = Processor(), []
    for call, case in zip(job.calls, cases, strict=True):
        progress.started(f"computing {call} in float64")
        verdicts.append(case.verdict(device, job.options))
    return verdicts


class _Case:
    """One call: its arguments, and the results of both sides."""

    def __init__(
        self, call: Call, captured: CapturedEntryPoint, scratch: Scratch, job: TruthJob
    ) -> None:
        self._profile, self._scratch = captured.by_key[call.key], scratch
        self._artifact, self._outputs = self._profile.module.artifact, captured.outputs
        arrays = read_call(call_file(scratch.folder, call), captured.inputs, captured.outputs)
        self._inputs, self._plain = arrays.inputs, arrays.expected
        found = found_file(scratch.folder, job.target, call).read()
        self._found = [*map(array_of, found)]
        self._rtol, self._atol = job.tolerances[call.key.entry_point]
        self._ways: list[list[Array]] = []
        self._neighbours: list[tuple[list[Array], list[Array]]] = []
        self._orders: list[list[Array]] = []

    def verdict(self, device: Processor, options: Sequence[Mapping[str, str]]) -> Verdict:
        """Return the verdict by the float64 results, or the differences if these are unknown."""
        with suppress(AotcError, NotWidenedError, ValueError, RuntimeError):
            for _ in self._compute_truth(device, options):
                if self._judged().is_settled:
                    break  # what follows only accepts more
        return self._judged()

    def _judged(self) -> Verdict:
        verdicts = []
        for place, tensor in enumerate(self._outputs):
            pairs = [(one[place], exact[place]) for one, exact in self._neighbours]
            others, ways = ([each[place] for each in every] for every in (self._orders, self._ways))
            truth = Truth(ways, pairs, others) if ways else None
            found, plain = self._found[place], self._plain[place]
            verdicts.append(verdict_of(tensor.path, found, plain, truth, self._rtol, self._atol))
        return worst_of(verdicts)

    def _compute_truth(
        self, device: Processor, options: Sequence[Mapping[str, str]]
    ) -> Iterator[None]:
        """Add what a `Truth` holds of all outputs, as far as it can be computed, part by part."""
        arguments = self._arguments()
        if sum(array.nbytes for array in arguments) > ARGUMENTS_MAX:
            return
        others = [_neighbour(arguments, seed) for seed in range(NEIGHBOURS)]
        wide, *wide_others = ([*map(_wide, each)] for each in (arguments, *others))
        artifact, (first, *rest) = widen(self._artifact), options
        exact, *nearby = self._compute(device, artifact, [wide, *wide_others], first)
        self._ways.append(exact)
        if any(array.dtype == np.float64 for array in arguments):
            self._neighbours += [(each, exact) for each in nearby]
        else:
            plain = self._compute(device, self._artifact, others, first)
            self._neighbours += zip(plain, nearby, strict=True)
            yield
            for seed in range(ORDERS):
                blurred = widen(self._artifact, seed)
                self._orders += self._compute(device, blurred, [wide], {**first, **ONCE})
        yield
        for way in rest:
            self._ways += self._compute(device, artifact, [wide], way)
        self._ways += self._compute(device, self._artifact, [arguments], {**first, **ONCE})

    def opinion(self) -> Side:
        """Return the side that differs from the interpreter; "" where it is not used."""
        arguments = self._arguments()
        sizes = [array.size for array in (*arguments, *self._plain)]
        if max(sizes, default=0) ** 1.5 > INTERPRETED_MAX:
            return ""
        with suppress(NotInterpretedError):
            third = interpret(self._artifact, arguments)
            return second_opinion(self._found, self._plain, third, self._rtol, self._atol)
        return ""

    def _arguments(self) -> list[Array]:
        sets: dict[str, dict[str, Array]] = {}
        found = []
        for argument in self._profile.arguments:
            if isinstance(argument, InputArgument):
                found.append(self._inputs[argument.leaf])
                continue
            if argument.set not in sets:
                sets[argument.set] = read_shards(self._scratch.weights(argument.set))
            found.append(sets[argument.set][argument.tensor])
        return found

    def _compute(
        self,
        device: Processor,
        artifact: bytes,
        calls: Sequence[Sequence[Array]],
        options: Mapping[str, str],
    ) -> list[list[Array]]:
        """Return the results of a module, or of its float64 form, for each call's arguments.

        Raises AotcError, and XLA's errors.
        """
        is_wide = artifact is not self._artifact
        results = [_wide(array) if is_wide else array for array in self._plain]
        outputs = [Aval(array.shape, array.dtype) for array in results]
        device.register_custom_calls(self._profile.module.custom_call_targets)
        return results_of(device, artifact, calls, outputs, options)


def results_of(
    device: Processor,
    artifact: bytes,
    calls: Sequence[Sequence[Array]],
    outputs: Sequence[Aval],
    options: Mapping[str, str],
) -> list[list[Array]]:
    """Return a module's results for each call's arguments. Raises AotcError, and XLA's errors."""
    inputs = [Aval(array.shape, array.dtype) for array in calls[0]]
    # It only reads the bytes; nothing here was signed.
    blob = cast(VerifiedBlob, Blob(artifact, oci_layout.MODULE_TYPE))
    module = SymbolicModule(blob, inputs, outputs, options, "the truth")
    executable = device.features.compile_symbolic(module)
    found = []
    for arguments in calls:
        put = [device.put(array, aval) for array, aval in zip(arguments, inputs, strict=True)]
        made = device.execute(executable, put)
        found.append([device.to_numpy(r, aval) for r, aval in zip(made, outputs, strict=True)])
    return found


def _neighbour(arguments: Sequence[Array], seed: int) -> list[Array]:
    """Return arguments with each finite number moved to a random neighbour of its type."""
    chance = np.random.default_rng(seed)
    moved = []
    for array in arguments:
        if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
            toward = np.where(chance.random(array.shape) < 0.5, -np.inf, np.inf)
            with np.errstate(all="ignore"):
                near = np.nextafter(array, toward.astype(array.dtype))
                is_finite = np.isfinite(array) & np.isfinite(near)
            moved.append(np.where(is_finite, near, array))
        else:
            moved.append(array)
    return moved


def _wide(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float64)
    return array
