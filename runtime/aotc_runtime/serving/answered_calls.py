"""A call of an entry point that also tells which executable served it, and how."""

from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from aotc_runtime.serving.call_metrics import Answer, Path
from aotc_runtime.serving.loaded_bundle import LoadedEntryPoint
from aotc_runtime.serving.resident_bundle import ResidentProfile


def answer(entry_point: LoadedEntryPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Answer:
    """Return the answer of `entry_point(*args, **kwargs)`, with its errors, for numpy arrays."""
    served = None if kwargs else entry_point._at_once(args)
    if served is not None and served.direct is not None:
        is_exact = isinstance(served.executable, ResidentProfile)
        path = Path.EXACT if is_exact else Path.RANGE
        return Answer(entry_point(*args), path, served.label)
    started = perf_counter_ns()
    return entry_point._checked_calls().answer(args, kwargs, started)


def answer_with_masks(
    entry_point: LoadedEntryPoint, arrays: Sequence[Any], masks: Mapping[int, Any]
) -> Answer:
    """Return the answer of a call whose rows have masks of their own.

    `arrays` are all leaves that a caller passes, in order; `masks` are by leaf.
    """
    started = perf_counter_ns()
    return entry_point._checked_calls().answer_with_masks(arrays, masks, started)
