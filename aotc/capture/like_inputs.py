"""Inputs that are whatever a function of the program returns."""

import inspect
from collections.abc import Callable, Container, Mapping
from typing import Any

import jax

from aotc.base.errors import CaptureError, refusal
from aotc.capture import import_program, jax_trees, user_exceptions
from aotc.capture.weight_sets import check_x64
from aotc.config.build_manifest import BuildManifest, InputLike
from aotc_runtime.base.suggestions import with_article
from aotc_runtime.formats.toml_source import KeyPath

Evaluate = Callable[[Callable[[], Any]], Any]


def like_value(
    spec: InputLike,
    sizes: Mapping[str, int],
    manifest: BuildManifest,
    at: KeyPath,
    *,
    evaluate: Evaluate,
) -> Any:
    """Return the result of a `like` input's function: a pytree of arrays and Python numbers.

    `evaluate` is `shapes` for the structure alone, `operator.call` for the values; `at` is the key
    path of the input. Raises CaptureError for a function that is not found, fails or returns other
    values.
    """
    where = manifest.where(*at)
    function = import_program.resolve(spec.function, manifest.root, where)
    arguments = spec.arguments_at(sizes)

    def checked() -> Any:
        value = function(**arguments)
        for path, leaf in jax_trees.leaf_paths(value):
            if jax_trees.is_number(leaf):
                continue
            if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
                found = f"{path or 'the result'}: {with_article(type(leaf).__name__)}"
                raise refusal("AOTC-E825", where, found, cause="like-function-returns-a-non-array")
            check_x64(path, leaf.dtype, where)
        return value

    try:
        return evaluate(checked)
    except CaptureError:
        raise
    except (Exception, SystemExit) as error:
        raise refusal(
            "AOTC-E829",
            where,
            user_exceptions.describe(error, manifest.root),
            cause="like-function-raised-an-exception",
            hint=_what_it_takes(spec, function, manifest)
            or user_exceptions.hint(error, "-v shows the traceback; so does calling it by hand"),
        ) from error


def missing(function: Callable[..., Any], stated: Container[str]) -> list[str]:
    """Return the names that a function has to be called with, but for those that are stated."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for name, parameter in parameters.items()
        if parameter.kind in named and parameter.default is parameter.empty and name not in stated
    ]


def _what_it_takes(
    spec: InputLike, function: Callable[..., Any], manifest: BuildManifest
) -> str | None:
    """Return a hint on parameters that the manifest does not state; None if it states all."""
    names = missing(function, spec.arguments)
    if not names:
        return None
    sizes = ", ".join(f'{n} = "{n}"' if n in manifest.dimensions else f"{n} = …" for n in names)
    return (
        f"state what it takes: arguments = {{ {sizes} }}; a text is a dimension, passed as its size"
    )


def shapes(function: Callable[[], Any]) -> Any:
    """Return a pytree of avals by tracing the function, without making large arrays.

    A function that cannot be traced, as it reads values or calls numpy, is called.
    """
    try:
        made = jax.eval_shape(function)
    except (Exception, SystemExit) as error:
        if isinstance(error, CaptureError):
            raise
        made = function()
    return jax.tree.map(jax_trees.abstract, made)
