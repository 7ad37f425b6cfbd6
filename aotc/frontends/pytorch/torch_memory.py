"""Which tensors share memory: what a write in place changes besides the tensor that is written.

Programs that are not decomposed write in place. Values of jax do not change, so a write makes a new
value for the tensor that owns the memory, and whatever else lies in it is made anew from that when
it is read next. Where it depends on how values lie whether two tensors share memory, a write
between them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aotc.frontends.pytorch.operators.torch_operator_table import Memory
from aotc.frontends.pytorch.torch_plan import Plan, Step, refs, used
from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc.frontends.pytorch.torch_strides import contiguous, same_strides

DECOMPOSE = "export what `program.run_decompositions()` returns: it writes nothing in place"

IDENTITIES = {
    "aten.detach_", "aten.dropout_", "aten.feature_dropout_", "aten.alpha_dropout_",
    "aten.feature_alpha_dropout_",
}  # fmt: skip
"""Operators that change neither values nor shapes of what they are said to write."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A tensor is what a step, taking the tensor `parent`, returns at a place."""

    parent: str
    step: Step
    place: int | None


@dataclass(frozen=True, slots=True)
class Sharing:
    """owner: of each tensor's memory.  origins: of those that own none.  written: owners whose
    memory is written.
    """

    owner: Mapping[str, str]
    origins: Mapping[str, Origin]
    written: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """A step that cannot be had, and why."""

    step: Step
    reason: str
    hint: str


def is_identity(step: Step) -> bool:
    return step.target.rpartition(".")[0] in IDENTITIES


def sharing(plan: Plan, outside: Mapping[str, str]) -> tuple[Sharing, list[Refused]]:
    """outside: what each input of the plan is that must not be written, for messages."""
    owner = {name: name for name in refs(plan.inputs)}
    origins: dict[str, Origin] = {}
    entangled: dict[str, set[str]] = {}
    written: set[str] = set()
    refused: list[Refused] = []
    later = _last_uses(plan)
    for number, step in enumerate(plan.steps):
        if step.in_place is not None:
            name, base = step.first, owner[step.first]
            if not is_identity(step):
                written.add(base)
                reason = _write_refused(
                    name, base, origins, outside, entangled, owner, later, number
                )
                if reason is not None:
                    refused.append(Refused(step, *reason))
            for made in refs(step.outputs):
                if made not in owner:
                    owner[made], origins[made] = base, Origin(name, step, None)
            continue
        memory = _memory(step, plan.tensors)
        if memory in (Memory.VIEW, Memory.OVERLAP):
            for place, made in _places(step):
                owner[made] = owner[step.first]
                origins[made] = Origin(step.first, step, place)
            continue
        for made in refs(step.outputs):
            owner[made] = made
            if memory is Memory.PERHAPS:
                for source in used(step):
                    entangled.setdefault(owner.get(source, source), set()).add(made)
                    entangled.setdefault(made, set()).add(owner.get(source, source))
    return Sharing(owner, origins, frozenset(written)), refused


def _places(step: Step) -> Iterator[tuple[int | None, str]]:
    outputs = step.outputs
    if len(outputs) == 1 and isinstance(outputs[0], tuple):
        yield from enumerate(refs(outputs[0]))
    elif len(outputs) == 1:
        yield from ((None, name) for name in refs(outputs))
    else:
        yield from ((place, name) for place, output in enumerate(outputs) for name in refs(output))


def _last_uses(plan: Plan) -> dict[str, int]:
    """The last step that uses each value; after all, results are used, and what was passed."""
    last = {name: number for number, step in enumerate(plan.steps) for name in used(step)}
    return last | dict.fromkeys(refs((*plan.outputs, *plan.inputs)), len(plan.steps))


def _write_refused(
    name: str,
    base: str,
    origins: Mapping[str, Origin],
    outside: Mapping[str, str],
    entangled: Mapping[str, set[str]],
    owner: Mapping[str, str],
    later: Mapping[str, int],
    number: int,
) -> tuple[str, str] | None:
    if base in outside:
        return (
            f"{outside[base]} is changed in place",
            "call model.eval(), or return the new value as a result and pass it to the next call",
        )
    while name in origins:
        step = origins[name].step
        if step.operator is not None and step.operator.memory is Memory.OVERLAP:
            return f"a write into what {step.target} made, whose elements share memory", DECOMPOSE
        name = origins[name].parent
    others = entangled.get(base, set())
    if any(
        owner[each] in others and last > number for each, last in later.items() if each in owner
    ):
        return "a write into memory that another tensor may or may not share", DECOMPOSE
    return None


def _memory(step: Step, tensors: Mapping[str, TensorMeta]) -> Memory:
    """What the results of a step share with its first argument."""
    if step.target.startswith("higher_order."):
        return Memory.PERHAPS
    if step.operator is None or step.operator.memory is not Memory.PERHAPS:
        return Memory.FRESH if step.operator is None else step.operator.memory
    before, after = tensors.get(step.first), tensors.get(next(refs(step.outputs), ""))
    if before is None or after is None:
        return Memory.PERHAPS
    given = dict(step.inputs)
    packet = step.target.rpartition(".")[0]
    if packet in ("aten.to", "aten.type_as"):
        same = before.dtype == after.dtype and not given.get("copy")
        return Memory.VIEW if same and same_strides(before, after) else Memory.FRESH
    if packet == "aten.view" or contiguous(before):
        return Memory.VIEW
    return Memory.FRESH if packet == "aten.contiguous" else Memory.PERHAPS
