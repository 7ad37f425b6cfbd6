"""A plan as a function of jax: its steps one after the other, on arrays or on what traces them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from aotc.base.errors import refusal
from aotc.frontends.pytorch.operators import torch_indexing, torch_shapes
from aotc.frontends.pytorch.operators.torch_scalars import FUNCTIONS
from aotc.frontends.pytorch.torch_dtypes import INT, SCALAR_TYPES, as_dtype, canonical, is_tensor
from aotc.frontends.pytorch.torch_graph_checks import CONDITION, LOOP
from aotc.frontends.pytorch.torch_memory import Sharing, is_identity, sharing
from aotc.frontends.pytorch.torch_plan import (
    DTypeNumber,
    Plan,
    Ref,
    Step,
    arguments,
    dtype_of,
    refs,
    used_by,
)
from aotc.frontends.pytorch.torch_refusals import Unsupported
from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError

type Function = Callable[..., list[Any]]


class Values:
    """The values of a graph's names while it runs.

    A name that shares memory is computed anew from the memory's owner after a write.
    """

    def __init__(self, plan: Plan, shared: Sharing) -> None:
        self._shared = shared
        self._needed = set(refs(plan.outputs)).union(*map(used_by, plan.steps))
        self._values: dict[str, Any] = {}
        self._versions = dict.fromkeys(shared.written, 0)
        self._seen: dict[str, int] = {}

    def _owner(self, name: str) -> str | None:
        """Return the owner of the memory that a value shares, if that memory is written."""
        owner = self._shared.owner.get(name)
        return owner if owner in self._versions else None

    def put(self, name: str, value: Any) -> None:
        """Set the value of a name."""
        self._values[name] = value
        owner = self._owner(name)
        if owner is not None:
            self._seen[name] = self._versions[owner]

    def is_needed(self, name: str) -> bool:
        """Return whether a step or a result takes it."""
        return name in self._needed

    def read(self, name: str) -> Any:
        """Return the value of a name, after all writes to its memory."""
        owner = self._owner(name)
        if owner is None or self._seen.get(name) == self._versions[owner]:
            return self._values[name]
        origin = self._shared.origins[name]
        parent = self.read(origin.parent)
        value = parent
        if origin.step.in_place is None:
            made = self._view(origin.step, parent)
            value = made if origin.place is None else made[origin.place]
        self.put(name, value)
        return value

    def write(self, name: str, value: Any) -> None:
        """Write a tensor: its owner's value changes where the tensor lies in it."""
        written = [(name, value)]
        while name in self._shared.origins:
            origin = self._shared.origins[name]
            if origin.step.in_place is None:
                value = self._scatter(origin.step, origin.place, self.read(origin.parent), value)
            name = origin.parent
            written.append((name, value))
        self._versions[name] += 1
        for each, new in written:
            self.put(each, new)

    def resolve(self, value: Any) -> Any:
        """Return an argument as functions take it."""
        if isinstance(value, Ref):
            return self.read(value.name)
        if isinstance(value, DTypeNumber):
            return canonical(SCALAR_TYPES[value.number])
        if isinstance(value, tuple):
            return tuple(self.resolve(item) for item in value)
        return value

    def arguments(self, step: Step) -> dict[str, Any]:
        """Return a step's arguments with the values of names."""
        given = arguments(step)
        given.pop("sparse", None)
        return {name: self.resolve(value) for name, value in given.items()}

    def _view(self, step: Step, parent: Any) -> Any:
        assert step.operator is not None
        given = self.arguments(step)
        return step.operator.function(**{**given, step.inputs[0][0]: parent})

    def _scatter(self, step: Step, place: int | None, parent: Any, value: Any) -> Any:
        """Return the parent with new values where the step's result lies in it."""
        assert step.operator is not None
        function, given = step.operator.function, self.arguments(step)
        if function is torch_shapes.slice_:
            return torch_indexing.slice_scatter(**{**given, "self": parent, "src": value})
        if function is torch_shapes.select:
            return torch_indexing.select_scatter(**{**given, "self": parent, "src": value})
        numbers = jnp.arange(parent.size, dtype=canonical(INT)).reshape(parent.shape)
        made = self._view(step, numbers)
        made = made if place is None else made[place]
        flat = parent.reshape(-1).at[made.reshape(-1)].set(value.reshape(-1))
        return flat.reshape(parent.shape)


def function_of(plan: Plan, where: str, outside: Mapping[str, str]) -> Function:
    """Return a function of the values of the plan's inputs that returns those of its outputs."""
    shared = sharing(plan, outside)[0]
    sizes = [size for tensor in plan.tensors.values() for size in tensor.sizes]
    varies = not all(isinstance(size.as_int, int) for size in sizes)

    def run(*given: Any) -> list[Any]:
        values = Values(plan, shared)
        for pattern, value in zip(plan.inputs, given, strict=True):
            if isinstance(pattern, Ref):
                values.put(pattern.name, value)
        for step in plan.steps:
            try:
                line = step.line if jax.config.jax_enable_x64 else ""  # where integers may wrap
                with jax.named_scope(step.layer), jax.named_scope(line):
                    _run(step, values, plan, where)
            except AotcError:
                raise
            except Unsupported as error:
                raise _refusal(step, where, str(error), varies) from error
            except Exception as error:
                found = f"{type(error).__name__}: {first_line(error)}"
                raise _refusal(step, where, found, varies) from error
        return [values.resolve(output) for output in plan.outputs]

    return run


