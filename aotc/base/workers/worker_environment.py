"""Which variables a child process sees."""

from __future__ import annotations

import os
from collections.abc import Mapping

PINNED = {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}
"""Variables that every process is given that runs the user's code."""

STEERING = ("JAX_", "XLA_", "TF_", "PJRT_", "LIBTPU_", "NPROC")
"""How variables begin that steer jax and XLA, which no such process is given but by the toolchain.
"""

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
"""By these an interpreter prints what nobody asked a child for, or in a way that its parent does
not read, or goes on at its end
(https://docs.python.org/3/using/cmdline.html#environment-variables).
"""


SECRET = ("AOTC_KEY_PASSPHRASE", "AOTC_PKCS11_PIN")
"""Variables that open keys. No child signs."""


def inherited(*, without: tuple[str, ...]) -> dict[str, str]:
    """The variables of this process for one that runs Python and answers somebody. without: how
    those begin that it must not see.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNASKED and name not in SECRET and not name.startswith(without)
    }
    return kept | _python_path()


def _python_path() -> dict[str, str]:
    """The folders of imports, made absolute: a child may run in another folder."""
    if not (stated := os.environ.get("PYTHONPATH", "")):
        return {}
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, stated.split(os.pathsep)))}


def clean(extra: Mapping[str, str]) -> dict[str, str]:
    """This process' environment without what steers jax and XLA, plus `extra`.

    Options of the compiler belong in target files, where the bundle records them.
    """
    return {**inherited(without=STEERING), **PINNED, **extra}


def decides(name: str) -> bool:
    """Whether the toolchain sets a variable for the user's code, or takes it away from it."""
    return name in PINNED or name.startswith(STEERING)


def ignored() -> list[str]:
    """Variables of this environment that are set, and that a build does not pass on."""
    return sorted(k for k in os.environ if k.startswith(("JAX_", "XLA_", "PJRT_")))


def bare(**more: str) -> dict[str, str]:
    """The variables of a compiler: none that could steer it or change its memory layout, and those
    in `more`.
    """
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    return {
        **kept,
        **_python_path(),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **more,
    }
