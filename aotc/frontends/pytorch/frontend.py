"""`.pt2` files: the entry point of `aotc.frontends` for PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.errors import finding, raise_if, refusal
from aotc.frontends.archive import Archive, Damaged, damaged, in_one_folder, read_archive
from aotc.frontends.protocol import Array, Model, ModelFile, ModelInput
from aotc.frontends.pytorch import check
from aotc.frontends.pytorch.dtypes import SCALAR_TYPES
from aotc.frontends.pytorch.interpret import Function, function_of
from aotc.frontends.pytorch.plan import Plan, plan, refs, used
from aotc.frontends.pytorch.results import Structure, read_structure
from aotc.frontends.pytorch.schema import (
    MAJOR,
    InputSpec,
    OutputSpec,
    Program,
    Range,
    TensorMeta,
    Versions,
    decode,
)
from aotc.frontends.pytorch.symbols import evaluate, symbol_of
from aotc.frontends.pytorch.weights import Stored, payloads, read_tensors
from aotc_runtime.errors import Finding

EMBEDDED_BYTES_MAX = 32
"""Constants of the model up to this size become part of the program, as those of JAX do."""

INT32 = np.iinfo(np.int32)
NARROW = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): None,
    np.dtype(np.complex128): None,
}
"""What jax computes with instead of a 64-bit type while these are off; nothing for floats, whose
precision would be lost."""

OFF = "64-bit types are off"
X64 = "set enable_x64 in the manifest, or export the model with 32 bits"


@dataclass(frozen=True, slots=True)
class Bound:
    """What the graph's inputs are. Each is one of: a weight by its name, a constant, the number of
    an input of the model, nothing.
    """

    name: str
    weight: str | None = None
    constant: Array | None = None
    number: int | None = None


class PyTorch:
    """Archives that `torch.export.save` of torch 2.9 or newer writes."""

    suffixes = (".pt2",)

    def read(self, file: ModelFile) -> Model:
        """See `aotc.frontends.protocol.Frontend`. Nothing is unpickled: a graph and raw bytes."""
        try:
            archive = in_one_folder(read_archive(file.data))
            model, program = _program(archive, file)
            return _model(file, archive, model, program)
        except Damaged as error:
            raise damaged(file.text, error) from error


def _program(archive: Archive, file: ModelFile) -> tuple[str, Program]:
    if bytes(archive.read("archive_format")) != b"pt2":
        raise Damaged("a .pt2 archive", "another kind of archive")
    names = sorted(
        name.removeprefix("models/").removesuffix(".json")
        for name in archive.members
        if name.startswith("models/") and name.endswith(".json")
    )
    if not names:
        raise Damaged("a program that torch.export.save wrote", "an archive without one")
    wanted = file.signature if file.signature is not None else names[0]
    if wanted not in names or (file.signature is None and len(names) > 1):
        listed = ", ".join(names)[:300]
        found = "no signature" if file.signature is None else file.signature
        raise refusal("AOTC-E845", file.text, found, expected=f"one of {listed}")
    what = f"models/{wanted}.json"
    data = archive.read(what)
    version = decode(data, Versions, what)
    if version.schema_version.major != MAJOR:
        raise Damaged(
            f"schema {MAJOR}, which torch 2.9 and newer write",
            f"schema {version.schema_version.major}, of torch {version.torch_version!a}"[:200],
        )
    return wanted, decode(data, Program, what)


def _model(file: ModelFile, archive: Archive, model: str, program: Program) -> Model:
    signature = program.graph_module.signature
    made = plan(program.graph_module.graph)
    if len(signature.input_specs) != len(made.inputs):
        raise Damaged(f"{len(signature.input_specs)} inputs of the graph", str(len(made.inputs)))
    outside = {name: text for name, text in map(_described, signature.input_specs) if name}
    found = [
        *_changed(signature.output_specs, file.text),
        *check.findings(made, outside, file.text, file.enable_x64),
    ]
    structure, results = _results(program, made)
    bound, weights, narrowed, more = _bound(file, archive, model, program, made)
    inputs = list(_inputs(signature.input_specs, made, file, more))
    raise_if([*found, *more])
    return Model(
        function=_function(file.text, made, outside, bound, inputs, structure, results),
        inputs=tuple(given for given, _ in inputs),
        weights=weights,
        ranges=_ranges(inputs, program.range_constraints),
        producer={
            "framework": "PyTorch",
            "torch": program.torch_version[:100],
            "schema": f"{program.schema_version.major}.{program.schema_version.minor}",
        },
        narrowed=tuple(
            sorted([*narrowed, *(each.name for each, _ in inputs if _narrows(each.dtype, file))])
        ),
    )


def _described(spec: InputSpec) -> tuple[str, str]:
    """An input of the graph, and what it is, for messages."""
    for kind, name in (
        ("parameter", "parameter_name"),
        ("buffer", "buffer_name"),
        ("tensor_constant", "tensor_constant_name"),
    ):
        value = getattr(spec, kind)
        if hasattr(value, "arg"):
            return value.arg.name, f"the {kind.replace('_', ' ')} {getattr(value, name)!a}"[:200]
    if hasattr(spec.user_input, "arg"):
        _, value = spec.user_input.arg.only()
        name = getattr(value, "name", "")
        return name, f"the input {name!a}"[:200]
    return "", ""


def _changed(specs: tuple[OutputSpec, ...], where: str) -> Iterator[Finding]:
    """States that a decomposed program returns beside its results."""
    for spec in specs:
        for kind, name in (
            ("buffer_mutation", "buffer_name"),
            ("parameter_mutation", "parameter_name"),
            ("user_input_mutation", "user_input_name"),
        ):
            value = getattr(spec, kind)
            if hasattr(value, name):
                kind = kind.removesuffix("_mutation").replace("_", " ")
                yield finding(
                    "AOTC-E844",
                    where,
                    f"the {kind} {getattr(value, name)!a} is changed"[:300],
                    hint="call model.eval(), or return the new value as a result and pass it to "
                    "the next call",
                )


def _results(program: Program, made: Plan) -> tuple[Structure, list[int]]:
    """The structure of the results, and which of the graph's outputs they are."""
    specs = program.graph_module.signature.output_specs
    if len(specs) != len(made.outputs):
        raise Damaged(f"{len(specs)} results of the graph", str(len(made.outputs)))
    results = [i for i, spec in enumerate(specs) if hasattr(spec.user_output, "arg")]
    calls = program.graph_module.module_call_graph
    if not calls or calls[0].fqn or calls[0].signature is None:
        raise Damaged("the call of the model itself", "none")
    named = program.graph_module.treespec_namedtuple_fields
    return read_structure(calls[0].signature.out_spec, len(results), named), results


