"""Inputs of a graph: weights, constants, arguments of callers, states."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from msgspec import UNSET

from aotc.base.errors import finding
from aotc.capture.model_files.frontend_protocol import NARROWER, Array, ModelFile, ModelInput
from aotc.capture.model_files.model_archive import Archive, Damaged
from aotc.frontends.pytorch import torch_states
from aotc.frontends.pytorch.torch_dtypes import SCALAR_TYPES, canonical
from aotc.frontends.pytorch.torch_plan import Plan, Ref, refs, used_by
from aotc.frontends.pytorch.torch_schema import InputSpec, Signature, TensorMeta
from aotc.frontends.pytorch.torch_symbols import symbol_of
from aotc.frontends.pytorch.torch_weights import Stored, payloads, read_tensors
from aotc_runtime.base.errors import Finding

EMBEDDED_BYTES_MAX = 32
"""Constants of the model up to this size become part of the program, as those of JAX do."""

OFF = "64-bit types are off"
X64 = "set enable_x64 in the manifest, or export the model with 32 bits"


@dataclass(frozen=True, slots=True)
class Bound:
    """A graph's input: a weight by name, a constant, a numbered input of the model, or unused."""

    name: str
    weight: str | None = None
    constant: Array | None = None
    number: int | None = None

    def value(self, weights: Mapping[str, Any], given: Sequence[Any]) -> Any:
        """Return its value in a call with these weights and inputs."""
        if self.weight is not None:
            return weights[self.weight]
        if self.number is not None:
            return given[self.number]
        if self.constant is None:
            return None
        # Of one array, jax keeps the dtype that it had when 64-bit types were off.
        return jnp.asarray(self.constant.astype(canonical(self.constant.dtype)))


@dataclass(slots=True)
class Bindings:
    """The graph's inputs, bound to weights, constants and the model's inputs.

    `inputs` are those that callers pass, then states, with torch's metadata; `state` is the name of
    all states together. `narrowed` names weights and inputs that lost bits; `found` has errors.
    """

    bound: list[Bound] = field(default_factory=list)
    inputs: list[tuple[ModelInput, TensorMeta]] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    state: str = torch_states.STATE
    narrowed: list[str] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)

    def refuse(self, where: str, found: str, hint: str) -> None:
        """Add a finding (AOTC-E844)."""
        self.found.append(finding("AOTC-E844", where, found, hint=hint))


def bind(
    file: ModelFile,
    archive: Archive,
    model: str,
    signature: Signature,
    made: Plan,
    changes: torch_states.Changes,
) -> Bindings:
    """Bind the inputs of a graph. Raises Damaged."""
    into = Bindings()
    into.inputs += _inputs(signature, made, file, into, changes)
    numbers = {name: i for i, name in enumerate(each.name for each, _ in into.inputs)}
    while any(name == into.state for name in numbers):
        into.state += "_"
    needed = set(refs(made.outputs)).union(changes.outputs, *map(used_by, made.steps))
    names = [*map(_name, signature.input_specs, made.inputs)]
    owners = [torch_states.owner_of(spec) or ("", None) for spec in signature.input_specs]
    keys = [(key, kind == "constant") for kind, key in owners]
    wanted = {
        name: key
        for name, (key, _) in zip(names, keys, strict=True)
        if key is not None and name in needed
    }
    places = payloads(archive, model)
    into.found += torch_states.check_shared_memory(changes, wanted, places, file.text)
    tensors = read_tensors(archive, places, wanted.values())
    first: dict[tuple[Any, ...], str] = {}
    for name, (key, constant) in zip(names, keys, strict=True):
        if key is None or name not in needed:
            into.bound.append(Bound(name, number=numbers.get(name) if key is None else None))
            continue
        if not key.isprintable() or not key:
            raise Damaged("printable names of weights", repr(key)[:200])
        meta, stored = made.tensors.get(name), tensors[key]
        _check_meta(key, stored, meta)
        if name in changes.owned:
            into.bound.append(_state(name, key, stored, meta, file, into))
        elif constant and stored.array.nbytes <= EMBEDDED_BYTES_MAX:
            _narrow(key, stored.array, file, into)  # if it may not; jax does it
            into.bound.append(Bound(name, constant=stored.array))
        else:
            weight = first.setdefault(stored.alike, key)
            into.bound.append(Bound(name, weight=weight))
            if weight == key:
                into.weights[key] = _narrow(key, stored.array, file, into)
                into.narrowed += [key] if _narrows(stored.array.dtype, file) else []
    return into


