"""Reads `.onnx` files: bytes, message, graphs, then a function; reading computes nothing."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import IR_VERSION, ModelProto, defs

from aotc.base.errors import raise_if, refusal, shorten
from aotc.capture.model_files.frontend_protocol import Array, Model, ModelFile, ModelInput
from aotc.capture.model_files.source_lines import own_line
from aotc.frontends.integer_bounds import exceeding
from aotc.frontends.onnx import onnx_wire, operators
from aotc.frontends.onnx.onnx_evaluation import Call, Evaluation
from aotc.frontends.onnx.onnx_graph_reader import (
    ML,
    ONNX,
    OPSETS,
    Function,
    Graph,
    Key,
    Node,
    Reader,
    every_node,
    key_of,
    require_expandable,
    subgraphs,
)
from aotc.frontends.onnx.onnx_operator_table import OPERATORS
from aotc.frontends.onnx.onnx_refusals import UNREAD, bad_model, lacking, lacks, quote
from aotc.frontends.onnx.onnx_tensors import dtype_of
from aotc.frontends.onnx.onnx_values import fits
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.protobuf_wire import WireError

for _module in pkgutil.iter_modules(operators.__path__):
    importlib.import_module(f"{operators.__name__}.{_module.name}")

CONSTANT_INTS = 64
"""The most elements of an integer initializer that stays a constant; larger ones are weights."""

RANDOM = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    }
)
MICROSOFT = "com.microsoft"
"""The domain of the operators that onnxruntime has beside ONNX's."""

DEPENDING = frozenset({"NonMaxSuppression"})
"""Operators whose results have a size that depends on values, whatever their inputs."""

TRACE = "pkg.torch.onnx.stack_trace"

IDENTITY = 13
"""The version of Identity that stands for operators without a computation."""

_VARIES = -1
"""A size that varies in files of PaddlePaddle, which names others `?`."""

_SHAPES_ONLY = frozenset({"Shape", "Size"})
"""Operators whose results do not depend on the values of their inputs."""


@dataclass(frozen=True, slots=True)
class _Parsed:
    reader: Reader
    graph: Graph
    functions: Mapping[Key, Function]
    producer: Mapping[str, str]


class OnnxFrontend:
    """The frontend for ONNX."""

    def read(self, file: ModelFile) -> Model:
        """Return a model as a function that is evaluated while jax traces; see `Frontend.read`."""
        if file.signature is not None:
            cause = "signature-is-not-supported"
            raise refusal("AOTC-E845", file.text, quote(file.signature), cause=cause)
        parsed, cut = _without_maps(_parse(file))
        raise_if(_unsupported_operators(file.text, parsed))
        graph, weights = _split(parsed)
        inputs = tuple(_input(message, file.text) for message in graph.messages)
        narrowed: list[str] = []
        if not file.enable_x64:
            raise_if(_wide(inputs, weights, file.text))
            long = {name: value for name, value in weights.items() if value.dtype == np.int64}
            narrowed = [*(entry.name for entry in inputs if entry.dtype == np.int64), *long]
            weights |= {name: value.astype(np.int32) for name, value in long.items()}

        def function(weights: Mapping[str, Any], *arrays: Any) -> dict[str, Any]:
            evaluation = Evaluation(file.text, parsed.reader, parsed.functions)
            return _call_model(evaluation, graph, weights, arrays)

        names = {size for entry in inputs for size in entry.shape if isinstance(size, str)}
        return Model(
            function=function,
            inputs=inputs,
            weights=weights,
            ranges=dict.fromkeys(sorted(names), (None, None)),
            producer={**parsed.producer, **cut},
            narrowed=tuple(narrowed),
            layers=_layers(_reached_nodes(parsed)),
            exceeding=exceeding,
        )


