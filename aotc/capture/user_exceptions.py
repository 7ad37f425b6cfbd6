"""Exceptions of the user's code: as one line for a finding, as a short traceback for `-v`."""

import os
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import jaxlib

import aotc
from aotc.capture import project_files
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.rendering import warn

_NOT_THE_USERS = tuple(Path(module.__path__[0]) for module in (aotc, jax, jaxlib))
_JAX_SAYS_SO = "JAX has removed its internal frames"


def place(file: str, line: int | None, root: Path) -> str:
    """Return a location relative to the manifest's or the module's import folder: "model.py:12"."""
    path = Path(file)
    folders = [root, *(Path(folder) for folder in sys.path if folder)]
    inside = next((path.relative_to(f) for f in folders if path.is_relative_to(f)), path)
    return f"{inside}:{line}"


def user_place(error: BaseException, root: Path) -> tuple[str, str] | None:
    """Return the innermost user line of an exception or its causes, and its function's name.

    Lines in the manifest's folder ("model.py:12") come before those in no package, and these before
    others; lines of jax never count.
    """
    every = [
        (frame.f_code, line)
        for each in _causes(error)
        for frame, line in [*traceback.walk_tb(each.__traceback__)][::-1]
        if is_users(file := frame.f_code.co_filename)
        and not project_files.is_of_python_or_ours(file)
    ]
    if not every:
        return None
    code, line = min(every, key=lambda found: distance(found[0].co_filename, root))
    return place(code.co_filename, line, root), code.co_qualname


def user_line(error: BaseException, root: Path) -> str | None:
    """Return the line of `user_place`."""
    return next(iter(user_place(error, root) or ()), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that led to it.

    jax raises while it lowers, after the program ran; the trace of the operation is then a cause.
    """
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        yield cause
        cause = cause.__cause__ or cause.__context__


def distance(file: str, root: Path) -> int:
    """Return 0 for code below the manifest's folder, 1 elsewhere, 2 in an installed package."""
    if not project_files.is_own(file, root):
        return 2
    return 0 if Path(file).is_relative_to(root) else 1


def describe(error: BaseException, root: Path) -> str:
    """Describe an exception in one line: type, first line of its message, and `user_line`.

    For a syntax error it is the line that Python could not read.
    """
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        at = place(error.filename, error.lineno, root)
        return f"{type(error).__name__}: {error.msg} at {at}"
    line = user_line(error, root)
    said = f": {message}" if (message := _first_line(error)) else ""
    return f"{type(error).__name__}{said}{f' at {line}' if line else ''}"


def _first_line(error: BaseException) -> str:
    """Return the first line of an exception's text; "" if it has none, or raises."""
    try:
        return next(iter(str(error).strip().splitlines()), "")
    except Exception:  # noqa: BLE001 - the user's code
        return ""


def hint(error: BaseException, otherwise: str) -> str:
    """Return a hint for an exception's type, or `otherwise`."""
    name = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(name, str) and not os.path.isabs(name):  # noqa: PTH117
        return (
            f"a program's relative paths start at the current folder, {Path.cwd()}: take them from "
            "Path(__file__)"
        )
    return otherwise


def show_cause(refused: AotcError) -> None:
    """Print the user's own traceback behind a refusal to stderr, if there is one.

    It has the causes, without the frames of aotc and jax.
    """
    if refused.__cause__ is None or isinstance(refused.__cause__, AotcError):
        return
    report = traceback.TracebackException.from_exception(refused.__cause__)
    for part in _chain(report):
        kept = [frame for frame in part.stack if is_users(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        notes: list[str] = getattr(part, "__notes__", None) or []
        part.__notes__ = [note for note in notes if _JAX_SAYS_SO not in note]
    warn(*"".join(report.format()).splitlines())


@cache
def is_users(file: str) -> bool:
    """Return whether code in a file is neither ours, nor jax's, nor Python's import machinery."""
    is_frozen = file.startswith("<frozen")
    return not is_frozen and not any(Path(file).is_relative_to(own) for own in _NOT_THE_USERS)


def _chain(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    yield report
    for inner in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if inner is not None:
            yield from _chain(inner)