def _name(spec: InputSpec, value: Any) -> str:
    """Return the name of a graph's input, "" for a number; Damaged if the signature has another."""
    name = value.name if isinstance(value, Ref) else ""
    for stored in (spec.parameter, spec.buffer, spec.tensor_constant):
        if stored is not UNSET:
            described = stored.arg.name
            break
    else:
        given = spec.user_input.arg.only()[1] if spec.user_input is not UNSET else None
        described = getattr(given, "name", name)
    if described != name:
        raise Damaged(f"the input {described!a} of the graph"[:200], f"{name!a}"[:200])
    return name


def _state(
    name: str, key: str, stored: Stored, meta: TensorMeta | None, file: ModelFile, into: Bindings
) -> Bound:
    """Return one more input of the model: its own state."""
    if meta is None:
        raise Damaged(f"sizes and a dtype of {name!a}"[:200], "none")
    if "/" in key or not key.isascii():
        into.refuse(
            file.text,
            f"{key!a} is changed, and would be an input of this name",
            "name buffers that change in letters of ASCII, without /",
        )
    path, array = f"{into.state}/{key}", _narrow(key, stored.array, file, into)
    into.narrowed += [path] if _narrows(stored.array.dtype, file) else []
    shape = stored.array.shape
    into.inputs.append((ModelInput(path, stored.array.dtype, shape, array, changes=True), meta))
    return Bound(name, number=len(into.inputs) - 1)


def _check_meta(key: str, stored: Stored, meta: TensorMeta | None) -> None:
    """Require that a weight has the graph's dtype and shape."""
    if meta is None:
        return
    sizes = tuple(size.as_int for size in meta.sizes)
    if sizes != stored.array.shape or SCALAR_TYPES.get(meta.dtype) != stored.array.dtype:
        raise Damaged(
            f"{key!a} as the graph has it, {sizes}"[:300],
            f"{stored.array.dtype} {stored.array.shape}"[:300],
        )


def _narrows(dtype: np.dtype[Any], file: ModelFile) -> bool:
    return not file.enable_x64 and dtype.name in ("int64", "uint64", "float64", "complex128")


def _narrow(name: str, array: Array, file: ModelFile, into: Bindings) -> Array:
    """Return the array in 32 bits where 64-bit types are off, if the values fit."""
    if not _narrows(array.dtype, file):
        return array
    to = NARROWER.get(array.dtype)  # none for floats, whose precision would be lost
    if to is None or (
        array.size and (array.max() > np.iinfo(to).max or array.min() < np.iinfo(to).min)
    ):
        beyond = "" if to is None else f", with values beyond {to}"
        into.refuse(file.text, f"{name!a} is {array.dtype}{beyond}, and {OFF}", X64)
        return array
    return array.astype(to)


def _inputs(
    signature: Signature, made: Plan, file: ModelFile, into: Bindings, changes: torch_states.Changes
) -> Iterator[tuple[ModelInput, TensorMeta]]:
    """Yield the inputs that callers pass."""
    outputs = zip(signature.output_specs, made.outputs, strict=False)
    results = [output for spec, output in outputs if spec.token is UNSET]
    computed = set(refs(tuple(results))).union(*map(used_by, made.steps))
    for spec, taken in zip(signature.input_specs, made.inputs, strict=True):
        # A token only orders assertions; what computes with it takes it for something else.
        is_used = spec.token is not UNSET and not computed.isdisjoint(refs(taken))
        if spec.custom_obj is not UNSET or is_used:
            into.refuse(
                file.text,
                "an input that is neither tensor nor number",
                "export a model that takes tensors alone",
            )
        if not hasattr(spec.user_input, "arg"):
            continue
        kind, value = spec.user_input.arg.only()
        if kind != "tensor":
            if kind in ("sym_int", "sym_float", "sym_bool"):
                into.refuse(
                    file.text,
                    "an input that is a number and varies",
                    "pass it as a tensor, or export with a fixed number",
                )
            continue
        meta = made.tensors.get(value.name)
        if meta is None or meta.dtype not in SCALAR_TYPES or len(meta.sizes) > 64:
            raise Damaged(f"sizes and a known dtype of {value.name!a}"[:200], "others")
        dtype = SCALAR_TYPES[meta.dtype]
        if _narrows(dtype, file):
            into.narrowed.append(value.name)
            if dtype not in NARROWER:
                into.refuse(file.text, f"the input {value.name!a} is {dtype}, and {OFF}", X64)
        shape = tuple(
            size.as_int if isinstance(size.as_int, int) else symbol_of(size) for size in meta.sizes
        )
        yield (ModelInput(value.name, dtype, shape, changes=value.name in changes.outputs), meta)