def _bound(
    file: ModelFile, archive: Archive, model: str, program: Program, made: Plan
) -> tuple[list[Bound], dict[str, Array], list[str], list[Finding]]:
    """What each input of the graph is; weights; names of the narrowed ones; what is refused."""
    needed = set(refs(made.outputs)).union(*map(used, made.steps))
    specs = program.graph_module.signature.input_specs
    stored = [(name, *_stored(spec)) for spec in specs for name, _ in [_described(spec)]]
    wanted = [key for name, key, _ in stored if key is not None and name in needed]
    tensors = read_tensors(archive, payloads(archive, model), wanted)
    bound: list[Bound] = []
    weights: dict[str, Array] = {}
    narrowed: list[str] = []
    found: list[Finding] = []
    names: dict[tuple[Any, ...], str] = {}
    number = 0
    for spec, (name, key, constant) in zip(specs, stored, strict=True):
        if key is None:
            takes = hasattr(spec.user_input, "arg") and bool(name)
            bound.append(Bound(name, number=number if takes else None))
            number += takes
            continue
        if name not in needed:
            bound.append(Bound(name))
            continue
        if not key.isprintable() or not key:
            raise Damaged("printable names of weights", repr(key)[:200])
        _check_meta(key, tensors[key], made.tensors.get(name))
        if constant and tensors[key].array.nbytes <= EMBEDDED_BYTES_MAX:
            bound.append(Bound(name, constant=_narrow(key, tensors[key].array, file, found)))
            continue
        first = names.setdefault(tensors[key].alike, key)
        bound.append(Bound(name, weight=first))
        if first == key:
            weights[key] = _narrow(key, tensors[key].array, file, found)
            narrowed += [key] if _narrows(tensors[key].array.dtype, file) else []
    return bound, weights, narrowed, found


def _check_meta(key: str, stored: Stored, meta: TensorMeta | None) -> None:
    """A weight is what the graph says of it."""
    if meta is None:
        return
    sizes = tuple(size.as_int for size in meta.sizes)
    if sizes != stored.array.shape or SCALAR_TYPES.get(meta.dtype) != stored.array.dtype:
        raise Damaged(
            f"{key!a} as the graph has it, {sizes}"[:300],
            f"{stored.array.dtype} {stored.array.shape}"[:300],
        )


def _stored(spec: InputSpec) -> tuple[str | None, bool]:
    """The name of a tensor of the archive, and whether it is a constant of the program."""
    if hasattr(spec.parameter, "parameter_name"):
        return spec.parameter.parameter_name, False
    if hasattr(spec.buffer, "buffer_name"):
        return spec.buffer.buffer_name, False
    if hasattr(spec.tensor_constant, "tensor_constant_name"):
        return spec.tensor_constant.tensor_constant_name, True
    return None, False


