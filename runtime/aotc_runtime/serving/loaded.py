"""The call path: from arguments to results, each call counted by the executable that served it.

The choice of the executable is one dictionary look-up on the shapes of all input leaves; whatever
does not fit takes the slow path, whose only purpose is a precise error.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.errors import AotcError, BackendError, Finding, ShapeError
from aotc_runtime.schema.manifest import EntryPoint
from aotc_runtime.schema.tree import Leaf
from aotc_runtime.schema.tree import leaves as leaf_indices
from aotc_runtime.serving import resident as residency
from aotc_runtime.serving import trees
from aotc_runtime.serving.arrays import DeviceArray, as_array
from aotc_runtime.serving.resident import ResidentBundle, ResidentEntryPoint, ResidentProfile
from aotc_runtime.serving.signature import bind, positional_count, signature_of
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Buffer

if TYPE_CHECKING:
    from aotc_runtime.serving.readiness import FixtureResult

Shapes = tuple[tuple[int, ...], ...]


class LoadedEntryPoint:
    """A callable entry point.

    Calling it takes and returns numpy arrays; `on_device` returns `DeviceArray`s, which any call
    accepts in turn without a copy. Arguments are checked for structure, dtype and shape; nothing is
    cast, and arrays passed in are never aliased. Raises ShapeError (AOTC-E60x to E63x),
    BackendError (AOTC-E754, E755).
    """

    def __init__(self, resident: ResidentEntryPoint) -> None:
        spec = resident.spec
        self.name = resident.name
        self.spec: EntryPoint = spec
        self.signature: inspect.Signature = signature_of(spec)
        self._slots: dict[Shapes, ResidentProfile] = {
            profile.record.input_shapes: profile for profile in resident.profiles
        }
        self._trees = [parameter.tree for parameter in spec.parameters]
        self._flat = all(isinstance(tree, Leaf) for tree in self._trees)
        self._positional = positional_count(spec.parameters)
        first = resident.profiles[0]
        self._dtypes = [aval.dtype for aval in first.inputs]
        self._scalars = [aval.shape == () for aval in first.inputs]
        self._donated = [
            index
            for parameter in spec.parameters
            if parameter.donated
            for index in leaf_indices(parameter.tree)
        ]
        self._build = trees.builder(spec.result)
        self._lock = threading.Lock()
        self.calls: dict[str, int] = {profile.label: 0 for profile in resident.profiles}
        self.refusals: dict[str, int] = {}
        self._device = pjrt.device()
        self._closed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        profile, results = self._run(args, kwargs)
        return self._build(
            [pjrt.to_numpy(b, a) for b, a in zip(results, profile.outputs, strict=True)]
        )

    def on_device(self, *args: Any, **kwargs: Any) -> Any:
        """As a call, with `DeviceArray` leaves: what is fed back never leaves the device."""
        profile, results = self._run(args, kwargs)
        return self._build(
            [DeviceArray(b, a) for b, a in zip(results, profile.outputs, strict=True)]
        )

    def _run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ResidentProfile, list[Buffer]]:
        try:
            leaves = self._leaves(args, kwargs)
            shapes = tuple([leaf.shape for leaf in leaves])
            profile = self._slots.get(shapes)
            if profile is None:
                raise self._closed_error() if self._closed else self._no_profile(shapes)
            return profile, self._execute(profile, leaves)
        except AotcError as error:
            with self._lock:
                self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
            raise

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The input leaves in order, each a checked numpy array or a DeviceArray."""
        if kwargs or len(args) != len(self._trees) or len(args) > self._positional:
            values: Any = bind(self.name, self.signature, args, kwargs)
        else:
            values = args
        leaves: list[Any]
        if self._flat:
            leaves = list(values)
        else:
            leaves = [None] * len(self._dtypes)
            for parameter, value in zip(self.spec.parameters, values, strict=True):
                where = f"{self.name} {parameter.name}"
                for index, leaf in trees.flatten(parameter.tree, value, where):
                    leaves[index] = leaf
        for index, leaf in enumerate(leaves):
            dtype = self._dtypes[index]
            kind = type(leaf)
            if kind is np.ndarray:
                if leaf.dtype == dtype and leaf.dtype.isnative and leaf.flags.c_contiguous:
                    continue
            elif kind is DeviceArray and leaf.dtype == dtype:
                continue
            where = f"{self.name} {self.spec.inputs[index].path}"
            leaves[index] = as_array(leaf, dtype, self._scalars[index], where)
        return leaves

    def _execute(self, profile: ResidentProfile, leaves: list[Any]) -> list[Buffer]:
        if self._device.pid != pjrt.current_pid():
            pjrt.device()  # raises
        if self._closed:
            raise self._closed_error()
        put = self._device.put
        used_up = self._donated and self._used_up(leaves)
        buffers: list[Any] = [None] * len(leaves)
        arguments = []
        for argument in profile.arguments:
            if type(argument) is int:
                buffer = buffers[argument]
                if buffer is None:
                    leaf = leaves[argument]
                    if type(leaf) is DeviceArray:
                        buffer = leaf.buffer()
                    else:
                        buffer = put(leaf, profile.inputs[argument])
                    buffers[argument] = buffer
                arguments.append(buffer)
            else:
                arguments.append(argument)
        try:
            results = pjrt.execute(profile.executable, arguments)
        except self._device.error as error:
            raise BackendError(
                Finding(
                    code="AOTC-E755",
                    where=profile.label,
                    expected="XLA to run the executable",
                    found=str(error).strip().splitlines()[0],
                    hint="the bundle stays usable; if memory ran out, free some or call with less",
                )
            ) from error
        if used_up:
            for leaf in used_up:
                leaf.use_up(profile.label)
        with self._lock:
            self.calls[profile.label] += 1
        return results

    def _used_up(self, leaves: list[Any]) -> list[DeviceArray]:
        """The device arrays this call donates. Raises ShapeError (AOTC-E631, E632)."""
        donated = [leaves[i] for i in self._donated if type(leaves[i]) is DeviceArray]
        everywhere = [id(leaf) for leaf in leaves if type(leaf) is DeviceArray]
        for leaf in donated:
            leaf.buffer()
            if everywhere.count(id(leaf)) > 1:
                raise ShapeError(
                    Finding(
                        code="AOTC-E632",
                        where=self.name,
                        expected="a donated array passed once",
                        found=f"{leaf!r} passed twice in one call",
                        hint="pass a copy for the other argument: np.asarray(x)",
                    )
                )
        return donated

    def _no_profile(self, shapes: Shapes) -> ShapeError:
        """Why these shapes have no executable: the first leaf that no profile serves, or all."""
        available = "; ".join(
            ",".join(f"{name}={size}" for name, size in sorted(p.record.sizes.items()))
            or "fixed shapes"
            for p in self._slots.values()
        )
        policy = self.spec.out_of_profile.value
        for index, (tensor, shape) in enumerate(zip(self.spec.inputs, shapes, strict=True)):
            if all(profile[index] != shape for profile in self._slots):
                wanted = " or ".join(
                    dict.fromkeys(str(list(profile[index])) for profile in self._slots)
                )
                found = f"{tensor.dtype.value}{list(shape)}"
                expected = f"{tensor.dtype.value}{list(tensor.shape)} of shape {wanted}"
                where = f"{self.name} {tensor.path}"
                break
        else:
            where, found = self.name, " ".join(str(list(shape)) for shape in shapes)
            expected = "shapes that belong to one profile"
        return ShapeError(
            Finding(
                code="AOTC-E611",
                where=where,
                expected=f"{expected} (profiles: {available}; out of profile: {policy})",
                found=found,
                hint="call with a profile's sizes, or add this size to `profiles` and build again",
            )
        )

    def _closed_error(self) -> ShapeError:
        return ShapeError(
            Finding(
                code="AOTC-E633",
                where=self.name,
                expected="a bundle that is open",
                found="one that was closed",
                hint="load it again",
            )
        )

    def close(self) -> None:
        """Refuse further calls and let go of executables and weights."""
        self._closed = True
        self._slots = {}

    def __repr__(self) -> str:
        return f"<entry point {self.name}{self.signature}: {', '.join(self.calls)}>"


