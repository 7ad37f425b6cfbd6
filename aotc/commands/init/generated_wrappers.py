"""Functions with named arguments around what two libraries have instead: the `apply` of flax.linen,
which passes on whatever it gets, and models of Keras, whose `predict` is a loop on the host.

Neither library is imported here: a program that has such an object has done so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.commands.init.python_callables import TAKES_ANY
from aotc.config.field_types import is_identifier

FUNCTION = "predict"
"""What the wrapper is called in its module."""

_HEAD = "# What the build manifest calls: written once by `aotc init`, and yours to change."

_LOOPS = ("predict", "predict_on_batch", "__call__")
"""What a model of Keras has to compute its outputs."""

_PLAIN = (bool, int, float, str, type(None))
"""Types of defaults that can be written down."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """An annotation, as those of jaxtyping describe themselves."""

    dtypes: tuple[str, ...]
    dim_str: str


@dataclass(frozen=True, slots=True)
class Wrapper:
    """source: of a module with FUNCTION.  signature: that of the function.  weights: those of its
    parameters.  returned: those of them that functions of the module return.
    """

    source: str
    signature: inspect.Signature
    weights: tuple[str, ...]
    returned: tuple[str, ...]


def around(reference: str, function: Callable[..., Any]) -> Wrapper | None:
    """A wrapper of what "package.module:function" named, if it is such an object or its method."""
    module, _, attribute = reference.partition(":")
    method = _method(function)
    owner: Any = method.__self__ if method else function
    called = method.__name__ if method else ""
    if _is_a(owner, "flax.linen", "Module") and callable(owner):
        if called == "apply":
            return _of_linen(module, attribute, owner, is_direct=method is function)
        if not called and owner.scope is None:
            return _of_linen(module, f"{attribute}.apply", owner, is_direct=True)
    if _is_a(owner, "keras", "Layer") and owner.built:
        place, _, last = attribute.rpartition(".") if called else (attribute, "", "")
        if place and last == called and (not called or called in _LOOPS):
            return _of_keras(module, place, owner)
    return None


def _method(function: Any) -> Any:
    """The bound method that this is, or that jax.jit and the like were given; None for others."""
    while not inspect.ismethod(function):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return None
    return function


def _is_a(value: Any, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.")
        for base in type(value).__mro__
    )


def _of_linen(module: str, applied: str, owner: Any, *, is_direct: bool) -> Wrapper | None:
    """Around `apply`: with the arguments of the module's `__call__`, but for defaults that cannot
    be written down, or that a transformation such as jax.jit would turn into arrays.
    """
    parameters = list(inspect.signature(type(owner).__call__).parameters.values())[1:]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in TAKES_ANY]
    plain = [p for p in parameters if type(p.default) in _PLAIN and p.kind != p.POSITIONAL_ONLY]
    kept = plain if is_direct else []
    if any(not is_identifier(p.name) or p.name == "variables" for p in (*needed, *kept)):
        return None
    by_name = [
        p.replace(kind=p.POSITIONAL_OR_KEYWORD, annotation=p.empty) for p in (*needed, *kept)
    ]
    variables = inspect.Parameter("variables", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([variables, *by_name])
    positional = [p.name for p in needed if p.kind != p.KEYWORD_ONLY]
    named = [f"{p.name}={p.name}" for p in (*needed, *kept) if p.name not in positional]
    call = f"program.{applied}({', '.join(['variables', *positional, *named])})"
    source = _source(module, [_function(FUNCTION, signature, [f"return {call}"])])
    return Wrapper(source, signature, weights=("variables",), returned=())


def _of_keras(module: str, place: str, model: Any) -> Wrapper:
    """Around `stateless_call`: with an argument for each of the model's inputs."""
    structure = _inputs(model)
    leaves = list(_leaves(structure, "x"))
    names = [name for name, _ in leaves]
    if len({*names, "trainable", "non_trainable"}) < len(names) + 2 or not all(
        map(is_identifier, names)
    ):
        names = [f"x{index}" for index in range(len(names))]
    weights = [kind for kind in ("trainable", "non_trainable") if getattr(model, _variables(kind))]
    given = [kind if kind in weights else "[]" for kind in ("trainable", "non_trainable")]
    inputs = _written(structure, iter(names))
    called = f"program.{place}.stateless_call({', '.join(given)}, {inputs}, training=False)"
    functions = [
        _function(
            kind,
            inspect.Signature(),
            [f"return [variable.value for variable in program.{place}.{_variables(kind)}]"],
        )
        for kind in weights
    ]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    described = zip(names, (_shaped(leaf) for _, leaf in leaves), strict=True)
    signature = inspect.Signature(
        [
            *(inspect.Parameter(name, kind) for name in weights),
            *(inspect.Parameter(name, kind, annotation=shape) for name, shape in described),
        ]
    )
    body = [f"outputs, _ = {called}", "return outputs"]
    source = _source(module, [*functions, _function(FUNCTION, signature, body)])
    return Wrapper(source, signature, tuple(weights), tuple(weights))


def _variables(kind: str) -> str:
    return f"{kind}_variables"


def _inputs(model: Any) -> Any:
    """Tensors without values, in the structure in which the model takes them; None if it does not
    tell.
    """
    try:
        return model.input
    except (AttributeError, ValueError, RuntimeError):  # never called, or called twice
        tensors = getattr(model, "inputs", None) or [None]
        return tensors[0] if len(tensors) == 1 else tensors


def _leaves(structure: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each tensor with a name for it: the key that it has, or its own."""
    if isinstance(structure, dict):
        for key, item in structure.items():
            yield from _leaves(item, str(key))
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _leaves(item, str(getattr(item, "name", "")))
    else:
        yield name, structure


def _written(structure: Any, names: Iterator[str]) -> str:
    """The structure as an expression, with names for its tensors."""
    if isinstance(structure, dict):
        items = [f"{key!r}: {_written(item, names)}" for key, item in structure.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(structure, (list, tuple)):
        return f"[{', '.join(_written(item, names) for item in structure)}]"
    return next(names)


def _shaped(tensor: Any) -> Any:
    """What is known of an input: the first axis without a size is the batch."""
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        return inspect.Parameter.empty
    unknown = ("batch" if axis == 0 else f"size{axis}" for axis in range(len(shape)))
    axes = (name if size is None else str(size) for size, name in zip(shape, unknown, strict=True))
    return Shaped((str(dtype),), " ".join(axes))


def _function(name: str, signature: inspect.Signature, body: Sequence[str]) -> str:
    parameters = [
        parameter.name
        if parameter.default is parameter.empty
        else f"{parameter.name}={parameter.default!r}"
        for parameter in signature.parameters.values()
    ]
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)])


def _source(module: str, functions: Sequence[str]) -> str:
    imports = f"{_HEAD}\n\nimport {module} as program"
    return "\n\n\n".join([imports, *functions]) + "\n"
