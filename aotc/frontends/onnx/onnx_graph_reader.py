"""A parsed protobuf message as graphs whose every edge is defined: the types that are evaluated."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto, defs

from aotc.capture.model_files.frontend_protocol import Array
from aotc.frontends.onnx.onnx_refusals import bad_model, lacking, quote
from aotc.frontends.onnx.onnx_tensors import to_array

ONNX, ML, PREVIEW = "", "ai.onnx.ml", "ai.onnx.preview"
OPSETS = {ONNX: (7, min(28, defs.onnx_opset_version())), ML: (1, 5), PREVIEW: (1, 1)}
"""Versions of operator sets that the table was written for and the installed onnx knows, both
included. A newer one may change what an operator of the same name computes."""

NODES = 200_000
"""The most nodes of a model with its functions expanded, and the most that one call evaluates."""

DEPTH = 64
"""The most functions within each other."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of a function's node that takes its value from an attribute of the function."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A call of an operator.

    label: what messages call it.  version: of the operator (`since_version`), 0 for a function of
    the model.  inputs: names, "" for one left out.  attributes: numbers, texts as bytes, arrays,
    graphs, `Reference`s, and sequences of these; those left out have the operator's default, if it
    has one.  message: the protobuf message, which bodies of operators are made from.  name: the
    file's own, or that of the first output.
    """

    label: str
    op: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    schema: Any
    message: Any
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in an order in which each finds its inputs.

    `inputs` are names without those of initializers; `messages` are their ValueInfoProtos.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, Array]
    nodes: tuple[Node, ...]
    messages: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the model. defaults: values of its attributes; None for those to be given."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Any]


def _name_of(message: Any) -> str:
    """Return the name of a node, or of its first output."""
    return message.name or next((name for name in message.output if name), "")


_SINGLE = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TYPE_PROTO: "tp",
}
_SEVERAL = {
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}
"""Fields of attributes by their type, whose values stay as they are."""

type Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


@dataclass(slots=True)
class Reader:
    """Makes graphs of messages.

    `where` is the file, for messages; `opsets` maps domains to versions; `functions` are those of
    the model, which nodes may call.
    """

    where: str
    opsets: Mapping[str, int]
    beside: Callable[[str], bytes]
    functions: Mapping[Key, Any] = field(default_factory=dict)

    def graph(self, message: Any, outer: Set[str] = frozenset()) -> Graph:
        """Return a graph. outer: the names that are defined around it."""
        if message.sparse_initializer:
            raise lacking(self.where, "a sparse initializer")
        initializers: dict[str, Array] = {}
        for tensor in message.initializer:
            name = self._name(tensor.name, "an initializer")
            if not name or name in initializers:
                raise bad_model(
                    self.where, f"the initializer {quote(name)} without a name or twice"
                )
            place = f"{self.where}: initializer {quote(name)}"
            initializers[name] = to_array(tensor, self.beside, place)
        every = [self._name(value.name, "an input") for value in message.input]
        if len(set(every)) < len(every) or "" in every:
            raise bad_model(self.where, "inputs without a name or with the same one")
        kept = [value for value in message.input if value.name not in initializers]
        defined = {*outer, *every, *initializers}
        nodes = tuple(self._nodes(message.node, defined, {*every, *initializers}))
        outputs = tuple(self._name(value.name, "an output") for value in message.output)
        known = defined.union(*(node.outputs for node in nodes))
        for name in outputs:
            if name not in known or not name:
                raise bad_model(self.where, f"the output {quote(name)}, which no node computes")
        return Graph(tuple(value.name for value in kept), outputs, initializers, nodes, tuple(kept))

    def function(self, message: Any, *, partial: bool = False) -> Function:
        """Return a function of the model, or the body of an operator.

        With `partial`, outputs may be missing: bodies that onnx makes for a node lack unused ones.
        """
        opsets = {entry.domain: entry.version for entry in message.opset_import}
        if partial:  # some of onnx's bodies do not say which version of its own operators they use
            opsets.setdefault(ONNX, self.opsets.get(ONNX, OPSETS[ONNX][1]))
        body = Reader(self.where, opsets or self.opsets, self.beside, self.functions)
        inputs = tuple(self._name(name, "an input") for name in message.input)
        if len(set(inputs)) < len(inputs):
            raise bad_model(self.where, f"a duplicate input of the function {quote(message.name)}")
        nodes = tuple(body._nodes(message.node, frozenset(inputs), set(inputs)))
        outputs = tuple(message.output)
        known = set(inputs).union(*(node.outputs for node in nodes))
        for name in outputs:
            if name not in known and not partial:
                raise bad_model(self.where, f"the output {quote(name)}, which no node computes")
        defaults: dict[str, Any] = dict.fromkeys(message.attribute)
        for attribute in message.attribute_proto:
            defaults[attribute.name] = body._value(attribute, frozenset(), self.where)
        return Function(inputs, outputs, nodes, defaults)

    def _name(self, name: str, what: str) -> str:
        if not name.isprintable():
            raise bad_model(self.where, f"{what} with the name {quote(name)}")
        return name

    def _nodes(self, messages: Sequence[Any], outer: Set[str], taken: set[str]) -> Iterator[Node]:
        defined = set(outer)
        for message in messages:
            named = _name_of(message)
            label = f"node {quote(named)} ({quote(message.op_type)[1:-1]})"
            for name in (*message.input, *message.output, message.name, message.op_type):
                self._name(name, label)
            for name in message.input:
                if name and name not in defined:
                    raise bad_model(
                        f"{self.where}: {label}",
                        f"the input {quote(name)}, undefined before this node",
                    )
            for name in message.output:
                if name and name in taken:
                    raise bad_model(f"{self.where}: {label}", f"the output {quote(name)} twice")
            yield self._node(message, label, defined)
            outputs = [name for name in message.output if name]
            taken.update(outputs)
            defined.update(outputs)

    def _node(self, message: Any, label: str, defined: Set[str]) -> Node:
        where = f"{self.where}: {label}"
        domain = ONNX if message.domain == "ai.onnx" else message.domain
        attributes: dict[str, Any] = {}
        for attribute in message.attribute:
            if attribute.name in attributes:
                raise bad_model(where, f"the attribute {quote(attribute.name)} twice")
            attributes[attribute.name] = self._value(attribute, defined, where)
        schema, version = None, 0
        overload = getattr(message, "overload", "")
        if (domain, message.op_type, overload) not in self.functions and domain in OPSETS:
            opset = self.opsets.get(domain)
            if opset is None:
                raise bad_model(where, f"the domain {quote(domain)}, missing from opset_import")
            try:
                schema = defs.get_schema(message.op_type, opset, domain)
            except defs.SchemaError:
                schema = None
            else:
                version = schema.since_version
                for name, stated in sorted(schema.attributes.items()):
                    if name not in attributes and stated.default_value.name:
                        attributes[name] = self._value(stated.default_value, frozenset(), where)
                    elif name not in attributes and stated.required:
                        raise bad_model(where, f"no attribute {quote(name)}")
        return Node(
            label,
            message.op_type,
            domain,
            version,
            tuple(message.input),
            tuple(message.output),
            attributes,
            schema,
            message,
            _name_of(message),
        )

    def _value(self, attribute: Any, defined: Set[str], where: str) -> Any:
        if attribute.ref_attr_name:
            return Reference(attribute.ref_attr_name)
        kind = attribute.type
        if kind in _SINGLE:
            return getattr(attribute, _SINGLE[kind])
        if kind in _SEVERAL:
            return tuple(getattr(attribute, _SEVERAL[kind]))
        if kind == AttributeProto.TENSOR:
            return to_array(attribute.t, self.beside, where)
        if kind == AttributeProto.TENSORS:
            return tuple(to_array(tensor, self.beside, where) for tensor in attribute.tensors)
        if kind == AttributeProto.GRAPH:
            return self.graph(attribute.g, defined)
        if kind == AttributeProto.UNDEFINED:
            raise bad_model(where, f"the attribute {quote(attribute.name)} without a type")
        raise lacking(where, f"the attribute {quote(attribute.name)} of an unsupported type")


def subgraphs(node: Node) -> Iterator[Graph]:
    """Yield the graphs that a node has as attributes."""
    for value in node.attributes.values():
        if isinstance(value, Graph):
            yield value


def every_node(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from every_node(graph.nodes)


def key_of(node: Node) -> Key:
    """Return the function of the model that a node calls, if there is one."""
    return node.domain, node.op, getattr(node.message, "overload", "")


def require_expandable(
    nodes: Sequence[Node], functions: Mapping[Key, Function], where: str
) -> None:
    """Raise CaptureError if functions call themselves or expand to more nodes than a model has."""
    sizes: dict[Key, int] = {}

    def size(of: Sequence[Node], within: tuple[Key, ...]) -> int:
        total = 0
        for node in every_node(of):
            key = key_of(node)
            total += 1
            if key in functions:
                if key in within:
                    raise bad_model(where, f"the recursive function {quote(key[1])}")
                if len(within) > DEPTH:
                    raise bad_model(where, f"functions nested more than {DEPTH} deep")
                if key not in sizes:
                    sizes[key] = size(functions[key].nodes, (*within, key))
                total += sizes[key]
            if total > NODES:
                raise bad_model(where, f"more than {NODES:,} nodes, with its functions expanded")
        return total

    size(nodes, ())
