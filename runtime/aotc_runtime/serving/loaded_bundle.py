"""A bundle that is ready, and its entry points: from arguments to results.

The choice of the executable is one dictionary look-up on the shapes of all input leaves. Whatever
needs more than that goes to `checked_calls`. It, and everything else that an exact call of numpy
arrays does not need, is imported when it is used first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.schema import manifest_labels
from aotc_runtime.schema.bundle_manifest import EntryPoint
from aotc_runtime.schema.pytrees import Leaf
from aotc_runtime.serving.readiness import Difference, run_all
from aotc_runtime.serving.resident_bundle import ResidentBundle, ResidentEntryPoint
from aotc_runtime.serving.served_call import Served, Shapes

if TYPE_CHECKING:
    import inspect

    from aotc_runtime.serving.bundle_assets import LoadedAsset
    from aotc_runtime.serving.call_metrics import CallMetrics
    from aotc_runtime.serving.checked_calls import CheckedCalls
    from aotc_runtime.serving.device_arrays import DeviceArray


class State(StrEnum):
    """The state of a bundle: callable, or closed."""

    READY = "ready"
    CLOSED = "closed"


Array = np.ndarray[Any, Any]

_MODULES = sys.modules

WARMING_CALLS = 3
WARMING_NANOSECONDS = 10_000_000


class LoadedEntryPoint:
    """A callable entry point.

    Calling it takes and returns numpy arrays, or jax arrays if any argument is one; `on_device`
    returns `DeviceArray`s, which any call accepts in turn without a copy; `call_async` runs in
    another thread. Arguments are checked for structure, dtype and shape; nothing is cast, and
    arrays passed in are never aliased. Raises ShapeError (AOTC-E60x to E63x), BackendError
    (AOTC-E754, E755), ResourceError (AOTC-E553).

    `parameters` are those of a call, without masks and lengths, which the loader passes; `passed`
    are their leaves in spec.inputs.
    """

    def __init__(self, resident: ResidentEntryPoint) -> None:
        spec = resident.spec
        self.name = resident.name
        self.spec: EntryPoint = spec
        self.parameters = manifest_labels.passed_parameters(spec)
        self.passed = manifest_labels.passed_leaves(spec)
        is_all_passed = len(self.passed) == len(spec.inputs)
        masks: Mapping[int, Sequence[tuple[int, DeviceArray]]] = {}
        if not is_all_passed:
            from aotc_runtime.serving.routing.padding_masks import masks_by_profile

            masks = masks_by_profile(resident)
        served = [
            Served(profile, spec.result, masks.get(number, ()))
            for number, profile in enumerate(resident.profiles)
        ]
        self._table: dict[Shapes, Served] = {
            tuple(record.input_shapes[leaf] for leaf in self.passed): each
            for record, each in zip(spec.profiles, served, strict=True)
        }
        self._counters = [(each.label, each.counter) for each in served]
        # How many arguments a call by position has whose leaves they are, in order; -1 if none is.
        count = len(self.parameters)
        is_plain = is_all_passed and all(isinstance(p.tree, Leaf) for p in self.parameters)
        is_plain = is_plain and manifest_labels.positional_count(self.parameters) == count
        self._plain_count = count if is_plain else -1
        self._dtypes = [aval.dtype for aval in resident.profiles[0].inputs]
        self._only = self._dtypes[0] if self._plain_count == 1 else None
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        self._rival = "jax" if any(each.device.minds_jax for each in resident.profiles) else ""
        self._lock = threading.RLock()
        self._resident: ResidentEntryPoint | None = resident
        self._metrics: CallMetrics | None = None
        self._checked: CheckedCalls | None = None
        if spec.out_of_profile:
            self._checked_calls().fallback()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the entry point; the results are numpy arrays, or jax's if an argument is one."""
        started = perf_counter_ns()
        leaf = args[0] if len(args) == 1 and not kwargs else None
        if type(leaf) is np.ndarray and leaf.dtype is self._only and self._rival not in _MODULES:
            served = self._table.get((leaf.shape,))
        else:
            served = None if kwargs else self._at_once(args)
        if served is not None and served.call is not None and not served.device.was_forked:
            try:
                result = served.show(served.call(*args))
            except served.device.error as error:
                from aotc_runtime.serving.serving_refusals import call_failure

                failure = call_failure(served.device, served.label, error)
                self.metrics.count_refusal(failure.code)
                raise failure from error
            served.counter.observe(perf_counter_ns() - started)
            return result
        return (self._checked or self._checked_calls()).answer(args, kwargs, started).result

    def _at_once(self, args: tuple[Any, ...]) -> Served | None:
        """Return the profile for plain numpy arrays that need no conversion.

        None sends the call through all checks, which find the reason.
        """
        if len(args) != self._plain_count or self._rival in _MODULES:
            return None
        # Identity of types: a dtype of another byte order is another object.
        for leaf, dtype in zip(args, self._dtypes, strict=True):
            if type(leaf) is not np.ndarray or leaf.dtype is not dtype:
                return None
        return self._table.get(tuple([leaf.shape for leaf in args]))

    def on_device(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the entry point, and return `DeviceArray` leaves.

        Results that are passed back stay on the device, unless they are padded or cut.
        """
        started = perf_counter_ns()
        return self._checked_calls().on_device(args, kwargs, started)

    async def call_async(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the entry point in another thread, for event loops.

        Do not change the arguments before it is done.
        """
        import asyncio

        return await asyncio.to_thread(self, *args, **kwargs)

    def warm(self, leaves: list[Array]) -> None:
        """Call with these input leaves to warm up, without counting.

        It makes three calls, or fewer if they take long, since they save later calls a fraction of
        a millisecond.
        """
        positional, named = manifest_labels.arguments_of(self.parameters, leaves)
        end = perf_counter_ns() + WARMING_NANOSECONDS
        for _ in range(WARMING_CALLS):
            self(*positional, **named)
            if perf_counter_ns() > end:
                break
        for _, counter in self._counters:
            counter.reset()

    @property
    def signature(self) -> inspect.Signature:
        """The signature of a call, in Python's terms."""
        from aotc_runtime.serving.call_signature import signature_of

        return signature_of(self.parameters)

    @property
    def metrics(self) -> CallMetrics:
        """Return the counters beside those of each profile."""
        with self._lock:
            if self._metrics is None:
                from aotc_runtime.serving.call_metrics import CallMetrics, Counted

                sizes = [tuple(sorted(record.sizes.items())) for record in self.spec.profiles]
                self._metrics = CallMetrics(
                    [Counted(s, *each) for s, each in zip(sizes, self._counters, strict=True)]
                )
            return self._metrics

    @property
    def calls(self) -> dict[str, int]:
        """The number of calls by executable; a split call counts for its largest part."""
        return self.metrics.calls

    @property
    def refusals(self) -> dict[str, int]:
        """Calls refused, by error code."""
        return self.metrics.refusals

    def report(self) -> dict[str, Any]:
        """JSON-able metrics, as docs/guides/serve.md describes them."""
        return self.metrics.report()

    def _checked_calls(self) -> CheckedCalls:
        """Return the checks of single arguments, made on first use."""
        with self._lock:
            if self._checked is None:
                from aotc_runtime.serving.checked_calls import CheckedCalls, closed_error

                if self._resident is None:
                    self.metrics.count_refusal("AOTC-E633")
                    raise closed_error(self.name)
                self._checked = CheckedCalls(self._resident, self._table, self.metrics)
            return self._checked

    def close(self) -> None:
        """Refuse further calls; calls that are running end as they would."""
        with self._lock:
            self._resident = None
            checked = self._checked
        # First, since it makes its part for calls that no profile fits of what is in the table.
        if checked is not None:
            checked.close()
        self._table.clear()

    def __repr__(self) -> str:
        labels = ", ".join(self.calls)
        return f"<entry point {self.name}{self.signature}: {labels}>"


class LoadedBundle:
    """A bundle that is ready: verified, compatible, loaded, every fixture run and matched.

    Made only by `make_ready`. `bundle["predict"]` is the entry point `predict`, and
    `bundle.assets["tokenizer"]` the asset `tokenizer`.
    """

    def __init__(
        self,
        resident: ResidentBundle,
        fixtures: Mapping[manifest_labels.ExecutableKey, Difference],
        compilations: int,
    ) -> None:
        self._resident: ResidentBundle | None = resident
        verified = resident.verified
        self.manifest = verified.manifest
        self.name, self.version = verified.manifest.name, verified.manifest.version
        self.root_digest, self.signers = verified.root_digest, verified.signers
        self._choice = verified.choice
        self.timings: dict[str, float] = {}
        self.fixtures = fixtures
        self._compilations = compilations
        self._lock = threading.Lock()
        self._devices = tuple(resident.devices.values())
        self.entry_points: Mapping[str, LoadedEntryPoint] = {
            name: LoadedEntryPoint(entry_point)
            for name, entry_point in resident.entry_points.items()
        }
        self.assets: Mapping[str, LoadedAsset] = {}
        if verified.manifest.assets:
            from aotc_runtime.serving.bundle_assets import LoadedAsset

            self.assets = {
                name: LoadedAsset(name, asset, verified)
                for name, asset in verified.manifest.assets.items()
            }

    @property
    def state(self) -> State:
        """Ready, or closed."""
        return State.READY if self._resident is not None else State.CLOSED

    def __getitem__(self, name: str) -> LoadedEntryPoint:
        found = self.entry_points.get(name) if isinstance(name, str) else None
        if found is None:
            from aotc_runtime.serving.serving_refusals import no_entry_point

            raise no_entry_point(f"{self.name} {self.version}", name, self.entry_points)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.entry_points)

    def __len__(self) -> int:
        return len(self.entry_points)

    def __contains__(self, name: object) -> bool:
        return name in self.entry_points

    def report(self) -> dict[str, Any]:
        """Identity, load times (seconds by stage), compilations, fixtures and calls; JSON-able."""
        from aotc_runtime.serving.loaded_report import bundle_report

        return {
            **bundle_report(self.manifest, self._choice, self._devices[0], self.fixtures),
            "state": self.state.value,
            "root_digest": self.root_digest,
            "signers": list(self.signers),
            "timings": dict(self.timings),
            "compilations": self._compilations,
            "entry_points": {name: each.report() for name, each in self.entry_points.items()},
        }

    def close(self) -> None:
        """Release executables and weights; later calls raise ShapeError (AOTC-E633).

        Calls that are running, and results that were returned, stay good.
        """
        with self._lock:
            resident, self._resident = self._resident, None
        if resident is not None:
            for entry_point in self.entry_points.values():
                entry_point.close()
            del resident
            for device in self._devices:
                device.forget_released()

    def __enter__(self) -> LoadedBundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self.entry_points)
        return f"<{self.name} {self.version} for {self.manifest.target.name}: {names}>"


def make_ready(resident: ResidentBundle) -> LoadedBundle:
    """Run every fixture and make the bundle callable.

    Raises ReadinessError: AOTC-E701 a result beyond its tolerance, E703 something was compiled,
    E704 other results in a second call.
    """
    every = list(run_all(resident))
    compilations = sum(device.compilations() for device in resident.devices.values())
    if compilations or any(not r.difference.within or r.changed is not None for _, r in every):
        from aotc_runtime.serving.loaded_report import not_ready

        raise not_ready(resident, every, compilations)
    fixtures = {profile.key: ran.difference for profile, ran in every}
    loaded = LoadedBundle(resident, fixtures, compilations)
    for profile, ran in every:
        if ran.is_quick:
            # Called as users call it, so that their first call is as fast as later ones.
            loaded[profile.key.entry_point].warm(ran.inputs)
    return loaded
