"""What of Python can be called and is still no entry point, or not as it is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from aotc.base.errors import finding
from aotc_runtime.base.errors import Finding

TAKES_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unsuited(reference: str, function: Callable[..., Any], module: Any) -> Iterator[Finding]:
    """AOTC-E085 for a class, a method that was looked up on its class, a generator, a coroutine.

    module: in which the function was looked up.
    """
    name = reference.partition(":")[2]
    owner, _, method = name.rpartition(".")
    if inspect.isclass(function):
        yield _finding(
            reference,
            f"the class {function.__name__}, which makes an object when it is called",
            "name an object that can be called, or a method of one: "
            f"model = {function.__name__}(...) beside it, and {_beside(reference, 'model')}",
        )
    elif owner and _is_unbound(_attribute(module, owner), method):
        yield _finding(
            reference,
            f"a method, of which nobody says whose: {owner} is a class",
            f"name it on an object: model = {owner}(...) beside it, and "
            f"{_beside(reference, f'model.{method}')}",
        )
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        hint = "return the arrays together: a tuple, or stacked by jax.lax.scan"
        yield _finding(reference, "a generator: it yields", hint)
    elif inspect.iscoroutinefunction(function):
        yield _finding(reference, "a coroutine: `async def`", "write it as a plain `def`")


def nameless(reference: str, signature: inspect.Signature) -> Iterator[Finding]:
    """AOTC-E085 for a function all of whose arguments would land in *args or **kwargs."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if kinds and all(kind in TAKES_ANY for kind in kinds):
        hint = "wrap it, with a name for each argument: def f(x, y): return ..."
        yield _finding(reference, f"{reference.partition(':')[2]}{signature}", hint)


def takes_any(signature: inspect.Signature) -> list[str]:
    """ "*args" and "**kwargs", as the function calls them."""
    return [str(p) for p in signature.parameters.values() if p.kind in TAKES_ANY]


def _is_unbound(owner: Any, method: str) -> bool:
    return inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, method))


def _attribute(owner: Any, path: str) -> Any:
    for step in path.split("."):
        owner = getattr(owner, step)
    return owner


def _beside(reference: str, name: str) -> str:
    return f"{reference.partition(':')[0]}:{name}"


def _finding(reference: str, found: str, hint: str) -> Finding:
    return finding("AOTC-E085", reference, found, hint=hint)
