"""Result types for registered classes and named tuples, which are not imported here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Self


class Record:
    """A result node of a registered class, such as an Equinox module or a dataclass.

    Fields are attributes and items; iterating gives their names. A record may be passed as an
    argument in place of the original class.
    """

    __slots__ = ("_fields", "_type")

    def __init__(self, type_: str, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_type", type_)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if name not in fields:
            kind = object.__getattribute__(self, "_type")
            raise AttributeError(f"{kind} has {', '.join(fields)}, not {name}")
        return fields[name]

    def __getitem__(self, name: str | int) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if str(name) not in fields:
            kind = object.__getattribute__(self, "_type")
            raise KeyError(f"{kind} has {', '.join(fields)}, not {name}")
        return fields[str(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(object.__getattribute__(self, "_fields"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Record cannot be changed")

    def __repr__(self) -> str:
        fields = object.__getattribute__(self, "_fields")
        inside = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        return f"{object.__getattribute__(self, '_type')}({inside})"


class NamedTuple(tuple[Any, ...]):
    """A result that was a named tuple: fields by name, in order, and what `typing.NamedTuple` has.

    `collections.namedtuple` would make the class by running source text with the bundle's names.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, /, *values: Any, **named: Any) -> Self:
        """Make a record from values in order, by name, or both. Raises TypeError."""
        left = cls._fields[len(values) :]
        if len(values) > len(cls._fields) or named.keys() != set(left):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}, each once")
        return cls._make((*values, *(named[name] for name in left)))

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        return tuple.__new__(cls, values)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, /, **changed: Any) -> Self:
        return type(self)(**{**self._asdict(), **changed})

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({inside})"


def named_tuple(name: str, fields: tuple[str, ...]) -> type[NamedTuple]:
    """Return a class of named tuples; names are what `verification.consistency` lets through."""
    getters = {field: property(itemgetter(place)) for place, field in enumerate(fields)}
    return type(name, (NamedTuple,), {"__slots__": (), "_fields": fields, **getters})


def tuple_maker(name: str, fields: tuple[str, ...]) -> Callable[[list[Any]], Any]:
    """Return a function that makes a named tuple of its children."""
    return named_tuple(name, fields)._make


def record_maker(type_: str, fields: tuple[str, ...]) -> Callable[[list[Any]], Any]:
    """Return a function that makes a record of its children."""
    return lambda children: Record(type_, dict(zip(fields, children, strict=True)))
