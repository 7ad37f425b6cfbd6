"""The child's side of processes that run the user's code."""

import faulthandler
import importlib
import io
import sys
from collections.abc import Callable
from functools import wraps

from aotc_runtime.base.errors import AotcError


def begin_as_if_alone() -> None:
    """Reset state that a forked process inherits.

    These are seeds of random numbers, and caches of folders that have new files since.
    """
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed()
    importlib.invalidate_caches()


def runs_users_code[**P, R](work: Callable[P, R]) -> Callable[P, R]:
    """Decorate the work of a child process, to print the place of a crash for the parent.

    The user's own traceback is printed after an error, too.
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
