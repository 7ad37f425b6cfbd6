"""Packages that compiling for TPUs needs beside jaxlib: the extra `tpu`, which is libtpu alone."""

import re
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path

from aotc.base.errors import refusal

PLUGIN = "libtpu"
LIBRARY = "libtpu.so"
HINT = (
    "from a clone: `pip install ./runtime ./runtime/serve '.[tpu]'` (0.6 GB more; it needs no TPU)"
)

_PINNED = re.compile(r"\Alibtpu *== *([0-9.]+?)\.\*")


def wanted_release() -> str:
    """Return the libtpu release of the installed jax, such as "0.0.50"; "" if unknown.

    jax's extra `tpu` names it, and jax and jaxlib have the same version.
    """
    found = (_PINNED.match(line) for line in requires("jax") or () if "tpu" in line)
    return next((match[1] for match in found if match), "")


def find() -> tuple[Path, str]:
    """Return the installed library and its version. Raises CompileError (AOTC-E907)."""
    needed = wanted_release()
    expected = f"{PLUGIN} {needed}, for jax {version('jax')}"
    try:
        installed = distribution(PLUGIN)
    except PackageNotFoundError as error:
        raise refusal("AOTC-E907", PLUGIN, "", expected=expected, hint=HINT) from error
    library = Path(str(installed.locate_file(PLUGIN))) / LIBRARY
    if not library.is_file():
        hint = f"run `pip install --force-reinstall {PLUGIN}=={installed.version}`"
        raise refusal("AOTC-E907", PLUGIN, f"no {LIBRARY} in it", expected=expected, hint=hint)
    if needed and not f"{installed.version}.".startswith(f"{needed}."):
        cause = "compiler-version-does-not-match-jaxlib"
        hint = f"run `pip install {PLUGIN}=={needed}`"
        found = installed.version
        raise refusal("AOTC-E907", PLUGIN, found, cause=cause, expected=expected, hint=hint)
    return library, installed.version
