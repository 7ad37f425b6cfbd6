"""Tensors that share memory: what a write in place changes besides the tensor that is written.

Programs that are not decomposed write in place. Values of jax do not change, so a write makes a new
value for the tensor that owns the memory, and whatever else lies in it is made anew from that when
it is read next. Where it depends on how values lie whether two tensors share memory, a write
between them is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aotc.frontends.pytorch.operators.torch_operator_table import Memory
from aotc.frontends.pytorch.torch_plan import Plan, Step, refs, used_by
from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc.frontends.pytorch.torch_symbols import contiguous, same_strides

DECOMPOSE = "export what `program.run_decompositions()` returns: it writes nothing in place"

IDENTITIES = {
    "aten.detach_", "aten.dropout_", "aten.feature_dropout_", "aten.alpha_dropout_",
    "aten.feature_alpha_dropout_",
}  # fmt: skip
"""Operators that change neither values nor shapes of what they are said to write."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A tensor is what a step, taking the tensor `parent`, returns at a place.

    Of a step in place it is the parent itself, which no such step has made.
    """

    parent: str
    step: Step
    place: int | None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Memory that tensors share.

    `owner` has the owner of each tensor's memory, `origins` the origin of those that own none;
    `written` are owners whose memory is written.
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
    """Return whether a step returns its argument unchanged."""
    return step.target.rpartition(".")[0] in IDENTITIES


def sharing(plan: Plan, outside: Mapping[str, str]) -> tuple[Sharing, list[Refused]]:
    """outside: what each input of the plan is that must not be written, for messages."""
    found = _Finding(_last_uses(plan))
    for name in refs(plan.inputs):
        found.own(name, name)
    written: set[str] = set()
    refused: list[Refused] = []
    for number, step in enumerate(plan.steps):
        if step.in_place is not None:
            name, base = step.first, found.owner[step.first]
            if not is_identity(step):
                written.add(base)
                reason = found.why_refused(name, base, outside, number)
                if reason is not None:
                    refused.append(Refused(step, *reason))
            for made in refs(step.outputs):
                if made not in found.owner:
                    found.derive(made, name, step, None)
            continue
        memory = _memory(step, plan.tensors)
        if memory in (Memory.VIEW, Memory.OVERLAP):
            for place, made in _places(step):
                found.derive(made, step.first, step, place)
            continue
        for made in refs(step.outputs):
            found.own(made, made)
            if memory is Memory.PERHAPS:
                for source in used_by(step):
                    found.entangle(made, found.owner.get(source, source))
    return Sharing(found.owner, found.origins, frozenset(written)), refused


class _Finding:
    """Facts about the tensors computed so far; `later` has the last step that uses each.

    `owner` and `origins` are as in `Sharing`.
    """

    def __init__(self, later: Mapping[str, int]) -> None:
        self._later = later
        self.owner: dict[str, str] = {}
        self.origins: dict[str, Origin] = {}
        # By owner: the last step that uses any tensor in its memory, and who may have the same.
        self._latest: dict[str, int] = {}
        self._entangled: dict[str, set[str]] = {}
        # Of tensors whose elements share memory, the operator that made it so.
        self._overlapping: dict[str, str] = {}

    def own(self, made: str, owner: str) -> None:
        """Note whose memory a tensor has."""
        self.owner[made] = owner
        self._latest[owner] = max(self._latest.get(owner, -1), self._later.get(made, -1))

    def derive(self, made: str, parent: str, step: Step, place: int | None) -> None:
        """Note that a tensor lies in the memory of another one."""
        origin = self.origins.get(parent)
        if step.in_place is not None and origin is not None and origin.step.in_place is not None:
            parent = origin.parent
        self.own(made, self.owner[parent])
        self.origins[made] = Origin(parent, step, place)
        if step.operator is not None and step.operator.memory is Memory.OVERLAP:
            self._overlapping[made] = step.target
        elif parent in self._overlapping:
            self._overlapping[made] = self._overlapping[parent]

    def entangle(self, made: str, owner: str) -> None:
        """Note that two may share memory."""
        self._entangled.setdefault(owner, set()).add(made)
        self._entangled.setdefault(made, set()).add(owner)

    def why_refused(
        self, name: str, base: str, outside: Mapping[str, str], number: int
    ) -> tuple[str, str] | None:
        """Return why a tensor cannot be written by a step, and what to do instead."""
        if base in outside:
            return (
                f"{outside[base]} is changed in place",
                "call model.eval(), or return the new value as a result and pass it to the next "
                "call",
            )
        if name in self._overlapping:
            target = self._overlapping[name]
            return f"a write into what {target} made, whose elements share memory", DECOMPOSE
        if any(self._latest.get(other, -1) > number for other in self._entangled.get(base, ())):
            return "a write into memory that another tensor may or may not share", DECOMPOSE
        return None


def _places(step: Step) -> Iterator[tuple[int | None, str]]:
    outputs = step.outputs
    if len(outputs) == 1 and isinstance(outputs[0], tuple):
        yield from enumerate(refs(outputs[0]))
    elif len(outputs) == 1:
        yield from ((None, name) for name in refs(outputs))
    else:
        yield from ((place, name) for place, output in enumerate(outputs) for name in refs(output))


def _last_uses(plan: Plan) -> dict[str, int]:
    """Return the last step that uses each value; results and arguments are used at the end."""
    last = {name: number for number, step in enumerate(plan.steps) for name in used_by(step)}
    return last | dict.fromkeys(refs((*plan.outputs, *plan.inputs)), len(plan.steps))


def _memory(step: Step, tensors: Mapping[str, TensorMeta]) -> Memory:
    """Return the memory that the results of a step share with its first argument."""
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
