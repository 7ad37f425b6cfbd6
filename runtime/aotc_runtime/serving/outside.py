"""Calls whose shapes no profile has: which way they are served, or why they are not."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from aotc_runtime.errors import ShapeError
from aotc_runtime.schema.labels import (
    policies_of,
    sizes_text,
    without_compiling,
)
from aotc_runtime.schema.manifest import CompileHere, OutOfProfilePolicy, Pad, TensorSpec
from aotc_runtime.serving.compiled_here import CompiledHere
from aotc_runtime.serving.compiling import Compiler
from aotc_runtime.serving.execution import Execution, Served
from aotc_runtime.serving.padding import Array, fill_value
from aotc_runtime.serving.resident import ResidentEntryPoint, avals
from aotc_runtime.serving.routes import Direct, Parts, Route, router_of
from aotc_runtime.serving.signature import passed_leaves
from aotc_runtime.serving.sizes import Shapes, Sizes, check_accepted, no_profile, solve
from aotc_runtime.serving.supplied import supplied_inputs
from aotc_runtime.serving.tallies import Path, SizesKey, Tallies
from aotc_runtime.serving.ways import ExactWay, PaddedWay, SplitWay, Way, shapes_at

REMEMBERED_MAX = 1024
"""How many shapes are remembered with their way, so that the next such call needs one look-up."""


class Outside:
    """Chooses and remembers ways for one entry point.

    served: the executables of its profiles, in the manifest's order.
    """

    def __init__(
        self,
        resident: ResidentEntryPoint,
        served: Sequence[Served],
        execution: Execution,
        tallies: Tallies,
    ) -> None:
        spec = resident.spec
        self._name, self._spec, self._dimensions = resident.name, spec, resident.dimensions
        self._served, self._execution, self._tallies = served, execution, tallies
        self._supplied = supplied_inputs(spec)
        passed = passed_leaves(spec)
        self._tensors: list[TensorSpec] = [spec.inputs[leaf] for leaf in passed]
        self._known = [
            tuple(profile.input_shapes[leaf] for leaf in passed) for profile in spec.profiles
        ]
        self._records = records = spec.profiles
        declared = policies_of(spec)
        now = {
            name: OutOfProfilePolicy.PAD if isinstance(policy, Pad) else OutOfProfilePolicy.SPLIT
            for name, policy in without_compiling(spec).items()
        }
        self._now = router_of(records, now)
        compiling = {d for d, policy in declared.items() if policy is OutOfProfilePolicy.COMPILE}
        self._first = router_of(records, {d: p for d, p in now.items() if d not in compiling})
        self._fills = _fills(resident)
        self._lock = threading.Lock()
        self._ways: dict[Shapes, tuple[SizesKey, Way]] = {}
        self.compiler = _compiler(resident) if compiling else None

    def find(self, shapes: Shapes) -> Way:
        """The way of a call with these shapes of what it passes; its sizes are counted as seen.

        Raises ShapeError: AOTC-E611 to E615.
        """
        known = self._ways.get(shapes)
        if known is not None:
            self._tallies.seen(known[0])
            return known[1]
        sizes = solve(self._name, self._tensors, shapes, self._known)
        key: SizesKey = tuple(sizes.items())
        self._tallies.seen(key)
        check_accepted(self._name, self._spec, self._dimensions, sizes)
        if sizes.keys() != set(self._spec.dimensions):
            raise no_profile(self._name, self._spec, self._tensors, shapes, sizes)
        route = self._first.choose(sizes)
        if route is None and self.compiler is not None:
            return self._compiled(self.compiler, sizes, key)
        if route is None:
            raise self._refusal(shapes, sizes)
        way = self._way(route, sizes)
        with self._lock:
            if len(self._ways) >= REMEMBERED_MAX:
                del self._ways[next(iter(self._ways))]
            self._ways[shapes] = (key, way)
        return way

    def close(self) -> None:
        """Start no more compilations; calls that are on their way end as they would."""
        if self.compiler is not None:
            self.compiler.close()

    def _compiled(self, compiler: Compiler, sizes: Sizes, key: SizesKey) -> Way:
        """By an executable that was compiled for these sizes, or as calls do until it is there."""
        served = compiler.find(key)
        if served is not None:
            return ExactWay(self._execution, served, Path.COMPILED, f"{self._name}[compiled]")
        refused = compiler.request(key)
        route = self._now.choose(sizes)
        if route is None:
            raise refused
        return self._way(route, sizes)

    def _way(self, route: Route, sizes: Sizes) -> Way:
        if isinstance(route, Parts):
            ways = [(call.sizes[route.dimension], self._direct(call)) for call in route.calls]
            kept = shapes_at(
                [tensor.shape for tensor in self._spec.outputs],
                self._records[0].output_shapes,
                sizes,
            )
            outputs = avals([tensor.dtype for tensor in self._spec.outputs], kept)
            return SplitWay(self._execution, self._spec, route.dimension, ways, outputs)
        return self._direct(route)

    def _direct(self, call: Direct) -> Way:
        served, record = self._served[call.profile], self._records[call.profile]
        if call.sizes == record.sizes:
            return ExactWay(self._execution, served, Path.EXACT, served.label)
        return PaddedWay(
            self._execution, served, self._spec, record, call.sizes, self._fills, self._supplied
        )

    def _refusal(self, shapes: Shapes, sizes: Sizes) -> ShapeError:
        refused = no_profile(self._name, self._spec, self._tensors, shapes, sizes)
        works = [
            f"{dimension} in calls of {' and '.join(map(str, sorted(pieces)))}"
            for dimension in self._now.split
            if (pieces := self._now.pieces(sizes, dimension))
        ]
        if not works:
            return refused
        finding = msgspec.structs.replace(
            refused.findings[0],
            code="AOTC-E616",
            expected=f"sizes that profiles add up to: {'; '.join(works)}",
            hint=f"no sum of them is {sizes_text(sizes)}: call with other sizes, or add a profile",
        )
        return ShapeError(finding)


def _fills(resident: ResidentEntryPoint) -> dict[int, Array]:
    """By leaf, what padding is filled with."""
    texts: dict[str, str] = {}
    for policy in without_compiling(resident.spec).values():
        if isinstance(policy, Pad):
            texts |= policy.fill
    return {
        leaf: fill_value(texts.get(tensor.path, "0"), tensor.dtype)
        for leaf, tensor in enumerate(resident.spec.inputs)
    }


def _compiler(resident: ResidentEntryPoint) -> Compiler:
    symbolic = resident.symbolic
    assert symbolic is not None, "a consistent manifest has one for a policy that compiles"
    policies = [p for p in resident.spec.out_of_profile.values() if isinstance(p, CompileHere)]
    return Compiler(
        resident.name,
        symbolic.module.digest,
        CompiledHere(resident.device, resident.name, resident.spec, symbolic),
        min(policy.most for policy in policies),
        min(policy.seconds for policy in policies),
    )
