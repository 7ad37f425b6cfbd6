"""Entry points of installed distributions, by which optional parts and plug-ins are found."""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any

from aotc.base.errors import refusal
from aotc_runtime.base.errors import AotcError


@cache
def find_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name.

    Raises UsageError (AOTC-E033) for a name that two distributions register.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group)):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            where, both = f"entry point {point.name} of {group}", f"{other.value} and {point.value}"
            raise refusal("AOTC-E033", where, both, cause="entry-point-is-registered-twice")
    return found


def load(point: EntryPoint) -> Any:
    """Import what an entry point names.

    Raises UsageError (AOTC-E033) if its distribution has no such module or name, as after an update
    of sources without another installation; ImportError if a module of others is missing.
    """
    try:
        module = import_module(point.module)
    except ModuleNotFoundError as error:
        if error.name and f"{point.module}.".startswith(f"{error.name}."):
            raise stale(point.group, point.name, point) from error
        raise
    try:
        return attrgetter(point.attr)(module)
    except AttributeError as error:
        raise stale(point.group, point.name, point) from error


def stale(group: str, name: str, point: EntryPoint | None = None) -> AotcError:
    """Return AOTC-E033 for an entry point that is missing (of aotc itself), or names nothing."""
    found = point.value if point is not None else "none of this name"
    of = point.dist.name if point is not None and point.dist is not None else "aotc"
    return refusal("AOTC-E033", f"entry point {name} of {group}, by {of}", found, distribution=of)