def _refusal(step: Step, where: str, found: str, varies: bool) -> AotcError:
    place = f"{where}: {step.line or f'node {step.name}'}"
    hint = "write this line in another way" + (", or export with fixed sizes" if varies else "")
    return refusal("AOTC-E844", place, f"{step.target}: {found}", hint=hint)


def _run(step: Step, values: Values, plan: Plan, where: str) -> None:
    if step.in_place is not None:
        _write(step, values)
        return
    if step.target in FUNCTIONS:
        given = [values.resolve(value) for _, value in step.inputs]
        made: Any = FUNCTIONS[step.target](*given)
    elif step.target == CONDITION:
        made = _condition(step, values, where)
    elif step.target == LOOP:
        made = _loop(step, values, where)
    else:
        assert step.operator is not None
        made = step.operator.function(**values.arguments(step))
    _bind(step, made, values, plan)


def _write(step: Step, values: Values) -> None:
    target = step.first
    if not is_identity(step):
        old = values.read(target)
        assert step.operator is not None
        given = values.arguments(step)
        given = {"self": given.pop(step.inputs[0][0]), **given}
        made = as_dtype(step.operator.function(**given), old.dtype)
        values.write(target, jnp.broadcast_to(made, old.shape))
    for name in refs(step.outputs):
        if name != target:
            values.put(name, values.read(target))


def _bind(step: Step, made: Any, values: Values, plan: Plan) -> None:
    if len(step.outputs) == 1:
        made = [made]
    if len(made) != len(step.outputs):
        raise Unsupported(f"{len(step.outputs)} results instead of {len(made)}")
    narrow = step.operator is not None and step.operator.narrow
    for pattern, value in zip(step.outputs, made, strict=True):
        if isinstance(pattern, Ref):
            _put(pattern.name, value, values, plan, narrow)
        elif isinstance(pattern, tuple):
            if len(pattern) != len(value):
                raise Unsupported(f"{len(pattern)} results instead of {len(value)}")
            for ref, item in zip(pattern, value, strict=True):
                _put(ref.name, item, values, plan, narrow)


def _put(name: str, value: Any, values: Values, plan: Plan, narrow: bool) -> None:
    """Store a value, and require the dtype and shape that torch recorded for it."""
    meta = None if narrow else plan.tensors.get(name)
    if meta is not None and value is None and values.is_needed(name):
        raise Unsupported("a result that this frontend does not compute")
    if meta is not None and is_tensor(value) and values.is_needed(name):
        wanted = canonical(dtype_of(meta))
        sizes = [size.as_int for size in meta.sizes]
        fits = len(sizes) == value.ndim and all(
            found == size
            for found, size in zip(value.shape, sizes, strict=True)
            if isinstance(found, int) and isinstance(size, int)
        )
        if value.dtype != wanted or not fits:
            raise Unsupported(
                f"{value.dtype}{list(value.shape)} instead of torch's "
                f"{wanted}{[s if isinstance(s, int) else '?' for s in sizes]}"
            )
    values.put(name, value)


def _condition(step: Step, values: Values, where: str) -> Any:
    """`torch.cond` as `lax.cond`; a condition that is known while tracing chooses at once."""
    chosen = values.resolve(step.inputs[0][1])
    graphs = [value for _, value in step.inputs if isinstance(value, Plan)]
    functions = [_branch(graph, where) for graph in graphs]
    operands = [
        values.resolve(item)
        for _, value in step.inputs[3:]
        for item in (value if isinstance(value, tuple) else (value,))
    ]
    if not is_tensor(chosen):
        made = functions[0 if chosen else 1](*operands)
    else:
        arrays = [operand for operand in operands if is_tensor(operand)]
        at = [i for i, operand in enumerate(operands) if is_tensor(operand)]

        def with_numbers(function: Function) -> Callable[..., Any]:
            def call(*given: Any) -> tuple[Any, ...]:
                every = list(operands)
                for i, value in zip(at, given, strict=True):
                    every[i] = value
                return tuple(function(*every))

            return call

        made = list(
            lax.cond(jnp.reshape(chosen, ()).astype(bool), *map(with_numbers, functions), *arrays)
        )
    return made[0] if step.single else _results(step, made)


def _results(step: Step, made: Sequence[Any]) -> Any:
    return made[0] if len(step.outputs) == 1 and isinstance(step.outputs[0], Ref) else made


def _branch(graph: Plan, where: str) -> Function:
    return function_of(graph, where, dict.fromkeys(refs(graph.inputs), "an argument"))


def _loop(step: Step, values: Values, where: str) -> Any:
    """`while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)` as `lax.while_loop`."""
    goes_on, body = (_branch(value, where) for _, value in step.inputs if isinstance(value, Plan))
    carried, more = (
        [values.resolve(item) for item in value] if isinstance(value, tuple) else []
        for _, value in step.inputs[2:4]
    )
    made = lax.while_loop(
        lambda state: jnp.reshape(goes_on(*state, *more)[0], ()).astype(bool),
        lambda state: tuple(body(*state, *more)),
        tuple(jnp.asarray(value) for value in carried),
    )
    return _results(step, list(made))
