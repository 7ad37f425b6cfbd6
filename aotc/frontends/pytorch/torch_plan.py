"""A graph as steps: arguments read, graphs that are only called inlined, unused steps left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import UNSET

from aotc.capture.model_files.model_archive import Damaged
from aotc.capture.model_files.source_lines import own_line
from aotc.frontends.pytorch.operators import OPERATORS
from aotc.frontends.pytorch.operators.torch_operator_table import Operator
from aotc.frontends.pytorch.operators.torch_scalars import FUNCTIONS
from aotc.frontends.pytorch.torch_dtypes import SCALAR_TYPES
from aotc.frontends.pytorch.torch_schema import Argument, Graph, NameOr, Node, TensorMeta

DEPTH_MAX = 16
"""Graphs within graphs: branches within branches."""

PREFIX = "torch.ops."
EFFECTS = "higher_order.with_effects"
BATCH_NORM = "aten._native_batch_norm_legit_functional.default"
COPY = "aten.copy_.default"
INLINED = {"higher_order.wrap_with_set_grad_enabled", "higher_order.wrap_with_autocast"}
NAMES_MAX = 4096
"""Characters of a name."""

UNREAD = frozenset(
    {"device", "layout", "memory_format", "non_blocking", "pin_memory", "implicit"}
    | {"cudnn_enable", "cudnn_enabled", "compute_mode", "stable", "assume_unique"}
    | {"scale_grad_by_freq", "sparse_grad", "check_errors", "physical_layout"}
)
"""Arguments that say where and how values lie, by which kernels they are computed, and what is made
of gradients and errors; not what the values are. Sorts are always stable.
"""

IN_PLACE = {
    "aten.__iand__": "aten.__and__",
    "aten.__ior__": "aten.__or__",
    "aten.__ixor__": "aten.__xor__",
}

NOTHING_DONE = {
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten._linalg_check_errors.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}
"""Assertions, which torch checks when a model runs."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the graph."""

    name: str


@dataclass(frozen=True, slots=True)
class DTypeNumber:
    """A dtype by torch's number."""

    number: int


@dataclass(frozen=True, slots=True)
class Other:
    """An argument of a kind that no operator here takes; `text` is an operator's name, or empty."""

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation.

    `target` is torch's name without "torch.ops."; `inputs`, by name and in order, are numbers,
    texts, `Ref`s, `Plan`s, `Other`s, and tuples of these; `outputs` are `Ref`s, tuples of them,
    None. `line` is that of the model, and `layer` the path of its module; "" if the file has none.
    """

    name: str
    target: str
    inputs: tuple[tuple[str, Any], ...]
    outputs: tuple[Any, ...]
    line: str
    single: bool = False
    layer: str = ""

    @property
    def in_place(self) -> str | None:
        """The operator whose result this one writes into its first argument."""
        packet, _, overload = self.target.rpartition(".")
        if packet in IN_PLACE:
            return f"{IN_PLACE[packet]}.{overload}"
        if packet.startswith("aten.") and packet.endswith("_") and not packet.endswith("__"):
            return f"{packet[:-1]}.{overload}"
        return None

    @property
    def operator(self) -> Operator | None:
        """The operator's implementation; None if there is none."""
        return OPERATORS.get(self.in_place or self.target)

    @property
    def first(self) -> str:
        """The name of the tensor that it views or writes. Raises Damaged."""
        for _, value in self.inputs[:1]:
            if isinstance(value, Ref):
                return value.name
            if isinstance(value, tuple) and value and isinstance(value[0], Ref):
                return value[0].name
        raise Damaged(f"a tensor as first argument of {self.target}", "none")


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph. inputs, outputs: values as those of steps.  tensors: what is known of each."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    steps: tuple[Step, ...]
    tensors: Mapping[str, TensorMeta] = field(repr=False)


