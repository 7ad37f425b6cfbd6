"""Imports the functions that manifests name as "package.module:function"."""

import importlib
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aotc.base.errors import refusal
from aotc.capture import jax_private, user_exceptions
from aotc_runtime.base.suggestions import did_you_mean, with_article

type Resolve = Callable[[str, Path, str], Callable[..., Any]]
"""Finds a function by its text, the manifest's folder and a location for messages."""


def resolve(reference: str, root: Path, where: str) -> Callable[..., Any]:
    """Return the function that "package.module:function" names.

    Modules are imported from `root`, the manifest's folder, first; `where` is for messages. If the
    module sets `XLA_FLAGS`, that comes too late in every process. Raises CaptureError (AOTC-E820).
    """
    jax_private.read_xla_flags()
    module_name, _, attribute = reference.partition(":")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        own = module_name == missing or module_name.startswith(missing + ".")
        line = None if own else user_exceptions.user_line(error, root)
        found = f"{missing}, imported at {line}" if line else missing
        if own:
            hint, cause = _where_else(module_name, root), "module-not-found"
            raise refusal("AOTC-E820", where, found, cause=cause, hint=hint) from error
        hint = _backend_of_keras(error) or (
            f"install {missing} in the environment that runs `aotc build`"
        )
        cause = "dependency-is-not-installed"
        raise refusal("AOTC-E820", where, found, cause=cause, hint=hint) from error
    except (Exception, SystemExit) as error:
        hint = f"run with `-v`, or `python -c 'import {module_name}'` in the manifest's directory"
        hint = user_exceptions.hint(error, hint)
        found, cause = user_exceptions.describe(error, root), "module-failed-to-import"
        raise refusal("AOTC-E820", where, found, cause=cause, hint=hint) from error
    own_file = root / (module_name.partition(".")[0] + ".py")
    file = getattr(sys.modules[module_name.partition(".")[0]], "__file__", None)
    if own_file.exists() and (file is None or Path(file) != own_file):
        cause, found = "module-name-is-already-taken", file or f"Python's own {module_name}"
        raise refusal("AOTC-E820", where, found, cause=cause, expected=own_file.name)
    target: Any = module
    for step in attribute.split("."):
        if not hasattr(target, step):
            public = sorted(
                name
                for name, value in vars(module).items()
                if callable(value) and not name.startswith("_")
                if getattr(value, "__module__", None) == module_name
            )
            expected = f"one of: {', '.join(public)}" if public else ""
            hint = did_you_mean(attribute, public, "correct the name after the colon")
            raise refusal("AOTC-E820", where, attribute, expected=expected, hint=hint)
        target = getattr(target, step)
    if not callable(target):
        found = with_article(type(target).__name__)
        raise refusal("AOTC-E820", where, found, cause="name-is-not-a-function")
    return target  # type: ignore[no-any-return]


KERAS_BACKENDS = ("tensorflow", "torch", "openvino")
"""Packages that Keras imports besides jax, by default (KERAS_BACKEND) the first one."""


def _backend_of_keras(error: ModuleNotFoundError) -> str | None:
    """Return a hint if Keras did not find its backend; None for other errors."""
    packages = {
        str(frame.f_globals.get("__name__")).partition(".")[0]
        for frame, _ in traceback.walk_tb(error.__traceback__)
    }
    if "keras" not in packages or (error.name or "").partition(".")[0] not in KERAS_BACKENDS:
        return None
    return (
        "set KERAS_BACKEND=jax in the environment of the build: by default, Keras computes with "
        "tensorflow"
    )


ABOVE_MAX = 3
"""Folders that are looked through for a module that was not found: the manifest's, and above."""


def _where_else(module_name: str, root: Path) -> str:
    """Return a hint for a missing module, with its folder if it is in a likely one.

    Likely are `src` beside the manifest and above it.
    """
    path = module_name.replace(".", "/")
    above = (root, *root.parents)[:ABOVE_MAX]
    for folder in (each for parent in above for each in (parent / "src", parent)):
        if (folder / f"{path}.py").is_file() or (folder / path / "__init__.py").is_file():
            found = shlex.quote(os.path.relpath(folder))
            return f"it is in {found}: set PYTHONPATH={found}, or install the package"
    beside = [each.name.removesuffix(".py") for each in root.iterdir() if not each.is_file()]
    beside += [each.stem for each in root.glob("*.py")]
    return did_you_mean(
        module_name.partition(".")[0] if not (root / path.partition("/")[0]).is_dir() else None,
        beside,
        f"create {path}.py beside the manifest, set PYTHONPATH to its folder, or install it",
    )


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def text_of(value: Any) -> str:
    """Return a default value as reproducible text for the bundle manifest, without addresses."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(text_of(item) for item in value)
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"{getattr(value, '__module__', None) or '?'}.{name}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"
