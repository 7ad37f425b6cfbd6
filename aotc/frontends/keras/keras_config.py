"""Check of a model's configuration before Keras makes anything of it.

Keras makes objects of whatever classes and functions of its own a file names. Only those are let
through that compute with arrays: no Python code in the file, no pickles, no paths, no downloads.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from aotc.base.errors import finding
from aotc.capture.model_files.model_archive import Damaged, json_text
from aotc_runtime.base.errors import Finding

DEPTH_MAX = 200
"""How deep a configuration may be nested; a model within a model takes about ten."""

MODELS = frozenset({"Functional", "Model", "Sequential"})

RUNS_CODE = frozenset({"Lambda", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFSMLayer"})
"""Layers that are made of Python code, of a pickle or of another file."""

READS_TEXTS = frozenset(
    {"StringLookup", "IntegerLookup", "TextVectorization", "Hashing", "HashedCrossing"}
    | {"FeatureSpace"}
)
"""Layers that need TensorFlow, and whose vocabulary may be a path."""

_VALUES = frozenset({"__keras_tensor__", "__bytes__", "__ellipsis__", "__slice__"})
_ARRAYS = frozenset({"__tensor__", "__numpy__"})
_CODE = frozenset({"__lambda__", "__typespec__"})

_DTYPES = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)

_WIDE = frozenset({"float64", "mixed_float64"})

_FUNCTIONS = ("keras.activations", "keras.ops")

_KINDS = (
    keras.Operation,  # layers are operations
    keras.DTypePolicy,
    keras.constraints.Constraint,
    keras.initializers.Initializer,
    keras.quantizers.Int4QuantizationConfig,
    keras.quantizers.Int8QuantizationConfig,
    keras.quantizers.Quantizer,
    keras.random.SeedGenerator,
    keras.regularizers.Regularizer,
)


def read(data: memoryview) -> dict[str, Any]:
    """Return a model's configuration without what only training needs. Raises Damaged."""
    try:
        config = json.loads(json_text(data, "config.json"), object_hook=_without_lora)
    except (ValueError, RecursionError) as error:
        raise Damaged("config.json of a model", type(error).__name__) from error
    if not isinstance(config, dict) or config.get("class_name") not in MODELS:
        named = ascii(config.get("class_name") if isinstance(config, dict) else None)[:100]
        raise Damaged(f"a model: {', '.join(sorted(MODELS))}", named)
    config.pop("compile_config", None)
    return config


def _without_lora(value: dict[str, Any]) -> dict[str, Any]:
    """Remove the rank of a layer's LoRA, whose product Keras adds to the kernel when it saves it.

    Keras would make arrays of that rank, of zeros, however large it is.
    """
    if isinstance(value.get("name"), str) and isinstance(value.get("lora_rank"), int):
        del value["lora_rank"]
    return value


@dataclass(frozen=True, slots=True)
class Checking:
    """A walk through a configuration. where: the file, for messages."""

    where: str
    enable_x64: bool

    def findings(self, config: dict[str, Any]) -> list[Finding]:
        """Return AOTC-E844 for all that the frontend does not take, each once. Raises Damaged."""
        found: dict[str, Finding] = {}
        for what, hint in self._check_value(config, "the model", 0):
            found.setdefault(what, finding("AOTC-E844", self.where, what, hint=hint))
        return list(found.values())

    def _check_value(self, value: Any, inside: str, depth: int) -> Iterator[tuple[str, str]]:
        """Yield unsupported parts of a value in the layer `inside`, each with a hint."""
        if depth > DEPTH_MAX:
            raise Damaged(f"a configuration of at most {DEPTH_MAX} levels", "more")
        if isinstance(value, list):
            for each in value:
                yield from self._check_value(each, inside, depth + 1)
        if not isinstance(value, dict):
            return
        inner = value.get("config")
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            inside = ascii(inner["name"])[:200]
            if not inner["name"].isprintable():
                raise Damaged("printable names of layers", inside)
        if "class_name" in value:
            yield from self._object(value, inside)
        dtype = value.get("dtype")
        if isinstance(dtype, str) and dtype in _WIDE:
            yield from self._wide(inside)
        if value.get("stateful") is True:
            hint = "save it with stateful=False; pass states as inputs, return them as results"
            yield f"the state of {inside}, which changes in a call", hint
        for node in value.get("inbound_nodes") or ():
            # Without one, Keras would compute while it reads.
            if not _has_tensor(node):
                raise Damaged("operations on the model's inputs", f"{inside} without any")
        for each in value.values():
            yield from self._check_value(each, inside, depth + 1)

    def _object(self, value: dict[str, Any], inside: str) -> Iterator[tuple[str, str]]:
        name, module, inner = value["class_name"], value.get("module"), value.get("config")
        if not isinstance(name, str):
            raise Damaged("names of classes", f"{inside} of {ascii(name)[:100]}")
        if name in _CODE or name in RUNS_CODE:
            yield f"{name} in {inside}: it runs code", "write it with layers and keras.ops"
            return
        if name in READS_TEXTS:
            yield f"{name} in {inside}", "look texts and categories up before the model"
            return
        if name in _VALUES:
            return
        if name in _ARRAYS:
            if not isinstance(inner, dict) or inner.get("dtype") not in _DTYPES:
                raise Damaged("arrays of numbers", f"other values in {inside}")
            return
        custom = f"{ascii(module)[:100]} {ascii(name)[:100]} in {inside}, which is not Keras's own"
        make = "make the model a JAX function yourself, and name it as `function`"
        if not isinstance(module, str) or "config" not in value:
            raise Damaged("modules of classes, as Keras 3 writes them", custom)
        if name == "function":
            if not _is_function(module, inner):
                yield f"the function {ascii(inner)[:100]} of {custom}", make
            return
        if value.get("registered_name") not in (None, name) or not _is_class(module, name):
            if module == "keras.quantizers":
                yield f"the quantization {ascii(name)[:100]} in {inside}", "use int8 or int4"
            else:
                yield custom, make
        if name == "DTypePolicy" and isinstance(inner, dict) and inner.get("name") in _WIDE:
            yield from self._wide(inside)

    def _wide(self, inside: str) -> Iterator[tuple[str, str]]:
        if not self.enable_x64:
            yield f"float64 in {inside}, and 64-bit types are off", "set `enable_x64 = true`"


def _has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            return True
        return any(map(_has_tensor, value.values()))
    return isinstance(value, list) and any(map(_has_tensor, value))


def _keras_object(module: str, name: str) -> Any:
    """Return Keras's object of a name, without importing anything."""
    if module != "keras" and not module.startswith("keras."):
        return None
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def _is_class(module: str, name: str) -> bool:
    found = _keras_object(module, name)
    if not isinstance(found, type) or not found.__module__.startswith("keras."):
        return False
    return issubclass(found, _KINDS) and (name in MODELS or not issubclass(found, keras.Model))


def _is_function(module: str, name: Any) -> bool:
    """Return whether a name is one of an activation, whose only argument is the array."""
    if not isinstance(name, str) or name.startswith("_"):
        return False
    module = "keras.activations" if module == "builtins" else module
    found = _keras_object(module, name) if module in _FUNCTIONS else None
    return callable(found) and not isinstance(found, type)