def refs(value: Any) -> Iterator[str]:
    """Yield names of the graph's values in an argument."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, tuple):
        for item in value:
            yield from refs(item)


def used_by(step: Step) -> Iterator[str]:
    """Yield the names that a step uses."""
    for _, value in step.inputs:
        yield from refs(value)


def plan(graph: Graph, depth: int = 0) -> Plan:
    """Return the steps of a graph that its results need, each name checked. Raises Damaged."""
    made = _without_assertions(_with_updates(_inline(_read(graph, depth))))
    _check_names(made)
    return _prune(made)


def _number(value: float | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise Damaged("numbers", repr(value)[:100]) from None


def _one(value: NameOr) -> Any:
    for number in (value.as_int, value.as_bool):
        if number is not UNSET:
            return number
    if isinstance(value.as_float, float | int | str):
        return _number(value.as_float)
    if isinstance(value.as_name, str):
        return Ref(value.as_name)
    raise Damaged("sizes of one known kind", "another")


def _value(argument: Argument, depth: int) -> Any:
    kind, value = argument.only()
    if kind in ("int", "ints", "bool", "bools", "string", "int_lists"):
        return value
    if kind in ("device", "layout", "memory_format", "none"):
        return None
    if kind == "tensor":
        return Ref(value.name)
    if kind == "tensors":
        return tuple(Ref(item.name) for item in value)
    if kind == "float":
        return _number(value)
    if kind == "floats":
        return tuple(map(_number, value))
    if kind in ("sym_int", "sym_float", "sym_bool"):
        return _one(value)
    if kind in ("sym_ints", "sym_floats"):
        return tuple(map(_one, value))
    if kind == "scalar_type":
        return DTypeNumber(value)
    if kind == "optional_tensors":
        return tuple(_value(item, depth) for item in value)
    if kind == "optional_tensor":
        return _value(value, depth)
    if kind == "complex":
        return complex(_number(value.real), _number(value.imag))
    if kind != "graph":
        return Other(kind.replace("_", " "), value if isinstance(value, str) else "")
    if depth >= DEPTH_MAX:
        raise Damaged(f"at most {DEPTH_MAX} graphs within each other", "more")
    return plan(value.graph, depth + 1)


def _layer(node: Node) -> str:
    """Return the path of a node's innermost module, such as "layers.0.dense"."""
    _, path, *_ = (node.metadata.get("nn_module_stack", "").split(";")[-1] + ",").split(",")
    return path if path.isprintable() and len(path) <= NAMES_MAX else ""


def _read(graph: Graph, depth: int) -> Plan:
    steps = []
    for number, node in enumerate(graph.nodes):
        inputs = tuple((given.name, _value(given.arg, depth)) for given in node.inputs)
        outputs = tuple(_value(output, depth) for output in node.outputs)
        layouts = [g.arg.as_layout for g in node.inputs if isinstance(g.arg.as_layout, int)]
        if any(layout != 7 for layout in layouts):
            inputs = (*inputs, ("sparse", True))
        steps.append(
            Step(
                name=next(refs(outputs), f"node {number}"),
                target=node.target.removeprefix(PREFIX),
                inputs=inputs,
                outputs=outputs,
                line=own_line(node.metadata.get("stack_trace", "")),
                single=bool(node.is_hop_single_tensor_return),
                layer=_layer(node),
            )
        )
    return Plan(
        inputs=tuple(_value(argument, depth) for argument in graph.inputs),
        outputs=tuple(_value(argument, depth) for argument in graph.outputs),
        steps=tuple(steps),
        tensors=graph.tensor_values,
    )


def _with_updates(made: Plan) -> Plan:
    """Add the writes of batch normalization in training, which torch's schema omits.

    Its step is followed by one for each of the two arguments that it writes to.
    """
    steps: list[Step] = []
    for step in made.steps:
        given = dict(step.inputs)
        statistics = [given.get(name) for name in ("running_mean", "running_var")]
        refs_alone = all(isinstance(value, Ref) for value in statistics)
        if step.target != "aten.batch_norm.default" or not given.get("training") or not refs_alone:
            steps.append(step)
            continue
        new = [Ref(f"{step.name}/{name}") for name in ("running_mean", "running_var")]
        inputs = tuple(item for item in step.inputs if item[0] != "cudnn_enabled")
        outputs = (*step.outputs, None, None, *new)
        steps.append(replace(step, target=BATCH_NORM, inputs=inputs, outputs=outputs))
        for old, value in zip(statistics, new, strict=True):
            writes = (("self", old), ("src", value))
            name, kept = f"{value.name}/copy", (Ref(f"{value.name}/copy"),)
            steps.append(replace(step, name=name, target=COPY, inputs=writes, outputs=kept))
    return replace(made, steps=tuple(steps))


def _rename(value: Any, names: Mapping[str, Any], prefix: str) -> Any:
    if isinstance(value, Ref):
        return names.get(value.name, Ref(prefix + value.name))
    if isinstance(value, tuple):
        return tuple(_rename(item, names, prefix) for item in value)
    return value


