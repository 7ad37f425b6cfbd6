"""One entry point's calls that no profile fits: which way each is served, or why it is not."""

import threading

from msgspec import UNSET

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.schema.bundle_manifest import CompileHere, OutOfProfilePolicy, Pad, TensorSpec
from aotc_runtime.schema.fallback_policies import open_shapes, policies_of, without_compiling
from aotc_runtime.schema.manifest_labels import label, passed_leaves
from aotc_runtime.serving import resident_bundle
from aotc_runtime.serving.call_metrics import (
    SHAPES_MAX,
    CallMetrics,
    Counted,
    Path,
    SizesKey,
)
from aotc_runtime.serving.executable_calls import ExactCall, Execution
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint
from aotc_runtime.serving.routing import call_sizes
from aotc_runtime.serving.routing.background_compiler import BackgroundCompiler
from aotc_runtime.serving.routing.call_sizes import Shapes, Sizes
from aotc_runtime.serving.routing.padded_arrays import declared_fills
from aotc_runtime.serving.routing.padding_masks import masks_of
from aotc_runtime.serving.routing.routed_calls import PaddedCall, RoutedCall, SplitCall
from aotc_runtime.serving.routing.router import Direct, Parts, Route, router_of
from aotc_runtime.serving.routing.symbolic_compiler import SymbolicCompiler
from aotc_runtime.serving.served_call import Served

REMEMBERED_MAX = 1024
"""Maximum number of cached routed calls by shapes, so that the next such call is one look-up."""


