"""Reads the files of `aotc import-tensorflow` (`.tfhlo`), without TensorFlow.

They hold a signature of a SavedModel as StableHLO, one module for each profile, and its variables.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Struct, json

from aotc.base.errors import finding, raise_if, refusal
from aotc.capture.model_files.frontend_protocol import Array, Model, ModelFile, ModelInput
from aotc.capture.model_files.model_archive import (
    Archive,
    Damaged,
    damaged_file,
    json_text,
    read_archive,
)
from aotc.frontends.stablehlo.module_probe import rewritten
from aotc.frontends.stablehlo.stablehlo_frontend import EXPECTED, Called, called_function
from aotc_runtime.base.errors import AotcError

FORMAT = 1
"""Version of the documents that the import writes."""

DOCUMENT = "model.json"
DIMENSIONS_MAX = 64

_DTYPES = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)
_WIDE = frozenset({"float64", "int64", "uint64", "complex128"})


class _Input(Struct, forbid_unknown_fields=True):
    name: str
    dtype: str
    shape: list[int | str]


class _Weight(Struct, forbid_unknown_fields=True):
    name: str
    dtype: str
    shape: list[int]
    file: str


class _Module(Struct, forbid_unknown_fields=True):
    """shapes: of the inputs.  weights: what it takes behind them, by name."""

    shapes: list[list[int]]
    weights: list[str]
    file: str


class _Document(Struct, forbid_unknown_fields=True):
    format: int
    tensorflow: str
    saved_model: str
    signature: str
    inputs: list[_Input]
    outputs: list[str]
    modules: list[_Module]
    weights: list[_Weight]


type _Shapes = tuple[tuple[int, ...], ...]


class TensorFlowFrontend:
    """Reads signatures that TensorFlow exported."""

    def read(self, file: ModelFile) -> Model:
        """Read a model; see `aotc.capture.model_files.frontend_protocol.Frontend`.

        Sizes that were not exported are rejected when the function is called (AOTC-E846).
        """
        if file.signature is not None:
            cause = "signature-is-not-supported"
            raise refusal("AOTC-E845", file.text, file.signature, cause=cause)
        try:
            document, weights, parts = read_description(file)
            verified = rewritten(file, parts, EXPECTED, "tensorflow")
            modules = {
                _shapes(each): (_call_module(file, document, each, part, weights), each.weights)
                for each, part in zip(document.modules, verified, strict=True)
            }
        except Damaged as error:
            raise damaged_file(file.text, error) from error
        for called, _ in modules.values():
            weights.update(called.lifted)
        sizes = _sizes(document)
        inputs = tuple(
            ModelInput(each.name, np.dtype(jnp.dtype(each.dtype)), tuple(each.shape))
            for each in document.inputs
        )
        return Model(
            function=_function(file.text, inputs, document.outputs, modules),
            inputs=inputs,
            weights=weights,
            ranges={axis: (min(found), max(found)) for axis, found in sizes.items()},
            sizes=sizes,
            producer={
                "framework": "TensorFlow",
                "tensorflow": document.tensorflow[:100],
                "saved_model": document.saved_model[:100],
                "signature": document.signature[:200],
                "converter": f"TensorFlow {document.tensorflow[:100]}, XLA's StableHLO",
            },
        )


def read_description(file: ModelFile) -> tuple[_Document, dict[str, Array], list[bytes]]:
    """Return a file's description, its weights, and its modules, which are not parsed.

    Raises Damaged; AOTC-E844 for 64-bit types that are off.
    """
    archive = read_archive(file.data)
    document = _document(archive)
    if not file.enable_x64:  # modules compute with the types that they have
        arrays: list[_Input | _Weight] = [*document.inputs, *document.weights]
        wide = [f"{each.name!a} is {each.dtype}" for each in arrays if each.dtype in _WIDE]
        cause = "model-uses-64-bit-types"
        raise_if(finding("AOTC-E844", file.text, each, cause=cause) for each in wide)
    weights = {each.name: _weight(each, archive) for each in document.weights}
    used = {name for each in document.modules for name in each.weights}
    if used != {*weights} or len({*map(_shapes, document.modules)}) != len(document.modules):
        raise Damaged("one module for each size, and its weights alone", "others")
    for module in document.modules:
        _require_alike(module, document)
    return document, weights, [bytes(archive.read(each.file)) for each in document.modules]


def _require_alike(module: _Module, document: _Document) -> None:
    """Sizes of a module are those of the inputs, where these have sizes."""
    if len(module.shapes) != len(document.inputs):
        raise Damaged(f"{len(document.inputs)} inputs", f"{len(module.shapes)} inputs")
    for each, shape in zip(document.inputs, module.shapes, strict=True):
        fixed = [size for size in each.shape if isinstance(size, int)]
        alike = [n for n, size in zip(shape, each.shape, strict=False) if isinstance(size, int)]
        if len(shape) != len(each.shape) or fixed != alike:
            raise Damaged(f"{each.name!a} of {each.shape}"[:200], f"a module for {shape}"[:200])


def _document(archive: Archive) -> _Document:
    try:
        found = json.decode(json_text(archive.read(DOCUMENT), DOCUMENT), type=_Document)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        raise Damaged(f"{DOCUMENT} from `aotc import-tensorflow`", str(error)[:200]) from error
    if found.format != FORMAT:
        raise Damaged(f"format {FORMAT}", f"format {found.format}")
    arrays: list[_Input | _Weight] = [*found.inputs, *found.weights]
    names = [each.name for each in arrays] + found.outputs
    names += [found.tensorflow, found.saved_model, found.signature]
    axes = [axis for each in found.inputs for axis in each.shape if isinstance(axis, str)]
    unfit = [name for name in names if not name or not name.isprintable()]
    unfit += [axis for axis in axes if not axis.isidentifier()]
    if unfit:
        raise Damaged("printable names", ascii(unfit[0])[:200])
    for each in arrays:
        sizes = [size for size in each.shape if isinstance(size, int)]
        if each.dtype not in _DTYPES or len(each.shape) > DIMENSIONS_MAX or min([*sizes, 0]) < 0:
            raise Damaged("an array with a supported dtype and shape", ascii(each)[:200])
    if not found.modules or len({each.name for each in arrays}) < len(arrays):
        raise Damaged("modules, and distinct array names", "others")
    if len({*found.outputs}) < len(found.outputs):
        raise Damaged("distinct result names", "duplicates")
    return found


def _weight(each: _Weight, archive: Archive) -> Array:
    data, dtype = archive.read(each.file), np.dtype(jnp.dtype(each.dtype))
    if len(data) != math.prod(each.shape) * dtype.itemsize:
        raise Damaged(f"{each.dtype}{each.shape} of {each.name!a}"[:200], f"{len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(each.shape)


def _shapes(module: _Module) -> _Shapes:
    return tuple(tuple(shape) for shape in module.shapes)


def _call_module(
    file: ModelFile,
    document: _Document,
    module: _Module,
    verified: bytes,
    weights: Mapping[str, Array],
) -> Called:
    """Return a module that takes what the document says of it."""
    called = called_function(replace(file, text=f"{file.text} {module.file}"), verified)
    wanted = [
        (tuple(shape), jnp.dtype(each.dtype))
        for each, shape in zip(document.inputs, module.shapes, strict=True)
    ]
    wanted += [(weights[name].shape, weights[name].dtype) for name in module.weights]
    if [(each.shape, each.dtype) for each in called.inputs] != wanted:
        raise Damaged(f"the module inputs {wanted}"[:300], f"{called.inputs}"[:300])
    if len(called.outputs) != len(document.outputs):
        raise Damaged(f"{len(document.outputs)} results", str(len(called.outputs)))
    return called


def _sizes(document: _Document) -> dict[str, tuple[int, ...]]:
    """Return the sizes that were exported, for each axis that varies."""
    sizes: dict[str, set[int]] = {}
    for module in document.modules:
        for each, shape in zip(document.inputs, module.shapes, strict=True):
            for axis, size in zip(each.shape, shape, strict=True):
                if isinstance(axis, str):
                    sizes.setdefault(axis, set()).add(size)
    return {axis: tuple(sorted(found)) for axis, found in sorted(sizes.items())}


def _function(
    where: str,
    inputs: tuple[ModelInput, ...],
    outputs: list[str],
    modules: Mapping[_Shapes, tuple[Called, list[str]]],
) -> Callable[..., Any]:
    def function(weights: Mapping[str, Any], *arrays: Any) -> dict[str, Any]:
        shapes = tuple(tuple(each.shape) for each in arrays)
        if shapes not in modules:
            raise _not_exported(where, inputs, shapes, modules)
        called, taken = modules[shapes]
        bound = [weights[name] for name in (*taken, *called.lifted)]
        results = jax.tree.leaves(called.exported.call(*arrays, *bound))
        return dict(zip(outputs, results, strict=True))

    return function


def _not_exported(
    where: str,
    inputs: tuple[ModelInput, ...],
    shapes: tuple[Any, ...],
    modules: Mapping[_Shapes, object],
) -> AotcError:
    def told(of: tuple[Any, ...]) -> str:
        pairs = zip(inputs, of, strict=True)
        return " ".join(f"{each.name}[{','.join(map(str, shape))}]" for each, shape in pairs)

    expected = "; ".join(told(each) for each in sorted(modules)[:8])
    hint = "import it with one `--profile` for each profile of the manifest"
    return refusal("AOTC-E846", where, told(shapes), expected=expected, hint=hint)