def _inline(made: Plan) -> Plan:
    """Graphs that are called as they are become steps of the caller's."""
    if not any(step.target in INLINED for step in made.steps):
        return made
    steps: list[Step] = []
    tensors = dict(made.tensors)
    names: dict[str, Any] = {}
    for step in made.steps:
        step = replace(
            step, inputs=tuple((key, _rename(value, names, "")) for key, value in step.inputs)
        )
        inner = next((value for _, value in step.inputs if isinstance(value, Plan)), None)
        if step.target not in INLINED or inner is None or _autocasts(step):
            steps.append(step)
            continue
        at = next(i for i, (_, value) in enumerate(step.inputs) if value is inner)
        given = [value for _, value in step.inputs[at + 1 :]]
        if len(given) == 1 and isinstance(given[0], tuple):
            given = list(given[0])
        if len(given) != len(inner.inputs):
            raise Damaged(f"{len(inner.inputs)} arguments of {step.name}", str(len(given)))
        prefix = f"{step.name}/"
        local = {
            key: value
            for name, value in zip(inner.inputs, given, strict=True)
            for key in refs(name)
        }
        tensors |= {prefix + name: meta for name, meta in inner.tensors.items()}
        steps += [
            replace(
                each,
                name=prefix + each.name,
                inputs=tuple((key, _rename(value, local, prefix)) for key, value in each.inputs),
                outputs=tuple(_rename(value, {}, prefix) for value in each.outputs),
            )
            for each in inner.steps
        ]
        results = [_rename(value, local, prefix) for value in inner.outputs]
        outer = list(step.outputs)
        if len(outer) == 1 and isinstance(outer[0], tuple):
            outer = list(outer[0])
        if len(outer) != len(results):
            raise Damaged(f"{len(results)} results of {step.name}", str(len(outer)))
        for name, result in zip(outer, results, strict=True):
            names |= dict.fromkeys(refs(name), result)
    return replace(
        made,
        steps=tuple(steps),
        outputs=tuple(_rename(value, names, "") for value in made.outputs),
        tensors=tensors,
    )


def _without_assertions(made: Plan) -> Plan:
    """Assertions that a token orders among effects return that token."""
    names: dict[str, Any] = {}
    steps: list[Step] = []
    for step in made.steps:
        inputs = tuple((key, _rename(value, names, "")) for key, value in step.inputs)
        told = [value.text for _, value in inputs if isinstance(value, Other)]
        if step.target == EFFECTS and {each.removeprefix(PREFIX) for each in told} <= NOTHING_DONE:
            names |= dict.fromkeys(refs(step.outputs[:1]), inputs[0][1])
        else:
            steps.append(replace(step, inputs=inputs))
    outputs = tuple(_rename(value, names, "") for value in made.outputs)
    return replace(made, steps=tuple(steps), outputs=outputs) if names else made


def _autocasts(step: Step) -> bool:
    if step.target != "higher_order.wrap_with_autocast":
        return False
    given = [value for _, value in step.inputs]
    return len(given) < 3 or given[2] is not False


def _check_names(made: Plan) -> None:
    """Require that each name is plain, and is defined once and before its use: no cycles."""
    known: set[str] = set()

    def make(names: Iterator[str]) -> None:
        for name in names:
            if name in known:
                raise Damaged("each value computed once", f"{name!a} twice"[:200])
            if not name.isprintable() or len(name) > NAMES_MAX or not name:
                raise Damaged("printable names of values", repr(name)[:200])
            known.add(name)

    make(refs(made.inputs))
    for step in made.steps:
        for name in used_by(step):
            if name not in known:
                raise Damaged(f"values computed before {step.name!a}", f"{name!a}"[:200])
        if not step.target.isprintable() or len(step.target) > NAMES_MAX:
            raise Damaged("printable names of operators", repr(step.target)[:200])
        if step.in_place is None:
            make(refs(step.outputs))
        else:
            make(name for name in refs(step.outputs) if name not in set(used_by(step)))
    for name in refs(made.outputs):
        if name not in known:
            raise Damaged("names of computed results", f"{name!a}"[:200])


def _prune(made: Plan) -> Plan:
    """Return the plan without unneeded steps; steps that may have side effects are needed."""
    wanted = set(refs(made.outputs))
    kept: list[Step] = []
    for step in reversed(made.steps):
        if not _only_returns(step) or wanted & set(refs(step.outputs)):
            kept.append(step)
            wanted |= set(used_by(step))
    return replace(made, steps=tuple(reversed(kept)))


def _only_returns(step: Step) -> bool:
    """Return whether a step only returns values, which only names of ATen show."""
    if step.target in NOTHING_DONE or step.target in FUNCTIONS:
        return True
    writes = step.in_place is not None or step.target.endswith("out")
    known = step.target.startswith("aten.") or step.operator is not None
    return known and bool(step.outputs) and not writes


def dtype_of(meta: TensorMeta) -> Any:
    """Numpy's dtype of a tensor. Raises KeyError for one that numpy does not have."""
    return SCALAR_TYPES[meta.dtype]


def arguments(step: Step) -> dict[str, Any]:
    """Return arguments by name, without those that say nothing about values."""
    return {name: value for name, value in step.inputs if name not in UNREAD}
