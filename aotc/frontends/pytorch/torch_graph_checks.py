"""Search of the whole graph, before it is traced, for what the frontend does not have."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from aotc.base.errors import finding, shorten
from aotc.frontends.pytorch import torch_plan
from aotc.frontends.pytorch.operators import REFUSED
from aotc.frontends.pytorch.operators.torch_operator_table import Memory
from aotc.frontends.pytorch.operators.torch_scalars import FUNCTIONS
from aotc.frontends.pytorch.torch_dtypes import SCALAR_TYPES
from aotc.frontends.pytorch.torch_memory import DECOMPOSE, Refused, is_identity, sharing
from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc_runtime.base.errors import Finding

CONDITION = "higher_order.cond"
LOOP = "higher_order.while_loop"
DECOMPOSED = "export the model with operators of core ATen alone: `program.run_decompositions()`"
OTHERS = "write the model with other operators, or report the missing one"
COMPOSED = (
    "save `program.run_decompositions()`, which may have simpler operators for it; or write the "
    "model with other operators"
)
PAD = "compute it outside of the model, or pad to a fixed size"
FIXED = "call model.eval() before exporting"
SUBCLASS = "export.access_subclass_inner_tensor.default"
UNWRAP = (
    "before exporting, replace them by plain tensors: `torchao.utils.unwrap_tensor_subclass(model)`"
)
EFFECTLESS = "leave out of the model what does more than compute"
X64 = "set enable_x64 in the manifest, or let the model compute with 32 bits"
GRAPHS = 2
"""How many graphs a condition or a loop has."""

WIDE = {8: "float64", 11: "complex128"}


def findings(plan: torch_plan.Plan, where: str, enable_x64: bool) -> list[Finding]:
    """Return a finding for each unsupported operator and reason, with its first line.

    Operators of one line, or with one hint for all of them, share a finding.
    """
    grouped: dict[tuple[str, str, str], list[torch_plan.Step]] = defaultdict(list)
    for refused in _find_refused(plan, {}, enable_x64):
        grouped[refused.step.target, refused.reason, refused.hint].append(refused.step)
    together: dict[tuple[str, str, str], list[torch_plan.Step]] = defaultdict(list)
    for (_, reason, hint), steps in grouped.items():
        at = "" if hint == X64 else steps[0].line or steps[0].name
        together[at, reason, hint] += steps
    return [
        finding("AOTC-E844", _where(where, steps), f"{_targets(steps)}: {reason}", hint=hint)
        for (_, reason, hint), steps in together.items()
    ]


def _targets(steps: list[torch_plan.Step]) -> str:
    return shorten(list(dict.fromkeys(step.target for step in steps)), 4)


def _where(where: str, steps: list[torch_plan.Step]) -> str:
    line = next((step.line for step in steps if step.line), f"node {steps[0].name}")
    times = f" (and {len(steps) - 1} more)" if len(steps) > 1 else ""
    return f"{where}: {line}{times}"


def _find_refused(
    plan: torch_plan.Plan, outside: Mapping[str, str], enable_x64: bool
) -> Iterator[Refused]:
    for step in plan.steps:
        yield from _operator(step, plan.tensors)
        yield from _dtypes(step, plan.tensors, enable_x64)
        for _, value in step.inputs:
            if isinstance(value, torch_plan.Plan):
                inside = dict.fromkeys(torch_plan.refs(value.inputs), "an argument of a branch")
                yield from _find_refused(value, inside, enable_x64)
    yield from sharing(plan, outside)[1]


def _operator(step: torch_plan.Step, tensors: Mapping[str, TensorMeta]) -> Iterator[Refused]:
    if step.target in FUNCTIONS or is_identity(step):
        return
    if step.target in (CONDITION, LOOP):
        if sum(isinstance(value, torch_plan.Plan) for _, value in step.inputs) != GRAPHS:
            yield Refused(step, "without its two graphs", "export the model anew")
        return
    known = step.operator
    others = [value for _, value in step.inputs if isinstance(value, torch_plan.Other)]
    if step.target == torch_plan.EFFECTS:
        named = next(
            (other.text.removeprefix(torch_plan.PREFIX) for other in others), "an operator"
        )
        yield Refused(step, f"the effects of {named!a}"[:200], EFFECTLESS)
        return
    if known is None:
        yield _unknown(step)
        return
    for other in others:
        yield Refused(step, f"an argument of the kind {other.kind}", OTHERS)
    if step.in_place is not None and known.memory is not Memory.FRESH:
        yield Refused(step, "changes the shape of a tensor in place", DECOMPOSE)
    given = {name: _as_seen(value, tensors) for name, value in torch_plan.arguments(step).items()}
    if "sparse" in given and given["sparse"] is True and step.target != "aten.embedding.default":
        yield Refused(step, "a sparse tensor", "use dense tensors")
    reason = known.refuse(given) if known.refuse is not None else None
    if reason is not None:
        yield Refused(step, reason, FIXED if "training" in reason else PAD)
    for name, value in step.inputs:
        if isinstance(value, torch_plan.DTypeNumber) and value.number not in SCALAR_TYPES:
            yield Refused(step, f"{name} is no dtype that numpy has", OTHERS)


def _unknown(step: torch_plan.Step) -> Refused:
    packet = step.target.split(".")
    base = packet[1].rstrip("_") if len(packet) > 1 else step.target
    if step.target.startswith("aten.") and base in REFUSED:
        reason = REFUSED[base]
        return Refused(step, reason, FIXED if "random numbers" in reason else PAD)
    if step.target == "higher_order.wrap_with_autocast":
        return Refused(step, "dtypes that autocast chooses", DECOMPOSED)
    if step.target == "higher_order.scan":
        return Refused(step, "no operator of this frontend", "write the loop with `while_loop`")
    if step.target == SUBCLASS:
        return Refused(step, "a tensor subclass, such as torchao makes of weights", UNWRAP)
    hint = COMPOSED if packet[0] == "aten" else OTHERS
    return Refused(step, "no operator of this frontend", hint)


def _as_seen(value: Any, tensors: Mapping[str, TensorMeta]) -> Any:
    """Return an argument as `Refuse` functions see it."""
    if isinstance(value, torch_plan.Ref):
        return tensors.get(value.name)
    if isinstance(value, tuple):
        return tuple(_as_seen(item, tensors) for item in value)
    return value


def _dtypes(
    step: torch_plan.Step, tensors: Mapping[str, TensorMeta], enable_x64: bool
) -> Iterator[Refused]:
    """Yield the unsupported dtypes that a step makes."""
    narrow = enable_x64 or (step.operator is not None and step.operator.narrow)
    for name in torch_plan.refs(step.outputs):
        dtype = tensors[name].dtype if name in tensors else None
        if dtype is not None and dtype not in SCALAR_TYPES:
            yield Refused(step, "makes a dtype that numpy does not have", OTHERS)
        elif dtype in WIDE and not narrow:
            yield Refused(step, f"makes {WIDE[dtype]}, and 64-bit types are off", X64)
