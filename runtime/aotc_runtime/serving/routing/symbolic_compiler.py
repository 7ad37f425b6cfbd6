"""Compiles executables in production, and checks them before they serve.

The bundled module, compiled here for the sizes of a profile, must give the results that plain JAX
recorded at build: only then does this host's compiler do what the build's did. That is checked
once, before anything else is compiled. And for each executable there must be enough memory for its
calls.
"""

from math import prod
from typing import NoReturn

from msgspec import UNSET

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.device_features import SymbolicModule
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import WeightArgument
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.serving import resident_bundle
from aotc_runtime.serving.readiness import compare
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint, ResidentExecutable
from aotc_runtime.serving.routing.call_sizes import avals_at
from aotc_runtime.serving.routing.padding_masks import masks_of, on_device
from aotc_runtime.serving.served_call import Served
from aotc_runtime.system import host_probe


class SymbolicCompiler:
    """Compiles one entry point for any sizes; call it from one thread at a time."""

    def __init__(self, resident: ResidentEntryPoint) -> None:
        """Compile for a resident entry point whose manifest has a module for other sizes."""
        self._device, self._name, self._spec = resident.device, resident.name, resident.spec
        spec, verified, weights = resident.spec, resident.verified, resident.weights
        assert spec.symbolic is not UNSET, "a consistent manifest has one to compile"
        self._module = verified.blob(spec.symbolic.module)
        self._arguments = resident_bundle.bound_arguments(spec.symbolic.arguments, weights)
        self._weights = [
            weights[argument.set, argument.tensor].aval
            for argument in spec.symbolic.arguments
            if isinstance(argument, WeightArgument)
        ]
        self._options = verified.manifest.target.options
        # Its fixture shows whether code that is compiled on this host computes the same.
        self._cheapest = min(spec.profiles, key=lambda profile: profile.cost.flops)
        self._fixture = verified.blob(self._cheapest.fixture)
        self._has_matched = False

    def __call__(self, sizes: dict[str, int]) -> Served:
        """Return an executable for these sizes that may serve.

        Raises BackendError (AOTC-E756): it does not compile, the module gives other results than
        recorded, or there is no memory for a call.
        """
        if not self._has_matched:
            self._match_fixture()
            self._has_matched = True
        found = self._compile(sizes)
        inputs = sum(prod(aval.shape) * aval.dtype.itemsize for aval in found.inputs)
        needed = inputs + self._device.features.memory_of(found.executable)
        free = host_probe.free_memory()
        if needed > free:
            _refuse(found.label, "", f"{free} bytes of free memory, {needed} needed for a call")
        shapes = [aval.shape for aval in found.inputs]
        masks = on_device(self._device, masks_of(self._spec), shapes, sizes)
        return Served(found, self._spec.result, masks)

    def _compile(self, sizes: dict[str, int]) -> ResidentExecutable:
        spec = self._spec
        inputs, outputs = avals_at(spec, sizes)
        weights = iter(self._weights)
        arguments = [
            inputs[each] if isinstance(each, int) else next(weights) for each in self._arguments
        ]
        where = label(self._name, sizes)
        module = SymbolicModule(self._module, arguments, outputs, self._options, where)
        executable = self._device.features.compile_symbolic(module)
        device, bound = self._device, self._arguments
        direct = resident_bundle.direct_call(device, executable, spec, bound, inputs, outputs)
        return ResidentExecutable(device, where, executable, bound, inputs, outputs, direct)

    def _match_fixture(self) -> None:
        """Raises BackendError (AOTC-E756)."""
        spec, device = self._spec, self._device
        found = self._compile(self._cheapest.sizes)
        where = f"fixture {found.label}"
        # That it has these tensors was seen when the profile's own executable ran them.
        views = tensor_views(self._fixture.data, where)
        leaves = [
            device.put(views[f"inputs/{tensor.path}"][0], aval)
            for tensor, aval in zip(spec.inputs, found.inputs, strict=True)
        ]
        arguments = [leaves[each] if isinstance(each, int) else each for each in found.arguments]
        try:
            results = device.execute(found.executable, arguments)
        except device.error as error:
            _refuse(where, "", first_line(error))
        rtol, atol = float(spec.tolerance.rtol), float(spec.tolerance.atol)
        for tensor, aval, result in zip(spec.outputs, found.outputs, results, strict=True):
            expected = views[f"outputs/{tensor.path}"][0]
            difference = compare(device.to_numpy(result, aval), expected, rtol, atol)
            if not difference.within:
                raise refusal(
                    "AOTC-E756",
                    f"{where} output {tensor.path or 'result'}",
                    f"another result for fixture {found.label}: {difference}",
                    cause="compiled-module-computes-other-results",
                    expected="the recorded result, within the tolerance",
                )


def _refuse(where: str, expected: str, found: str) -> NoReturn:
    raise refusal("AOTC-E756", where, found, expected=expected)
