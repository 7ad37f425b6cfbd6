"""Compile a graph for this processor.

OpenVINO runs a node whose inputs are all constants once, when it compiles, unless it folds it
before. The node that takes the result may then put its own result into the same memory, in every
call. Such parts are therefore computed here, and constants of the graph take their place.

Private names of openvino 2026.4.1: those of `openvino._pyopenvino`, as in `device`.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from aotc_runtime.engines import graph_names
from aotc_runtime.engines.openvino.openvino_names import DEVICE
from aotc_runtime.engines.openvino.openvino_reader import Graph

PROPERTIES = {
    # Without these, float32 becomes bfloat16 on processors that have it.
    "INFERENCE_PRECISION_HINT": "f32",
    "EXECUTION_MODE_HINT": "ACCURACY",
    "NUM_STREAMS": "1",
    # Threads of the process belong to its owner.
    "ENABLE_CPU_PINNING": "NO",
}

BODIES = {
    "If": ("get_then_body", "get_else_body"),
    "Loop": ("get_function",),
    "TensorIterator": ("get_function",),
}
"""The methods that return the graphs within an operator."""

_UNPACKED = ("Convert", "Multiply", "Reshape", "Squeeze", "Subtract", "Transpose", "Unsqueeze")
"""Operators between a weight of few bits and the product that unpacks it while it runs."""

_STORED = ("Const", "Reorder", "Transpose")
"""Kinds of a compiled graph's nodes whose results no call changes."""


_PRODUCTS = ("Convolution", "Deconvolution", "FullyConnected", "MatMul")
"""Kinds that take a constant row, reshaped, for each of their results."""


_DIVIDED = "nonconvertable_divide_0"
"""Makes OpenVINO divide by weights, where it would multiply by what it rounded of their inverses.
XLA does that for single numbers and for constants alone.
"""


class UnsafeError(Exception):
    """A compiled graph whose calls change what depends on constants alone."""


def last_line(error: Exception) -> str:
    """Return the last line of OpenVINO's message, without the lines that name its sources."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def read_model(library: Any, core: Any, graph: Graph, weights: Mapping[int, Any]) -> Any:
    """Return a graph's model with these weights as constants, in place.

    Args:
        library: `openvino._pyopenvino`.
        core: its Core.
        graph: the graph.
        weights: tensors by their place among the executable's arguments. The caller keeps their
            memory.
    """
    model = core.read_model(graph.xml, graph.constants)
    _divide_by_weights(model)
    for parameter in model.get_parameters():
        name = parameter.get_friendly_name()
        weight = weights.get(int(name[1:])) if name[:1] == graph_names.weight(0)[0] else None
        if weight is not None:
            constant = library.op.Constant(weight, shared_memory=True)
            parameter.output(0).replace(constant.output(0))
            model.remove_parameter(parameter)
    return model


def _divide_by_weights(model: Any) -> None:
    """Mark quotients of inputs by rows of weights.

    Others stay unmarked: a marked quotient of a constant by a sum of an axis is computed in the
    inverse order.
    """
    known: set[str] = set()
    for node in model.get_ordered_ops():
        names = [value.get_node().get_name() for value in node.input_values()]
        is_weight = node.get_friendly_name().startswith(graph_names.weight(0)[0])
        if node.get_type_name() == "Parameter" and not is_weight:
            continue
        places = [place for place, name in enumerate(names) if name not in known]
        if not places:
            known.add(node.get_name())
        elif node.get_type_name() == "Divide" and places == [0]:
            divisor = node.input_value(1)
            if divisor.get_node().get_type_name() != "Constant" and prod(divisor.get_shape()) > 1:
                node.get_rt_info()[_DIVIDED] = True


def compile_model(library: Any, core: Any, model: Any, threads: int) -> Any:
    """Return the compiled model, whose calls leave each other's constants alone.

    Raises UnsafeError, and what OpenVINO raises.
    """
    _compute_constants(library, core, model)
    compiled = core.compile_model(model, DEVICE, {**PROPERTIES, "INFERENCE_NUM_THREADS": threads})
    if unsafe := next(_overwritten(compiled.get_runtime_model()), None):
        raise UnsafeError(f"a graph whose calls write over {unsafe}, which is constant"[:200])
    return compiled


def _compute_constants(library: Any, core: Any, model: Any) -> None:
    """Replace each part of a model, and of its bodies, that depends on constants alone."""
    known: set[str] = set()
    computed: set[str] = set()
    taken: dict[tuple[str, int], Any] = {}
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_name()
        for body in BODIES.get(kind, ()):
            _compute_constants(library, core, getattr(node, body)())
        sources = [value.get_node().get_name() for value in node.input_values()]
        if kind == "Constant":
            known.add(name)
            continue
        if sources and kind != "Result" and known.issuperset(sources):
            known.add(name)
            # A computed number of 8 bits is a weight that a product unpacks, as one of the bundle.
            is_packed = kind == "Convert" and node.get_input_element_type(0) == library.Type.u8
            if kind not in _UNPACKED or not (is_packed or computed.isdisjoint(sources)):
                computed.add(name)
                continue
        for value, source in zip(node.input_values(), sources, strict=True):
            if source in computed:
                taken[source, value.get_index()] = value
    if not taken:
        return
    # Values hold nodes whose outputs `Model` asks for.
    outputs = [value.get_node().output(value.get_index()) for value in taken.values()]
    alone = library.Model(outputs, [], "constants")
    properties = {**PROPERTIES, "INFERENCE_NUM_THREADS": 1}
    request = core.compile_model(alone, DEVICE, properties).create_infer_request()
    request.infer({}, False, False)
    for place in range(len(outputs)):
        array = np.array(request.get_output_tensor(place).data)
        tensor = library.Tensor(array, shared_memory=False)
        outputs[place].replace(library.op.Constant(tensor, shared_memory=False).output(0))


def _overwritten(model: Any) -> Iterator[str]:
    """Yield names of compiled nodes that depend on constants alone and may be overwritten.

    A node that uses one has a result of its shape. Bodies of loops and branches are not visible.
    """
    fixed: set[str] = set()
    unsafe: dict[str, str] = {}
    for node in model.get_ordered_ops():
        name = node.get_name()
        kind = node.get_rt_info()["layerType"].astype(str)
        sources = [value.get_node() for value in node.input_values()]
        names = [source.get_name() for source in sources]
        if kind == "Const" or (names and fixed.issuperset(names)):
            fixed.add(name)
            if kind not in _STORED:
                unsafe[name] = kind
            continue
        for value, source in zip(node.input_values(), names, strict=True):
            is_bias = kind in _PRODUCTS and unsafe.get(source) == "Reshape"
            if source in unsafe and not is_bias and _has_shape(node, value.get_shape()):
                yield str(value.get_node().get_friendly_name())


def _has_shape(node: Any, shape: Any) -> bool:
    return any(tuple(output.get_shape()) == tuple(shape) for output in node.outputs())
