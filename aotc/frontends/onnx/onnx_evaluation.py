"""Evaluates graphs while jax traces: what is known stays numpy, the rest becomes jax's operations.

Shape arithmetic (Shape, Gather, Concat, Reshape …) is done here and leaves nothing in the program,
with sizes that are symbolic too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Never

import jax
import jax.numpy as jnp
import numpy as np
from onnx import FunctionProto, TypeProto

from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx import onnx_values
from aotc.frontends.onnx.onnx_graph_reader import (
    DEPTH,
    NODES,
    Function,
    Graph,
    Key,
    Node,
    Reader,
    Reference,
    key_of,
)
from aotc.frontends.onnx.onnx_operator_table import OPERATORS, Value
from aotc.frontends.onnx.onnx_refusals import bad_model, lacking
from aotc.frontends.onnx.onnx_tensors import DTYPES, dtype_of

_NARROW: dict[np.dtype[Any], np.dtype[Any]] = {np.dtype(np.int64): np.dtype(np.int32)}
_WIDE = {np.dtype(kind) for kind in (np.uint64, np.float64, np.complex128)}
_KINDS: dict[np.dtype[Any], int] = {dtype: kind for kind, dtype in DTYPES.items()}
_WRONG = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)


@dataclass(slots=True)
class Scope:
    """Values by name. attributes: those of the function that is evaluated."""

    values: dict[str, Value]
    outer: Scope | None
    attributes: Mapping[str, Any]

    def __getitem__(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)


@dataclass(slots=True)
class Evaluation:
    """One evaluation of a model.

    `where` is the file; `reader` makes functions of operators' bodies; `left` counts the nodes that
    may still be evaluated; `depth` is that of nested functions.
    """

    where: str
    reader: Reader
    functions: Mapping[Key, Function]
    left: int = NODES
    depth: int = 0
    bodies: dict[Any, Function] = field(default_factory=dict)

    def graph(self, graph: Graph, inputs: Sequence[Value], outer: Scope | None) -> list[Value]:
        """Return the outputs of a graph. Raises CaptureError."""
        values: dict[str, Value] = dict(graph.initializers)
        values.update(zip(graph.inputs, inputs, strict=True))
        scope = Scope(values, outer, outer.attributes if outer else {})
        self.nodes(graph.nodes, scope)
        return [scope[name] for name in graph.outputs]

    def nodes(self, nodes: Sequence[Node], scope: Scope) -> None:
        """Evaluate nodes into a scope."""
        for node in nodes:
            self.left -= 1
            if self.left < 0:
                raise bad_model(self.where, f"more than {NODES:,} nodes to evaluate in one call")
            inputs = [scope[name] if name else None for name in node.inputs]
            while inputs and inputs[-1] is None and not node.inputs[len(inputs) - 1]:
                inputs.pop()
            with jax.named_scope(node.name):
                outputs = self._outputs(node, inputs, scope)
            if len(outputs) < len(node.outputs) and any(node.outputs[len(outputs) :]):
                raise bad_model(f"{self.where}: {node.label}", f"{len(node.outputs)} outputs")
            for name, value in zip(node.outputs, outputs, strict=False):
                if name:
                    scope.values[name] = self._check_value(value, node)

    def function(
        self, function: Function, inputs: Sequence[Value], attributes: Mapping[str, Any]
    ) -> list[Value]:
        """Return the outputs of a function of the model, or of an operator's body."""
        if self.depth >= DEPTH:
            raise bad_model(self.where, f"functions nested more than {DEPTH} deep")
        given = [*inputs, *[None] * (len(function.inputs) - len(inputs))]
        stated = {**function.defaults, **attributes}
        scope = Scope(dict(zip(function.inputs, given, strict=True)), None, stated)
        self.depth += 1
        self.nodes(function.nodes, scope)
        self.depth -= 1
        return [scope.values.get(name) for name in function.outputs]

    def _outputs(self, node: Node, inputs: list[Value], scope: Scope) -> Sequence[Value]:
        attributes = {
            name: scope.attributes.get(value.name) if isinstance(value, Reference) else value
            for name, value in node.attributes.items()
        }
        attributes = {name: value for name, value in attributes.items() if value is not None}
        local = self.functions.get(key_of(node))
        if local is not None:
            if len(inputs) > len(local.inputs):
                raise bad_model(f"{self.where}: {node.label}", f"{len(inputs)} inputs")
            return self.function(local, inputs, attributes)
        call = Call(self, node, attributes, scope)
        call.require_types(inputs)
        entry = OPERATORS[node.domain, node.op]
        if entry.function is None:
            return self.function(self._body(node, inputs, attributes), inputs, attributes)
        try:
            found = self._compute(entry.function, call, inputs)
        except jax.errors.InconclusiveDimensionOperation:
            raise
        except _WRONG as error:
            if any(onnx_values.has_symbols(value) for value in inputs):
                raise
            raise bad_model(
                f"{self.where}: {node.label}",
                f"inputs {', '.join(map(onnx_values.type_text, inputs))}: {error}",
                expected=f"valid inputs of {node.op}",
                hint="state sizes of the inputs that the model accepts, or export it again",
            ) from error
        return found if isinstance(found, tuple) else (found,)

    def _compute(self, function: Any, call: Call, inputs: list[Value]) -> Any:
        """Symbolic sizes are computed with as what they are, or else as numbers of the program."""
        if not any(map(onnx_values.is_symbolic, inputs)):
            with np.errstate(all="ignore"):
                return function(call, *inputs)
        try:
            return function(call, *inputs)
        except (TypeError, jax.errors.InconclusiveDimensionOperation):
            deciding = OPERATORS[call.node.domain, call.node.op].deciding
            return function(
                call,
                *(
                    call.to_jax(value)
                    if onnx_values.is_symbolic(value) and index not in deciding
                    else value
                    for index, value in enumerate(inputs)
                ),
            )

    def _check_value(self, value: Value, node: Node) -> Value:
        if isinstance(value, list) or value is None:
            return value
        if not isinstance(value, np.ndarray | jax.Array):
            value = np.asarray(value)
        if onnx_values.elements(value.shape) > onnx_values.LARGEST:
            raise bad_model(f"{self.where}: {node.label}", f"an array of {list(value.shape)}")
        return onnx_values.settle(value) if onnx_values.is_known(value) else value

    def _body(self, node: Node, inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Function:
        """Return onnx's definition of an operator by others."""
        schema = node.schema
        opset = self.reader.opsets.get(node.domain, node.version)
        if schema.has_function:
            key: Any = node.domain, node.op, node.version
            if key not in self.bodies:
                versions = [v for v in schema.function_opset_versions if v <= opset]
                chosen = schema.get_function_with_opset_version(
                    max(versions, default=min(schema.function_opset_versions))
                )
                if isinstance(chosen, bytes):
                    chosen = FunctionProto.FromString(chosen)
                self.bodies[key] = self.reader.function(chosen, partial=True)
            return self.bodies[key]
        message = type(node.message)()
        message.CopyFrom(node.message)
        for attribute in list(message.attribute):
            if attribute.ref_attr_name:
                message.attribute.remove(attribute)
                value = attributes.get(attribute.name)
                if value is not None:
                    from onnx import helper

                    message.attribute.append(helper.make_attribute(attribute.name, value))
        types = [_type_of(value).SerializeToString() for value in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        chosen = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=min(schema.context_dependent_function_opset_versions)),
            message.SerializeToString(),
            types,
        )
        if not chosen:
            raise lacking(f"{self.where}: {node.label}", "types without a function body in ONNX")
        return self.reader.function(FunctionProto.FromString(chosen), partial=True)