def _narrows(dtype: np.dtype[Any], file: ModelFile) -> bool:
    return not file.enable_x64 and dtype in NARROW


def _narrow(name: str, array: Array, file: ModelFile, found: list[Finding]) -> Array:
    """With 32 bits where 64-bit types are off, if the values fit."""
    if not _narrows(array.dtype, file):
        return array
    to = NARROW[array.dtype]
    if to is None or (
        array.size and (array.max() > np.iinfo(to).max or array.min() < np.iinfo(to).min)
    ):
        found.append(
            finding(
                "AOTC-E844",
                file.text,
                f"{name!a} is {array.dtype}{'' if to is None else f', with values beyond {to}'}, "
                f"and {OFF}",
                hint=X64,
            )
        )
        return array
    return array.astype(to)


def _inputs(
    specs: tuple[InputSpec, ...], made: Plan, file: ModelFile, found: list[Finding]
) -> Iterator[tuple[ModelInput, TensorMeta]]:
    for spec in specs:
        if hasattr(spec.custom_obj, "keys") or hasattr(spec.token, "keys"):
            found.append(
                finding(
                    "AOTC-E844",
                    file.text,
                    "an input that is neither tensor nor number",
                    hint="export a model that takes tensors alone",
                )
            )
        if not hasattr(spec.user_input, "arg"):
            continue
        kind, value = spec.user_input.arg.only()
        if kind != "tensor":
            if kind in ("sym_int", "sym_float", "sym_bool"):
                found.append(
                    finding(
                        "AOTC-E844",
                        file.text,
                        "an input that is a number and varies",
                        hint="pass it as a tensor, or export with a fixed number",
                    )
                )
            continue
        meta = made.tensors.get(value.name)
        if meta is None or meta.dtype not in SCALAR_TYPES or len(meta.sizes) > 64:
            raise Damaged(f"sizes and a known dtype of {value.name!a}"[:200], "others")
        dtype = SCALAR_TYPES[meta.dtype]
        if _narrows(dtype, file) and NARROW[dtype] is None:
            found.append(
                finding(
                    "AOTC-E844",
                    file.text,
                    f"the input {value.name!a} is {dtype}, and {OFF}",
                    hint=X64,
                )
            )
        shape = tuple(
            size.as_int if isinstance(size.as_int, int) else symbol_of(size) for size in meta.sizes
        )
        yield ModelInput(value.name, dtype, shape), meta


def _ranges(
    inputs: list[tuple[ModelInput, TensorMeta]], ranges: Mapping[str, Range]
) -> dict[str, tuple[int | None, int | None]]:
    symbols = sorted({name for given, _ in inputs for name in given.shape if isinstance(name, str)})
    made: dict[str, tuple[int | None, int | None]] = {}
    for name in symbols:
        if name in ranges:
            made[name] = (ranges[name].min_val, ranges[name].max_val)
        else:
            made[name] = (None, None)
    return made


def _function(
    where: str,
    made: Plan,
    outside: Mapping[str, str],
    bound: list[Bound],
    inputs: list[tuple[ModelInput, TensorMeta]],
    structure: Structure,
    results: list[int],
) -> Callable[..., Any]:
    run: Function = function_of(made, where, outside)

    def function(weights: Mapping[str, Any], *given: Any) -> Any:
        _check_sizes(where, inputs, given)
        values = [
            weights[each.weight]
            if each.weight is not None
            else each.constant
            if each.constant is not None
            else given[each.number]
            if each.number is not None
            else None
            for each in bound
        ]
        outputs = run(*values)
        return structure.build(iter([outputs[i] for i in results]))

    return function


def _check_sizes(
    where: str, inputs: list[tuple[ModelInput, TensorMeta]], given: tuple[Any, ...]
) -> None:
    """Sizes are those of the file; those with the same symbol are the same."""
    if len(given) != len(inputs):
        raise refusal("AOTC-E846", where, f"{len(given)} inputs", expected=f"{len(inputs)} inputs")
    symbols: dict[str, Any] = {}
    for (spec, meta), value in zip(inputs, given, strict=True):
        if len(value.shape) != len(meta.sizes):
            _other_sizes(where, spec, value)
        for size, found in zip(meta.sizes, value.shape, strict=True):
            name = symbol_of(size)
            if name is not None:
                symbols.setdefault(name, found)
    for (spec, meta), value in zip(inputs, given, strict=True):
        for size, found in zip(meta.sizes, value.shape, strict=True):
            wanted = evaluate(size, symbols)
            if wanted is not None and wanted != found:
                _other_sizes(where, spec, value)


def _other_sizes(where: str, spec: ModelInput, value: Any) -> None:
    raise refusal(
        "AOTC-E846",
        where,
        f"{spec.name} {list(value.shape)}",
        expected=f"{spec.name} {list(spec.shape)}",
    )
