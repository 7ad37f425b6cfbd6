"""Environment variables of child processes."""

import os
from collections.abc import Mapping

PINNED = {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}
"""Variables that are set for every process that runs the user's code."""

STEERING = ("JAX_", "XLA_", "TF_", "PJRT_", "LIBTPU_", "NPROC")
"""Prefixes of variables that steer jax and XLA; only the toolchain sets them."""

_UNASKED = frozenset(
    {
        "PYTHONDUMPREFS",
        "PYTHONDUMPREFSFILE",
        "PYTHONINSPECT",
        "PYTHONIOENCODING",
        "PYTHONMALLOCSTATS",
        "PYTHONPROFILEIMPORTTIME",
        "PYTHONSTARTUP",
        "PYTHONTRACEMALLOC",
        "PYTHONVERBOSE",
    }
)
"""With these an interpreter prints unexpected output, changes its encoding, or stays interactive at
its end (https://docs.python.org/3/using/cmdline.html#environment-variables).
"""


SECRET = ("AOTC_KEY_PASSPHRASE", "AOTC_PKCS11_PIN")
"""Variables that open keys. No child signs."""


def inherit(*, without: tuple[str, ...]) -> dict[str, str]:
    """Return this process's variables for a Python child that returns a result.

    `without` lists prefixes of variables to leave out.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNASKED and name not in SECRET and not name.startswith(without)
    }
    return kept | _python_path()


def _python_path() -> dict[str, str]:
    """Return the folders of imports, made absolute: a child may run in another folder."""
    if not (stated := os.environ.get("PYTHONPATH", "")):
        return {}
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, stated.split(os.pathsep)))}


def clean(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without the variables that steer jax and XLA, plus `extra`.

    Options of the compiler belong in target files, where the bundle records them.
    """
    return {**inherit(without=STEERING), **PINNED, **extra}


def decides(name: str) -> bool:
    """Return whether the toolchain sets or removes a variable for the user's code."""
    return name in PINNED or name.startswith(STEERING)


def ignored_variables() -> list[str]:
    """Return the variables that are set here and that a build does not pass on."""
    return sorted(k for k in os.environ if k.startswith(("JAX_", "XLA_", "PJRT_")))


def bare(**more: str) -> dict[str, str]:
    """Return a compiler's variables: none that steer it or change its memory layout, and `more`."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    return {
        **kept,
        **_python_path(),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **more,
    }
