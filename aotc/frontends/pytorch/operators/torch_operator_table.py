"""Operators, and the tables that hold a family of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any

type Arguments = Mapping[str, Any]
"""An operator's arguments by the names of torch's schema: numbers and texts as they are, tensors as
`TensorMeta`, what is only known while tracing as None."""

type Refuse = Callable[[Arguments], str | None]


class Memory(Enum):
    """Memory that a result shares with the first argument.

    FRESH: nothing.  VIEW: its memory, a write into one is seen in the other.  PERHAPS: either,
    which depends on how the argument lies in memory.  OVERLAP: the same element several times.
    """

    FRESH = "fresh"
    VIEW = "view"
    PERHAPS = "perhaps"
    OVERLAP = "overlap"


@dataclass(frozen=True, slots=True)
class Operator:
    """The implementation of an operator.

    `function` takes arrays and numbers by the names of torch's schema. `refuse` returns why it
    cannot handle the arguments, or None. With `narrow`, its results may have fewer bits than torch
    records, without loss.
    """

    function: Callable[..., Any]
    memory: Memory = Memory.FRESH
    refuse: Refuse | None = None
    narrow: bool = False


class Family:
    """Operators by name ("aten.add.Tensor"), put there by decorators."""

    def __init__(self, namespace: str = "aten") -> None:
        self._namespace = namespace
        self._operators: dict[str, Operator] = {}

    def __iter__(self) -> Iterator[tuple[str, Operator]]:
        return iter(self._operators.items())

    def __call__[F: Callable[..., Any]](
        self,
        *names: str,
        memory: Memory = Memory.FRESH,
        refuse: Refuse | None = None,
        narrow: bool = False,
    ) -> Callable[[F], F]:
        """Register the decorated function for these operators of the namespace.

        A name without an overload means "default". Those that are named copies share no memory.
        """

        def put(function: F) -> F:
            for name in names:
                full = f"{self._namespace}.{name}" + ("" if "." in name else ".default")
                assert full not in self._operators, full
                copies = name.partition(".")[0].endswith("_copy")
                shares = Memory.FRESH if copies else memory
                self._operators[full] = Operator(function, shares, refuse, narrow)
            return function

        return put

    def table(
        self, functions: Mapping[str, Callable[..., Any]], memory: Memory = Memory.FRESH
    ) -> None:
        """Put functions in, each by its names with spaces between them."""
        for names, function in functions.items():
            self(*names.split(), memory=memory)(function)


def first(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """Return the function that gives the first of another one's results."""

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)[0]

    return run