class FallbackCalls:
    """Routes the out-of-profile calls of one entry point.

    `exact` has the calls of its profiles by shapes, in the manifest's order, and `table` their
    executables. Both get the sizes of a range that are called, SHAPES_MAX together with profiles.
    """

    def __init__(
        self,
        resident: ResidentEntryPoint,
        exact: dict[Shapes, ExactCall],
        table: dict[Shapes, Served],
        execution: Execution,
        metrics: CallMetrics,
    ) -> None:
        spec = resident.spec
        self._name, self._spec, self._dimensions = resident.name, spec, resident.dimensions
        self._exact, self._table, self._is_closed = exact, table, False
        self._served = [call.served for call in exact.values()]
        self._execution, self._metrics = execution, metrics
        self._masks = masks_of(spec)
        passed = passed_leaves(spec)
        self._tensors: list[TensorSpec] = [spec.inputs[leaf] for leaf in passed]
        self._known = [
            tuple(profile.input_shapes[leaf] for leaf in passed) for profile in spec.profiles
        ]
        self._records, self._profiles = records, _ = spec.profiles, resident.profiles
        declared = policies_of(spec)
        self._ranged = [n for n, p in declared.items() if p is OutOfProfilePolicy.RANGE]
        now = dict.fromkeys(self._ranged, OutOfProfilePolicy.RANGE) | {
            name: OutOfProfilePolicy.PAD if isinstance(policy, Pad) else OutOfProfilePolicy.SPLIT
            for name, policy in without_compiling(spec).items()
        }
        self._now = router_of(records, now)
        compiling = {d for d, policy in declared.items() if policy is OutOfProfilePolicy.COMPILE}
        self._first = router_of(records, {d: p for d, p in now.items() if d not in compiling})
        self._fills = declared_fills(spec)
        self._lock = threading.Lock()
        self._calls: dict[Shapes, tuple[SizesKey, RoutedCall]] = {}
        self.compiler = _compiler(resident) if compiling else None
        if self.compiler is not None:
            metrics.compiles = self.compiler.report

    def close(self) -> None:
        """Start no more compilations; calls that are on their way end as they would."""
        with self._lock:
            self._is_closed = True
        if self.compiler is not None:
            self.compiler.close()
            del self._metrics.compiles

    def find(self, shapes: Shapes) -> RoutedCall:
        """Return the routed call for inputs of these shapes, and count their sizes.

        Raises ShapeError: AOTC-E611 to E615.
        """
        known = self._calls.get(shapes)
        if known is not None:
            self._metrics.count_sizes(known[0])
            return known[1]
        sizes = call_sizes.solve(self._name, self._tensors, shapes, self._known)
        key: SizesKey = tuple(sizes.items())
        call: RoutedCall | None = None
        try:
            call = self._route(shapes, sizes, key)
        finally:
            if call is None or call.counter is None:
                self._metrics.count_sizes(key)
        return call

    def _route(self, shapes: Shapes, sizes: Sizes, key: SizesKey) -> RoutedCall:
        call_sizes.check_accepted(self._name, self._spec, self._dimensions, sizes)
        if sizes.keys() != set(self._spec.dimensions):
            raise call_sizes.no_profile(self._name, self._spec, self._tensors, shapes, sizes)
        route = self._first.choose(sizes)
        if route is None and self.compiler is not None:
            return self._compile(self.compiler, sizes, key)
        if route is None:
            raise self._refusal(shapes, sizes)
        call = self._follow(route, sizes)
        with self._lock:
            if (kept := self._exact.get(shapes)) is not None:
                return kept
            if call.path is Path.RANGE and len(self._exact) < SHAPES_MAX and not self._is_closed:
                return self._keep(shapes, key, call)
            if len(self._calls) >= REMEMBERED_MAX:
                del self._calls[next(iter(self._calls))]
            self._calls[shapes] = (key, call)
        return call

    def _keep(self, shapes: Shapes, key: SizesKey, call: RoutedCall) -> RoutedCall:
        """Serve the next call of these shapes as one of a profile: by one look-up, and counted."""
        assert isinstance(call, ExactCall), "a range serves each size by itself"
        self._exact[shapes], self._table[shapes] = call, call.served
        call.counter = call.served.counter
        self._metrics.add(Counted(key, call.executable, call.counter, call.path))
        return call

    def _compile(self, compiler: BackgroundCompiler, sizes: Sizes, key: SizesKey) -> RoutedCall:
        """Route a call to its compiled executable, or by `meanwhile` until that exists."""
        served = compiler.find(key)
        if served is not None:
            return ExactCall(self._execution, served, Path.COMPILED, f"{self._name}[compiled]")
        refused = compiler.request(key)
        route = self._now.choose(sizes)
        if route is None:
            raise refused
        return self._follow(route, sizes)

    def _follow(self, route: Route, sizes: Sizes) -> RoutedCall:
        if isinstance(route, Parts):
            parts = [(call.sizes[route.dimension], self._direct(call)) for call in route.calls]
            _, outputs = call_sizes.avals_at(self._spec, sizes)
            return SplitCall(self._execution, self._spec, route.dimension, parts, outputs)
        return self._direct(route)

    def _direct(self, call: Direct) -> RoutedCall:
        served, record = self._served[call.profile], self._records[call.profile]
        if call.sizes == record.sizes:
            return ExactCall(self._execution, served, Path.EXACT, served.label)
        if self._ranged:
            return self._in_range(self._profiles[call.profile], call.sizes)
        return PaddedCall(
            self._execution, served, self._spec, record, call.sizes, self._fills, self._masks
        )

    def _in_range(self, profile: resident_bundle.ResidentExecutable, sizes: Sizes) -> ExactCall:
        """Return the call of an executable for every size of a dimension.

        It runs in memory of no size: such memory would have to be made for each.
        """
        spec, avals = self._spec, call_sizes.avals_at(self._spec, sizes)
        shapes = open_shapes(spec, spec.inputs, tuple(aval.shape for aval in avals[0]))
        opened = [Aval(shape, aval.dtype) for shape, aval in zip(shapes, avals[0], strict=True)]
        arguments = profile.arguments
        direct = resident_bundle.direct_call(
            profile.device, profile.executable, spec, arguments, opened, avals[1]
        )
        where = label(self._name, {n: size for n, size in sizes.items() if n not in self._ranged})
        own = resident_bundle.ResidentExecutable(
            profile.device, where, profile.executable, arguments, *avals, direct
        )
        return ExactCall(self._execution, Served(own, spec.result), Path.RANGE, where)

    def _refusal(self, shapes: Shapes, sizes: Sizes) -> AotcError:
        refused = call_sizes.no_profile(self._name, self._spec, self._tensors, shapes, sizes)
        works = [
            f"{dimension} in calls of {' and '.join(map(str, sorted(pieces)))}"
            for dimension in self._now.split
            if (pieces := self._now.pieces(sizes, dimension))
        ]
        if not works:
            return refused
        where, found = refused.findings[0].where, refused.findings[0].found
        return refusal("AOTC-E616", where, found, expected=f"a sum of profiles: {'; '.join(works)}")


def _compiler(resident: ResidentEntryPoint) -> BackgroundCompiler:
    symbolic = resident.spec.symbolic
    assert symbolic is not UNSET, "a consistent manifest has one for a policy that compiles"
    policies = [p for p in resident.spec.out_of_profile.values() if isinstance(p, CompileHere)]
    return BackgroundCompiler(
        resident.name,
        symbolic.module.digest,
        SymbolicCompiler(resident),
        min(policy.most for policy in policies),
        min(policy.seconds for policy in policies),
    )
