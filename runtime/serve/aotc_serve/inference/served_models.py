"""An entry point of a loaded bundle as a model of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import TensorSpec, engine_name
from aotc_runtime.schema.fallback_policies import policies_of
from aotc_runtime.schema.manifest_labels import arguments_of, positional_count
from aotc_runtime.schema.pytrees import Leaf, leaves
from aotc_runtime.serving.answered_calls import answer, answer_with_masks
from aotc_runtime.serving.call_metrics import Answer
from aotc_runtime.serving.flattened_arguments import flattener
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_serve.inference.protocol_tensors import BYTES_WITHIN, Array, Port, datatype_of

RESULT = "result"
"""The name of an output that has none: the result of a function that returns one array."""


Masks = Mapping[int, Array] | None


class Model:
    """An entry point of a bundle, under the name that the server's index lists.

    `inputs` and `outputs` are tensors in the order of the entry point's leaves. `forms` caches the
    JSON of valid requests, for `aotc_serve.inference.inference_requests`.
    """

    def __init__(self, bundle: LoadedBundle, entry_name: str, name: str) -> None:
        entry_point = bundle[entry_name]
        spec = entry_point.spec
        self.bundle, self.entry_point, self.name = bundle, entry_point, name
        self.version = bundle.version
        self.forms: dict[tuple[bytes, int, int], Any] = {}
        self.inputs = tuple(port_of(spec.inputs[leaf]) for leaf in entry_point.passed)
        self.outputs = tuple(port_of(tensor) for tensor in spec.outputs)
        self.place_of = {port.name: place for place, port in enumerate(self.inputs)}
        self.output_of = {port.name: place for place, port in enumerate(self.outputs)}
        parameters = entry_point.parameters
        self._is_plain = (
            all(isinstance(p.tree, Leaf) for p in parameters)
            and [leaf for p in parameters for leaf in leaves(p.tree)] == list(entry_point.passed)
            and positional_count(parameters) == len(parameters)
        )
        self._leaves = len(spec.inputs)
        self._is_leaf = isinstance(spec.result, Leaf)
        self._flatten = flattener(spec.result, f"{entry_name} result")

    def call(self, arrays: list[Array], masks: Masks = None) -> Answer:
        """Call the entry point and return a result with the list of its output arrays.

        `masks` replace those that the loader passes, by leaf. Raises the errors of the entry
        point's call.
        """
        if masks is not None:
            found = answer_with_masks(self.entry_point, arrays, masks)
        elif self._is_plain:
            found = answer(self.entry_point, tuple(arrays), {})
        else:
            placed: list[Any] = [None] * self._leaves
            for leaf, array in zip(self.entry_point.passed, arrays, strict=True):
                placed[leaf] = array
            positional, named = arguments_of(self.entry_point.parameters, placed)
            found = answer(self.entry_point, tuple(positional), named)
        if self._is_leaf:
            return Answer([found.result], found.path, found.executable)
        results: list[Any] = [None] * len(self.outputs)
        self._flatten(found.result, results)
        return Answer(results, found.path, found.executable)

    @property
    def platform(self) -> str:
        """The engine of the model, for the protocol's metadata."""
        return f"aotc_{engine_name(self.bundle.manifest.target)}"

    @property
    def facts(self) -> dict[str, Any]:
        """Identity, profiles and policies, JSON-able; the protocol has no fields for these."""
        spec = self.entry_point.spec
        dimensions = {
            name: {"minimum": d.minimum, "maximum": d.maximum, "multiple_of": d.multiple_of}
            for name, d in self.bundle.manifest.dimensions.items()
            if name in spec.dimensions
        }
        return {
            "bundle": self.bundle.name,
            "entry_point": self.entry_point.name,
            "digest": self.bundle.root_digest,
            "target": self.bundle.manifest.target.name,
            "profiles": [dict(profile.sizes) for profile in spec.profiles],
            "dimensions": dimensions,
            "relations": list(spec.relations),
            "out_of_profile": {name: policy.value for name, policy in policies_of(spec).items()},
            "shapes": {
                port.name: list(spec.inputs[leaf].shape)
                for port, leaf in zip(self.inputs, self.entry_point.passed, strict=True)
            },
        }


def port_of(tensor: TensorSpec) -> Port:
    """Return the protocol's view of one tensor."""
    shape = tuple(axis if isinstance(axis, int) else -1 for axis in tensor.shape)
    name = tensor.path or RESULT
    within = BYTES_WITHIN.get(tensor.dtype)
    return Port(name, datatype_of(tensor.dtype), numpy_dtype(tensor.dtype), shape, within)


def models_of(bundle: LoadedBundle) -> dict[str, Model]:
    """Return the models of a bundle by each name.

    The names are `BUNDLE.ENTRY_POINT`, and `BUNDLE` if there is only one entry point.
    """
    names = list(bundle.entry_points)
    found: dict[str, Model] = {}
    for entry in names:
        full = f"{bundle.name}.{entry}"
        model = Model(bundle, entry, bundle.name if len(names) == 1 else full)
        found |= {full: model, model.name: model}
    return found