def _layers(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """Return each node's source line by its name, from PyTorch's exporter."""
    lines: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        told = getattr(node.message, "metadata_props", ())
        traces = (own_line(entry.value) for entry in told if entry.key == TRACE)
        lines[node.name] = tuple(filter(None, traces))
    return lines


def _parse(file: ModelFile) -> _Parsed:
    where = file.text
    try:
        onnx_wire.walk(file.data, ModelProto.DESCRIPTOR)
        model = ModelProto.FromString(file.data)
    except (WireError, DecodeError) as error:
        raise bad_model(where, str(error)) from error
    try:
        return _check_model(model, file)
    except RecursionError as error:
        raise bad_model(where, "graphs and functions nested too deeply") from error


def _check_model(model: Any, file: ModelFile) -> _Parsed:
    where = file.text
    if not model.HasField("graph") or not model.ir_version:
        raise bad_model(where, "no graph, or no version")
    if model.ir_version > IR_VERSION:
        raise bad_model(
            where,
            f"IR version {model.ir_version}",
            expected=f"at most {IR_VERSION}, as in the installed onnx",
            hint="install a newer onnx, or export the model for an older one",
        )
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = ONNX if entry.domain == "ai.onnx" else entry.domain
        opsets[domain] = max(entry.version, opsets.get(domain, 0))
        oldest, newest = OPSETS.get(domain, (0, 1 << 63))
        if not oldest <= entry.version <= newest:
            raise bad_model(
                where,
                f"opset {entry.version} of {quote(entry.domain or 'ai.onnx')}",
                expected=f"{oldest} to {newest}",
                hint="export the model for one of these, or convert it: onnx.version_converter",
            )
    reader = Reader(where, opsets, cache(file.beside))  # a file holds many tensors
    messages: dict[Key, Any] = {}
    for function in model.functions:
        key = function.domain, function.name, getattr(function, "overload", "")
        if key in messages:
            raise bad_model(where, f"the function {quote(function.name)} twice")
        messages[key] = function
    reader.functions = messages
    functions = {key: reader.function(message) for key, message in messages.items()}
    graph = reader.graph(model.graph)
    require_expandable(graph.nodes, functions, where)
    stated = ", ".join(f"{domain or 'ai.onnx'} {opsets[domain]}" for domain in sorted(opsets))
    texts = (model.producer_name, model.producer_version)
    producer = {
        "framework": "ONNX",
        "producer": " ".join(text for text in texts if text and text.isprintable()) or "unknown",
        "ir_version": str(model.ir_version),
        "opset": stated,
    }
    return _Parsed(reader, graph, functions, producer)


def _without_maps(parsed: _Parsed) -> tuple[_Parsed, dict[str, str]]:
    """Return the model without ZipMap at its outputs, which only names columns."""
    graph = parsed.graph
    maps = [
        node
        for node in graph.nodes
        if (node.domain, node.op) == (ML, "ZipMap") and {*node.outputs} & {*graph.outputs}
    ]
    if not maps:
        return parsed, {}
    same = defs.get_schema("Identity", IDENTITY)
    nodes = tuple(
        replace(node, op="Identity", domain=ONNX, version=IDENTITY, attributes={}, schema=same)
        if node in maps
        else node
        for node in graph.nodes
    )
    named = ", ".join(sorted(name for node in maps for name in node.outputs))
    said = {"cut": f"ZipMap of {named}: an array, a column for each class label"}
    return replace(parsed, graph=replace(graph, nodes=nodes)), said


def _reached_nodes(parsed: _Parsed) -> list[Node]:
    """Return the nodes of the model, and of those functions of it that they call."""
    nodes = list(every_node(parsed.graph.nodes))
    seen: set[Key] = set()
    for node in nodes:
        key = key_of(node)
        if key in parsed.functions and key not in seen:
            seen.add(key)
            nodes.extend(every_node(parsed.functions[key].nodes))
    return nodes


def _unsupported_operators(where: str, parsed: _Parsed) -> list[Finding]:
    """Return everything that the table lacks, an operator at a time with the nodes that call it."""
    inputs = frozenset(parsed.graph.inputs)
    missing: dict[tuple[str, str], list[str]] = {}
    for node in _reached_nodes(parsed):
        if key_of(node) in parsed.functions:
            continue
        reason = _lack(node, inputs)
        if reason:
            missing.setdefault((reason, _hint(node)), []).append(node.label)
    findings = []
    for (reason, hint), labels in sorted(missing.items()):
        count = f" ({len(labels)} in all)" if len(labels) > 1 else ""
        found = f"{reason}: {shorten(sorted({*labels}), 5)}{count}"
        findings.append(lacks(where, found, hint=hint))
    return findings


def _hint(node: Node) -> str:
    """Return a hint for a node that cannot be computed."""
    if node.domain != MICROSOFT:
        return UNREAD
    if node.op in ("QuantizeLinear", "DequantizeLinear"):
        return "export for opset 21 or newer, whose own QuantizeLinear has 16 and 4 bits"
    if node.op.startswith("Q") or "Integer" in node.op or "Quantize" in node.op:
        return (
            "quantize the model in the QDQ format: "
            "onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)"
        )
    return "use the model as it was before onnxruntime optimized it, which joins operators"


def _lack(node: Node, inputs: frozenset[str]) -> str | None:
    """Return why a node cannot be computed, as far as it is known before tracing."""
    name = f"{node.domain}::{node.op}" if node.domain else node.op
    if node.domain not in OPSETS:
        return f"operator {quote(name)} of an unknown domain"
    if node.schema is None:
        return f"operator {quote(name)}, unknown in its opset"
    if node.op in RANDOM and node.domain == ONNX:
        return f"operator {name} with random results"
    if node.op in DEPENDING and node.domain == ONNX:
        return f"operator {name} with value-dependent result sizes"
    entry = OPERATORS.get((node.domain, node.op))
    if entry is None:
        return f"operator {name}, not implemented"
    body = node.schema.has_function or node.schema.has_context_dependent_function
    if entry.function is None and not body:
        return f"operator {name} in version {node.version}, not implemented"
    for index in sorted(entry.deciding):
        if index < len(node.inputs) and node.inputs[index] in inputs:
            decides = f"whose shapes or algorithm depend on the input {quote(node.inputs[index])}"
            return f"operator {name}, {decides}"
    return None


def _deciding(nodes: Sequence[Node]) -> set[str]:
    """Return names of values that decide shapes, and of all that these are computed from."""
    deciding: set[str] = set()
    for node in every_node(nodes):
        entry = OPERATORS.get((node.domain, node.op))
        if entry is not None:
            deciding.update(node.inputs[i] for i in entry.deciding if i < len(node.inputs))
    for node in reversed(list(every_node(nodes))):
        if node.op in _SHAPES_ONLY or not deciding.intersection(node.outputs):
            continue
        deciding.update(node.inputs)
        for graph in subgraphs(node):
            deciding.update(graph.outputs)
    return deciding - {""}


def _is_weight(name: str, value: Array, deciding: set[str]) -> bool:
    if name in deciding:
        return False
    is_small = value.dtype in (np.int8, np.uint8) or value.dtype.kind not in "iub"
    return bool(value.size > (1 if is_small else CONSTANT_INTS))


def _split(parsed: _Parsed) -> tuple[Graph, dict[str, Array]]:
    """Return the graph with its constants, and weights: large initializers and Constants."""
    graph = parsed.graph
    deciding = _deciding(graph.nodes)
    constants = dict(graph.initializers)
    nodes = []
    for node in graph.nodes:
        value = node.attributes.get("value") if node.op == "Constant" and not node.domain else None
        if isinstance(value, np.ndarray) and key_of(node) not in parsed.functions:
            constants[node.outputs[0]] = value
        else:
            nodes.append(node)
    used = {name for node in every_node(nodes) for name in node.inputs} | set(graph.outputs)
    used.update(name for node in every_node(nodes) for g in subgraphs(node) for name in g.outputs)
    weights = {
        name: value
        for name, value in constants.items()
        if name in used and _is_weight(name, value, deciding)
    }
    kept = {name: value for name, value in constants.items() if name not in weights}
    return replace(graph, initializers=kept, nodes=tuple(nodes)), weights


def _input(message: Any, where: str) -> ModelInput:
    name = message.name
    place = f"{where}: input {quote(name)}"
    kind = message.type.WhichOneof("value")
    if kind != "tensor_type":
        found = (kind or "unknown_type").removesuffix("_type").replace("_", " ")
        raise lacking(place, f"an input of type {found}", expected="an array")
    tensor = message.type.tensor_type
    dtype = dtype_of(tensor.elem_type, place)
    if not tensor.HasField("shape"):
        raise lacking(
            place, "an input without a shape", hint="export the model with a shape for each input"
        )
    shape: list[int | str | None] = []
    for size in tensor.shape.dim:
        which = size.WhichOneof("value")
        if which == "dim_value" and size.dim_value != _VARIES:
            if size.dim_value < 0:
                raise bad_model(place, f"the size {size.dim_value}")
            shape.append(size.dim_value)
        else:
            stated = re.sub(r"\W", "_", size.dim_param) if which else ""
            shape.append(stated if stated.isidentifier() and stated.strip("_") else None)
    return ModelInput(name, dtype, tuple(shape))


def _wide(
    inputs: Sequence[ModelInput], weights: Mapping[str, Array], where: str
) -> Iterator[Finding]:
    """Yield a finding for each array of a 64-bit type that may not be narrowed."""
    named = [(f"input {quote(entry.name)}", entry.dtype, np.zeros(0)) for entry in inputs]
    named += [(f"initializer {quote(name)}", v.dtype, v) for name, v in weights.items()]
    hint = "set `enable_x64 = true`, or export the model with 32-bit types"
    for what, dtype, value in named:
        if dtype.name in ("float64", "uint64", "complex128"):
            expected = "a type of at most 32 bits"
            yield lacks(f"{where}: {what}", f"{dtype}", expected=expected, hint=hint)
        elif dtype == np.int64 and not fits(value, np.dtype(np.int32)):
            yield lacks(f"{where}: {what}", "int64 values outside the range of int32", hint=hint)


def _call_model(
    evaluation: Evaluation, graph: Graph, weights: Mapping[str, Any], arrays: Sequence[Any]
) -> dict[str, Any]:
    """Return one call of the model: its outputs as arrays of jax."""
    whole = replace(graph, initializers={**graph.initializers, **weights})
    results: dict[str, Any] = {}
    values = evaluation.graph(whole, arrays, None)
    for name, value in zip(graph.outputs, values, strict=True):
        if value is None or isinstance(value, list):
            raise lacking(
                f"{evaluation.where}: output {quote(name)}",
                "a sequence or an optional",
                expected="an array",
            )
        place = Node(f"output {quote(name)}", "", "", 0, (), (), {}, None, None)
        results[name] = Call(evaluation, place, {}, None).to_jax(value)  # type: ignore[arg-type]
    return results
