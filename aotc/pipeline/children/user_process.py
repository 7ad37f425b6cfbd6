"""The child's side of processes that run the user's code."""

from __future__ import annotations

import faulthandler
import importlib
import io
import sys
from collections.abc import Callable
from functools import wraps

from aotc_runtime.base.errors import AotcError


def begin_as_if_alone() -> None:
    """In a process that was forked: nobody may find what another process would not, the same
    numbers by chance, and a folder without what has been put there since.
    """
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed()
    importlib.invalidate_caches()


def runs_users_code[**P, R](work: Callable[P, R]) -> Callable[P, R]:
    """Decorates the work of a child process: the place of a crash is printed for the parent, and
    so is the user's own traceback behind a refusal.
    """

    @wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A crash must not take with it what was printed before.
            sys.stdout.reconfigure(line_buffering=True)
        faulthandler.enable(all_threads=False)
        try:
            return work(*args, **kwargs)
        except AotcError as error:
            from aotc.capture import user_exceptions

            user_exceptions.show_cause(error)
            raise

    return wrapped
