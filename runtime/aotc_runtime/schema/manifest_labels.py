"""Values derived from a manifest.

They are the names of its parts in errors, reports and counters, and the parameters that a caller
passes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from aotc_runtime.schema.bundle_manifest import EntryPoint, Parameter, ParameterKind
from aotc_runtime.schema.pytrees import builder, leaves


def sizes_text(sizes: Mapping[str, int]) -> str:
    """batch=8,seq=16; empty for a profile without dimensions."""
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def label(entry_point: str, sizes: Mapping[str, int]) -> str:
    """predict[batch=8]."""
    inside = sizes_text(sizes)
    return f"{entry_point}[{inside}]" if inside else entry_point


class ExecutableKey(Struct, frozen=True, order=True):
    """The key of an executable in its target.

    It has the entry point, and the size of each dimension, sorted by dimension.
    """

    entry_point: str
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        """predict[batch=8]."""
        return label(self.entry_point, dict(self.sizes))


def executable_key(entry_point: str, sizes: Mapping[str, int]) -> ExecutableKey:
    """Return the key of an entry point's executable for these sizes."""
    return ExecutableKey(entry_point, tuple(sorted(sizes.items())))


def passed_parameters(spec: EntryPoint) -> tuple[Parameter, ...]:
    """Return the caller's parameters, without the loader's masks and lengths."""
    if not spec.out_of_profile:
        return spec.parameters
    from aotc_runtime.schema.fallback_policies import masks_and_lengths

    by_loader = masks_and_lengths(spec)
    return tuple(parameter for parameter in spec.parameters if parameter.name not in by_loader)


def passed_leaves(spec: EntryPoint) -> list[int]:
    """Return the input leaves that a caller passes."""
    return [leaf for parameter in passed_parameters(spec) for leaf in leaves(parameter.tree)]


def positional_count(parameters: Sequence[Parameter]) -> int:
    """Return the number of parameters that can be passed by position."""
    return sum(p.kind is not ParameterKind.KEYWORD_ONLY for p in parameters)


def arguments_of(
    parameters: Sequence[Parameter], leaves: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments, by position and by name, whose leaves these are."""
    values = {parameter.name: builder(parameter.tree)(leaves) for parameter in parameters}
    positional = [
        values.pop(parameter.name)
        for parameter in parameters
        if parameter.kind is not ParameterKind.KEYWORD_ONLY
    ]
    return positional, values