class LoadedBundle:
    """A bundle that is ready: verified, compatible, loaded, every fixture run and matched.

    Made only by `readiness.make_ready`. `bundle["predict"]` is the entry point `predict`.
    """

    def __init__(
        self, resident: ResidentBundle, fixtures: tuple[FixtureResult, ...], compilations: int
    ) -> None:
        self._resident: ResidentBundle | None = resident
        self.manifest = resident.verified.manifest
        self.root_digest = resident.verified.root_digest
        self.signers = resident.verified.signers
        self.timings: dict[str, float] = {}
        self._fixtures = fixtures
        self._compilations = compilations
        self._entry_points = {
            name: LoadedEntryPoint(entry_point)
            for name, entry_point in resident.entry_points.items()
        }

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    @property
    def entry_points(self) -> Mapping[str, LoadedEntryPoint]:
        """The entry points by name."""
        return self._entry_points

    def __getitem__(self, name: str) -> LoadedEntryPoint:
        if name not in self._entry_points:
            raise ShapeError(
                Finding(
                    code="AOTC-E602",
                    where=f"{self.name} {self.version}",
                    expected="one of " + ", ".join(self._entry_points),
                    found=repr(name),
                    hint="use an entry point of this bundle",
                )
            )
        return self._entry_points[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entry_points)

    def __contains__(self, name: object) -> bool:
        return name in self._entry_points

    def report(self) -> dict[str, Any]:
        """Identity, load times (seconds by stage), compilations, fixtures and calls; JSON-able."""
        return {
            "name": self.name,
            "version": self.version,
            "target": self.manifest.target.name,
            "root_digest": self.root_digest,
            "signers": list(self.signers),
            "jaxlib": self.manifest.built_with.jaxlib,
            "timings": dict(self.timings),
            "compilations": self._compilations,
            "fixtures": [
                {
                    "label": result.label,
                    "max_abs": result.max_abs,
                    "max_rel": result.max_rel,
                    "ulp_max": result.ulp_max,
                    "elements": result.elements,
                }
                for result in self._fixtures
            ],
            "entry_points": {
                name: {
                    "calls": dict(entry_point.calls),
                    "refusals": dict(sorted(entry_point.refusals.items())),
                }
                for name, entry_point in self._entry_points.items()
            },
        }

    def close(self) -> None:
        """Give executables and weights back; later calls raise ShapeError (AOTC-E633)."""
        if self._resident is not None:
            for entry_point in self._entry_points.values():
                entry_point.close()
            residency.release(self._resident)
            self._resident = None

    def __enter__(self) -> LoadedBundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(self._entry_points)
        return f"<{self.name} {self.version} for {self.manifest.target.name}: {names}>"
