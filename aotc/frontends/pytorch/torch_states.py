"""State that a call changes: buffers and parameters of the model, and inputs that it writes into.

Torch changes them where they lie. Here they are arguments, and their new values are results.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from msgspec import UNSET

from aotc.base.errors import finding
from aotc.capture.model_files.frontend_protocol import Array, Model
from aotc.capture.model_files.model_archive import Damaged
from aotc.frontends.pytorch.torch_memory import sharing
from aotc.frontends.pytorch.torch_plan import Plan, Ref, refs
from aotc.frontends.pytorch.torch_refusals import Unsupported
from aotc.frontends.pytorch.torch_schema import InputSpec, OutputSpec, Payload, Signature
from aotc_runtime.base.errors import Finding

RESULT, STATE, INPUTS = "result", "state", "inputs"
"""Where a call that changes something returns what the model returns, and new values of what the
model owns and of its inputs."""

INITIAL = "initial_state"
"""The signature of the function that returns the state before the first call."""


@dataclass(frozen=True, slots=True)
class Changes:
    """State that a graph changes, by name among the graph's inputs.

    `outputs` is which of the graph's outputs is the new value; `owned` names the state that the
    model owns, in the state dict or among its constants.
    """

    outputs: Mapping[str, int]
    owned: Mapping[str, str]


def owner_of(spec: InputSpec) -> tuple[str, str] | None:
    """Kind and name of what the model owns: a parameter, a buffer, a tensor that is neither."""
    if spec.parameter is not UNSET:
        return "parameter", spec.parameter.parameter_name
    if spec.buffer is not UNSET:
        return "buffer", spec.buffer.buffer_name
    if spec.tensor_constant is not UNSET:
        return "constant", spec.tensor_constant.tensor_constant_name
    return None


def find(made: Plan, signature: Signature) -> tuple[Plan, Changes]:
    """Return the graph, with state that it writes in place as further outputs, and its changes.

    Raises:
        Damaged: The signature contradicts the graph.
    """
    known: dict[tuple[str, str], str] = {}
    owned: dict[str, str] = {}
    for spec, value in zip(signature.input_specs, made.inputs, strict=True):
        owner = owner_of(spec)
        if owner is not None and isinstance(value, Ref):
            known[owner] = value.name
            owned[value.name] = owner[1]
        elif isinstance(value, Ref):
            known["input", value.name] = value.name
    outputs: dict[str, int] = {}
    for number, output in enumerate(signature.output_specs):
        target = _target(output)
        if target is None:
            continue
        name = known.get(target)
        if name is None or name in outputs:
            raise Damaged("new values of what the graph takes, one for each", f"{target!a}"[:200])
        _check_alike(made, name, made.outputs[number])
        outputs[name] = number
    written = sharing(made, {})[0].written & {*known.values()} - outputs.keys()
    further = [name for name in refs(made.inputs) if name in written]
    outputs |= {name: len(made.outputs) + i for i, name in enumerate(further)}
    made = replace(made, outputs=(*made.outputs, *map(Ref, further)))
    return made, Changes(outputs, {name: owned[name] for name in outputs if name in owned})


def _target(spec: OutputSpec) -> tuple[str, str] | None:
    """Return the state of which an output is the new value; None for a result of the model.

    None also for outputs that order effects, which are rejected elsewhere.
    """
    if spec.buffer_mutation is not UNSET:
        return "buffer", spec.buffer_mutation.buffer_name
    if spec.parameter_mutation is not UNSET:
        return "parameter", spec.parameter_mutation.parameter_name
    if spec.user_input_mutation is not UNSET:
        return "input", spec.user_input_mutation.user_input_name
    if spec.user_output is UNSET and spec.token is UNSET:
        raise Damaged("results, and new values of buffers and inputs", "outputs of another kind")
    return None


def _check_alike(made: Plan, name: str, output: Any) -> None:
    """Require that a new value has the dtype and sizes of the old one."""
    before = made.tensors.get(name)
    after = made.tensors.get(output.name) if isinstance(output, Ref) else None
    if (
        before is None
        or after is None
        or (before.dtype, before.sizes) != (after.dtype, after.sizes)
    ):
        raise Damaged(f"a new value of {name!a} like the old one"[:200], "another one")


def check_shared_memory(
    changes: Changes, keys: Mapping[str, str], places: Mapping[str, tuple[str, Payload]], where: str
) -> Iterator[Finding]:
    """Yield AOTC-E844 for changed state in the memory of another tensor.

    torch would change that tensor, too. `keys` are names in the archive of all that the graph uses,
    `places` where these are stored.
    """
    by_place: dict[tuple[str, str], list[str]] = {}
    for name, key in keys.items():
        if key in places:
            folder, payload = places[key]
            by_place.setdefault((folder, payload.path_name), []).append(name)
    for names in by_place.values():
        for name in names:
            others = [keys[other] for other in names if other != name]
            if name in changes.outputs and others:
                found = f"{keys[name]!a} in the memory of {others[0]!a}"[:300]
                yield finding("AOTC-E844", where, found, cause="write-to-shared-memory")


def with_states(
    result: Any, outputs: Sequence[Any], before: Mapping[str, Any], changes: Changes, state: str
) -> Any:
    """Return the result of a call, together with new states if the graph changes any.

    `outputs` are the graph's; `before` has old values of state; `state` is the key of the model's.

    Raises:
        Unsupported: A state changes its shape or dtype.
    """
    if not changes.outputs:
        return result
    made: dict[str, Any] = {RESULT: result}
    for name, number in changes.outputs.items():
        old, new = before[name], jnp.asarray(outputs[number], outputs[number].dtype)
        if (new.dtype, new.shape) != (old.dtype, old.shape):
            raise Unsupported(f"{name} as {new.dtype}{list(new.shape)}")
        key, path = (state, changes.owned[name]) if name in changes.owned else (INPUTS, name)
        made.setdefault(key, {})[path] = new
    return made


def initial_state(model: Model) -> Model:
    """Return a function of no inputs that returns a model's initial state.

    An array of which every element is the same is made where it is asked for, not stored.
    """
    values = {
        each.name.partition("/")[2]: each.initial
        for each in model.inputs
        if each.initial is not None
    }
    stored = {name: array for name, array in values.items() if not _uniform(array)}

    def function(weights: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: weights[name]
            if name in stored
            else jnp.full(array.shape, array.flat[0] if array.size else 0, array.dtype)
            for name, array in values.items()
        }

    narrowed = tuple(
        name.partition("/")[2]
        for name in model.narrowed
        if name.partition("/")[2] in values and "/" in name
    )
    return replace(
        model, function=function, inputs=(), weights=stored, ranges={}, narrowed=narrowed
    )


def _uniform(array: Array) -> bool:
    """Return whether all elements are the same bytes."""
    rows = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return not array.size or bool((rows == rows[0]).all())
