"""The JSON of a `.pt2` archive as types: what `torch/_export/serde/schema.py` calls the same.

Read with torch 2.9 to 2.15 (schema 8.14 to 8.20). Fields that say nothing about what is computed
(gradients, devices, module calls below the first) are not read.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from aotc.capture.model_files.model_archive import Damaged, json_text

MAJOR = 8


class SymExpr(Struct, frozen=True):
    """An expression over symbols, in sympy's spelling."""

    expr_str: str


class Sym(Struct, frozen=True):
    """A number, or an expression for one."""

    as_expr: SymExpr | UnsetType = UNSET
    as_int: int | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET


class TensorMeta(Struct, frozen=True):
    """Metadata of a tensor. dtype: number of `dtypes.SCALAR_TYPES`.  layout: 7 is dense."""

    dtype: int
    sizes: tuple[Sym, ...]
    strides: tuple[Sym, ...]
    storage_offset: Sym
    layout: int


class Name(Struct, frozen=True):
    """A value of the graph."""

    name: str


class NameOr(Struct, frozen=True):
    """A value of the graph, or one that is written there."""

    as_name: str | UnsetType = UNSET
    as_int: int | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET


class Complex(Struct, frozen=True):
    real: float | str
    imag: float | str


class GraphArgument(Struct, frozen=True):
    name: str
    graph: Graph


class Argument(Struct, frozen=True):
    """One of these."""

    as_none: bool | UnsetType = UNSET
    as_tensor: Name | UnsetType = UNSET
    as_tensors: tuple[Name, ...] | UnsetType = UNSET
    as_int: int | UnsetType = UNSET
    as_ints: tuple[int, ...] | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET
    as_floats: tuple[float | str, ...] | UnsetType = UNSET
    as_string: str | UnsetType = UNSET
    as_sym_int: NameOr | UnsetType = UNSET
    as_sym_ints: tuple[NameOr, ...] | UnsetType = UNSET
    as_sym_float: NameOr | UnsetType = UNSET
    as_sym_floats: tuple[NameOr, ...] | UnsetType = UNSET
    as_sym_bool: NameOr | UnsetType = UNSET
    as_scalar_type: int | UnsetType = UNSET
    as_memory_format: int | UnsetType = UNSET
    as_layout: int | UnsetType = UNSET
    as_device: dict[str, Any] | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET
    as_bools: tuple[bool, ...] | UnsetType = UNSET
    as_graph: GraphArgument | UnsetType = UNSET
    as_optional_tensors: tuple[Argument, ...] | UnsetType = UNSET
    as_optional_tensor: Argument | UnsetType = UNSET
    as_complex: Complex | UnsetType = UNSET
    as_int_lists: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    as_operator: str | UnsetType = UNSET
    as_custom_obj: Any = UNSET
    as_strings: Any = UNSET
    as_sym_bools: Any = UNSET
    as_nested_tensors: Any = UNSET
    as_string_to_argument: Any = UNSET

    def only(self) -> tuple[str, Any]:
        """Return the one that is set: its name without "as_", and it. Raises Damaged."""
        found = [
            (name, value)
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not UNSET
        ]
        if len(found) != 1:
            raise Damaged("arguments of one known kind", f"{len(found)} known kinds")
        return found[0][0].removeprefix("as_"), found[0][1]


class NamedArgument(Struct, frozen=True):
    name: str
    arg: Argument


class Node(Struct, frozen=True):
    """An operation. metadata: `stack_trace` among others."""

    target: str
    inputs: tuple[NamedArgument, ...]
    outputs: tuple[Argument, ...]
    metadata: dict[str, str]
    is_hop_single_tensor_return: bool | None = None


class Graph(Struct, frozen=True):
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    nodes: tuple[Node, ...]
    tensor_values: dict[str, TensorMeta]


class Value(Struct, frozen=True):
    arg: Argument


class Parameter(Struct, frozen=True):
    arg: Name
    parameter_name: str


class Buffer(Struct, frozen=True):
    arg: Name
    buffer_name: str


class TensorConstant(Struct, frozen=True):
    arg: Name
    tensor_constant_name: str


class InputSpec(Struct, frozen=True):
    user_input: Value | UnsetType = UNSET
    parameter: Parameter | UnsetType = UNSET
    buffer: Buffer | UnsetType = UNSET
    tensor_constant: TensorConstant | UnsetType = UNSET
    custom_obj: Any = UNSET
    token: Any = UNSET


class BufferMutation(Struct, frozen=True):
    buffer_name: str


class ParameterMutation(Struct, frozen=True):
    parameter_name: str


class InputMutation(Struct, frozen=True):
    user_input_name: str


class OutputSpec(Struct, frozen=True):
    user_output: Value | UnsetType = UNSET
    buffer_mutation: BufferMutation | UnsetType = UNSET
    parameter_mutation: ParameterMutation | UnsetType = UNSET
    user_input_mutation: InputMutation | UnsetType = UNSET
    loss_output: Any = UNSET
    gradient_to_parameter: Any = UNSET
    gradient_to_user_input: Any = UNSET
    token: Any = UNSET


class Signature(Struct, frozen=True):
    input_specs: tuple[InputSpec, ...]
    output_specs: tuple[OutputSpec, ...]


class CallSignature(Struct, frozen=True):
    out_spec: str
    in_spec: str = ""
    forward_arg_names: tuple[str, ...] | None = None


class ModuleCall(Struct, frozen=True):
    fqn: str
    signature: CallSignature | None = None


class NamedTupleFields(Struct, frozen=True):
    field_names: tuple[str, ...]


class GraphModule(Struct, frozen=True):
    graph: Graph
    signature: Signature
    module_call_graph: tuple[ModuleCall, ...]
    treespec_namedtuple_fields: dict[str, NamedTupleFields] = {}


class Range(Struct, frozen=True):
    min_val: int | None
    max_val: int | None


class SchemaVersion(Struct, frozen=True):
    major: int
    minor: int


class Versions(Struct, frozen=True):
    """A program's versions, read before the rest, whose form depends on the major one."""

    schema_version: SchemaVersion
    torch_version: str = ""


class Program(Versions, frozen=True, kw_only=True):
    graph_module: GraphModule
    range_constraints: dict[str, Range]


class Payload(Struct, frozen=True):
    """Location and layout of a weight's bytes."""

    path_name: str
    use_pickle: bool
    tensor_meta: TensorMeta | None


class Payloads(Struct, frozen=True):
    config: dict[str, Payload]


class TreeSpec(Struct, frozen=True):
    """The structure of a result, as torch's pytrees write it; a leaf has no type."""

    type: str | None
    context: Any
    children_spec: tuple[TreeSpec, ...]


def decode[T](data: memoryview | bytes, type_: type[T], what: str) -> T:
    """JSON as a type. what: for messages. Raises Damaged."""
    text = json_text(data, what)
    try:
        return msgspec.json.decode(text, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Damaged(f"{what} as torch.export.save writes it", str(error)[:300]) from error