def _type_of(value: Value) -> Any:
    message = TypeProto()
    if value is not None:
        dtype = np.dtype(np.int64) if onnx_values.is_symbolic(value) else np.dtype(value.dtype)
        message.tensor_type.elem_type = _KINDS[dtype]
        message.tensor_type.shape.SetInParent()
        for size in value.shape:
            dimension = message.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dimension.dim_value = size
    return message


@dataclass(slots=True)
class Call:
    """A call of an operator, for the function that computes it."""

    evaluation: Evaluation
    node: Node
    attributes: Mapping[str, Any]
    scope: Scope

    @property
    def version(self) -> int:
        """The opset in which the operator was last changed."""
        return self.node.version

    @property
    def where(self) -> str:
        """The file and the node, for messages."""
        return f"{self.evaluation.where}: {self.node.label}"

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the operator's default, or this one. Texts are `str`."""
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def is_wanted(self, output: int) -> bool:
        """Return whether somebody takes this output."""
        return len(self.node.outputs) > output and bool(self.node.outputs[output])

    def lacks(self, found: str, **words: str) -> Never:
        """Raise that there is no function for this call: AOTC-E844."""
        raise lacking(self.where, found, **words)

    def refuse(self, found: str, **words: str) -> Never:
        """Raise that the operator accepts no such call: AOTC-E843."""
        raise bad_model(self.where, found, **words)

    def dtype(self, kind: int) -> np.dtype[Any]:
        """Return the dtype of a number in TensorProto, as the file has it."""
        return dtype_of(kind, self.where)

    def jax_dtype(self, dtype: Any) -> np.dtype[Any]:
        """Return the dtype with which jax computes a dtype of the file. Raises CaptureError."""
        stated: np.dtype[Any] = np.dtype(dtype)
        if jax.config.jax_enable_x64:
            return stated
        if stated in _WIDE:
            self.lacks(
                f"the 64-bit type {stated}",
                hint="set `enable_x64 = true`, or export the model with 32-bit types",
            )
        return _NARROW.get(stated, stated)

    def to_jax(self, value: Value) -> Any:
        """Return a value as an array of jax, with the dtype that jax computes with."""
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype == object:
            dtype = self.jax_dtype(np.int64)
            flat = [jnp.asarray(size, dtype) for size in value.flat]
            return jnp.stack(flat).reshape(value.shape) if flat else jnp.zeros(value.shape, dtype)
        dtype = self.jax_dtype(value.dtype)
        if dtype != value.dtype and not onnx_values.fits(value, dtype):
            self.lacks(
                f"{value.dtype} values outside the range of {dtype}", hint="set `enable_x64 = true`"
            )
        return jnp.asarray(value, dtype)

    def operands(self, *values: Value) -> tuple[Any, Any]:
        """Return numpy and the values if all are known and small, else jax.numpy and jax arrays."""
        if all(
            value is None or (onnx_values.is_known(value) and value.size <= onnx_values.KNOWN)
            for value in values
        ):
            return np, values
        return jnp, tuple(self.to_jax(value) for value in values)

    def concrete(self, value: Value, what: str) -> Array:
        """Return a value that has to be known while tracing."""
        if not isinstance(value, np.ndarray):
            self.lacks(
                f"{what}, computed from inputs or weights",
                expected=f"{what}, known at build time",
                hint="make it a constant of the model: export it with fixed sizes",
            )
        return value

    def ints(self, value: Value, what: str) -> tuple[Any, ...]:
        """Return whole numbers or symbolic sizes that have to be known."""
        return tuple(
            int(size)
            if isinstance(size, int | np.integer | np.bool_ | float | np.floating)
            else size
            for size in self.concrete(value, what).reshape(-1).tolist()
        )

    def is_small(self, shape: Sequence[Any]) -> bool:
        """Return whether an array of this shape is small enough to be known.

        Raises:
            CaptureError: The shape is too large, or has a negative size.
        """
        fixed = [size for size in shape if isinstance(size, int)]
        if min(fixed, default=0) < 0:
            self.refuse(f"the shape {list(shape)}")
        if (count := onnx_values.elements(shape)) > onnx_values.LARGEST:
            self.refuse(f"an array of {list(shape)}")
        return count <= onnx_values.KNOWN and len(fixed) == len(shape)

    def run(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Return the outputs of a graph that is an attribute."""
        if len(inputs) != len(graph.inputs):
            self.refuse(f"a graph of {len(graph.inputs)} inputs", expected=f"{len(inputs)}")
        return self.evaluation.graph(graph, inputs, self.scope)

    def spend(self, nodes: int) -> None:
        """Count nodes that are evaluated without being in a graph."""
        self.evaluation.left -= nodes

    def require_types(self, inputs: Sequence[Value]) -> None:
        """Raise CaptureError for inputs of several types where one is needed, and wrong counts."""
        schema = self.node.schema
        stated = schema.inputs
        variadic = bool(stated) and stated[-1].option == stated[-1].option.Variadic
        if len(inputs) > len(stated) and not variadic:
            self.refuse(f"{len(inputs)} inputs", expected=f"at most {len(stated)}")
        if len(inputs) < schema.min_input:
            self.refuse(f"{len(inputs)} inputs", expected=f"at least {schema.min_input}")
        types: dict[str, np.dtype[Any]] = {}
        for index, value in enumerate(inputs):
            formal = stated[min(index, len(stated) - 1)]
            if value is None or isinstance(value, list):
                continue
            dtype = np.dtype(np.int64) if onnx_values.is_symbolic(value) else np.dtype(value.dtype)
            if not jax.config.jax_enable_x64:
                dtype = _NARROW.get(dtype, dtype)
            several = variadic and index >= len(stated) - 1 and not formal.is_homogeneous
            if several or formal.type_str.startswith(("tensor(", "seq(", "optional(")):
                continue
            if types.setdefault(formal.type_str, dtype) != dtype:
                self.refuse(
                    f"inputs of {types[formal.type_str]} and of {dtype}",
                    expected=f"{self.node.op} of one type",
                )
