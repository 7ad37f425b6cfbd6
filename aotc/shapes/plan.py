"""Which calls are tried: several sizes below each profile, with every kind of fill; and the sums of
profiles that a larger call is split into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from aotc.config.build_manifest import (
    DimensionSpec,
    EntryPointSpec,
    PadSpec,
    SplitSpec,
    at_once,
)
from aotc.config.dimensions import Accepted
from aotc.shapes.fills import is_float
from aotc.shapes.trials import (
    ABOUT_FLOATS,
    ABOUT_NUMBERS,
    DECLARED,
    EntryTrials,
    PlannedTrial,
    Sizes,
)
from aotc.stages import CapturedEntryPoint
from aotc_runtime.schema.expressions import parse_expression, parse_relation
from aotc_runtime.schema.manifest import DType

MANY_PROFILES = 6
"""With more of them, each is tried with its smallest and its largest padding only."""


def plan_trials(
    captured: CapturedEntryPoint,
    spec: EntryPointSpec,
    dimensions: Mapping[str, DimensionSpec],
    profiles: Sequence[Mapping[str, int]],
) -> EntryTrials:
    """The trials of an entry point. profiles: those of one target."""
    policies = {name: at_once(policy) for name, policy in spec.out_of_profile.items()}
    pads = {name: p for name, p in policies.items() if isinstance(p, PadSpec)}
    leaf_of = {tensor.path: index for index, tensor in enumerate(captured.inputs)}
    fills = {
        leaf_of[path]: repr(value)
        for pad in pads.values()
        for path, value in pad.fill.items()
        if path in leaf_of
    }
    masks: dict[int, tuple[str, ...]] = {}
    for name, pad in pads.items():
        if pad.mask:
            leaf = leaf_of[pad.mask]
            masks[leaf] = (*masks.get(leaf, ()), name)
    entry = EntryTrials(
        entry_point=captured.name,
        rtol=spec.rtol,
        atol=spec.atol,
        fills=fills,
        held=tuple(leaf for leaf in sorted(fills) if captured.inputs[leaf].dtype is DType.BOOL),
        masks=masks,
        lengths={leaf_of[pad.length]: name for name, pad in pads.items() if pad.length},
        trials=(),
    )
    relations = [parse_relation(text) for text in spec.relations]
    accepted = {name: known.accepted for name, known in dimensions.items()}
    points = [dict(sizes) for sizes in profiles]
    planned = [
        *_padded(captured, entry, points, sorted(pads), accepted),
        *(
            trial
            for name, policy in policies.items()
            if isinstance(policy, SplitSpec)
            for trial in _split(points, name, accepted[name])
        ),
    ]
    allowed = [t for t in planned if all(relation.holds(t.sizes) for relation in relations)]
    return replace(entry, trials=tuple(allowed))


def _padded(
    captured: CapturedEntryPoint,
    entry: EntryTrials,
    profiles: Sequence[Sizes],
    pads: Sequence[str],
    accepted: Mapping[str, Accepted],
) -> Iterator[PlannedTrial]:
    is_many = len(profiles) > MANY_PROFILES
    for profile in profiles:
        lowest: Sizes = {}
        for name in pads:
            sizes = _sizes_below(profile, name, profiles, accepted[name], is_many)
            if sizes:
                lowest[name] = sizes[0]
            for size in sizes:
                for fill in _fills(captured, entry, (name,)):
                    yield PlannedTrial((name,), {**profile, name: size}, (profile,), fill)
        if len(lowest) > 1:
            for fill in _fills(captured, entry, tuple(lowest)):
                yield PlannedTrial(tuple(lowest), {**profile, **lowest}, (profile,), fill)


def _sizes_below(
    profile: Sizes, name: str, profiles: Sequence[Sizes], accepted: Accepted, is_many: bool
) -> list[int]:
    """Accepted sizes that are padded to this profile: the first, one in the middle, the last."""
    alike = [p[name] for p in profiles if {**p, name: 0} == {**profile, name: 0}]
    below = max((size for size in alike if size < profile[name]), default=0)
    step = accepted.multiple_of
    low = max(accepted.smallest, (below // step + 1) * step)
    high = profile[name] - step
    if low > high:
        return []
    middle = (low + high) // 2 // step * step
    return sorted({low, high} if is_many else {low, max(low, middle), high})


def _fills(
    captured: CapturedEntryPoint, entry: EntryTrials, dimensions: Sequence[str]
) -> Sequence[str]:
    """The kinds of fill that make a difference to some input."""
    given = {*entry.held, *entry.masks, *entry.lengths}
    dtypes = [
        tensor.dtype
        for leaf, tensor in enumerate(captured.inputs)
        if leaf not in given
        and any(not parse_expression(a).names().isdisjoint(dimensions) for a in tensor.shape)
    ]
    if not dtypes:
        return (DECLARED,)
    floats = ABOUT_FLOATS if any(map(is_float, dtypes)) else ()
    return (DECLARED, *floats, *ABOUT_NUMBERS)


def _split(profiles: Sequence[Sizes], name: str, accepted: Accepted) -> Iterator[PlannedTrial]:
    """Twice the same profile, and a profile with the next smaller one."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for profile in profiles:
        others = tuple((key, size) for key, size in profile.items() if key != name)
        groups.setdefault(others, []).append(profile[name])
    for others, sizes in groups.items():
        pairs = [(size, size) for size in sizes] + [(b, a) for a, b in pairwise(sorted(sizes))]
        for parts in pairs:
            if sum(parts) in accepted:
                rest = dict(others)
                yield PlannedTrial(
                    dimensions=(name,),
                    sizes=dict(sorted({**rest, name: sum(parts)}.items())),
                    profiles=tuple(dict(sorted({**rest, name: part}.items())) for part in parts),
                    fill="",
                )
