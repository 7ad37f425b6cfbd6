"""jaxlib's library: whether this processor can run it, and loading it ahead of its first use.

jaxlib is compiled for a processor level of its own and checks nothing: its library dies of SIGILL,
and numpy does on processors further below. `jaxlib.cpu_feature_guard`, which jax asks and jaxlib
alone does not, runs anywhere but knows only some of the features, and names one. So glibc is asked
first, which looks at cpuid and at what the operating system saves (XGETBV).
"""

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import PathFinder

from aotc_runtime.base.errors import Finding, IncompatibleHostError, finding

_LEVEL_2 = frozenset(["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"])

FLOORS = {
    "0.11": _LEVEL_2 | {"avx"},
    "0.12": _LEVEL_2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
}
"""Features that jaxlib (by minor version) and numpy need: tested in emulation (targets.md)."""

ECX, EBX = 2, 1
_BITS = {
    "sse3": (0, ECX, 0),
    "ssse3": (0, ECX, 9),
    "fma": (0, ECX, 12),
    "cx16": (0, ECX, 13),
    "sse4.1": (0, ECX, 19),
    "sse4.2": (0, ECX, 20),
    "movbe": (0, ECX, 22),
    "popcnt": (0, ECX, 23),
    "avx": (0, ECX, 28),
    "f16c": (0, ECX, 29),
    "bmi": (1, EBX, 3),
    "avx2": (1, EBX, 5),
    "bmi2": (1, EBX, 8),
    "sahf": (2, ECX, 0),
    "lzcnt": (2, ECX, 5),
}
"""Feature to the leaf as <sys/platform/x86.h> numbers it (cpuid 1, 7 and 0x80000001), the register
and the bit.
"""


class _Leaf(ctypes.Structure):
    """`struct cpuid_feature`: what the processor has, and what programs may use."""

    _fields_ = (("cpuid", ctypes.c_uint32 * 4), ("active", ctypes.c_uint32 * 4))


def floor(jaxlib: str) -> frozenset[str]:
    """Return the features that this jaxlib needs to start; empty for untested versions."""
    return FLOORS.get(".".join(jaxlib.split(".")[:2]), frozenset())


def lacking(features: frozenset[str]) -> tuple[str, ...]:
    """Return the features that programs cannot use here, sorted.

    None are returned if it is unknown: without glibc 2.33 or newer, on another architecture, and
    for features without a known minimum.
    """
    if os.uname().machine != "x86_64":
        return ()
    try:
        ask = ctypes.CDLL(None).__x86_get_cpuid_feature_leaf
    except (AttributeError, OSError):
        return ()
    ask.restype = ctypes.POINTER(_Leaf)
    leaves = {leaf: ask(leaf).contents.active for leaf, _, _ in _BITS.values()}
    return tuple(
        name
        for name, (leaf, register, bit) in sorted(_BITS.items())
        if name in features and not leaves[leaf][register] >> bit & 1
    )


# 1 hides jaxlib's INFO lines; errors, such as a missing processor feature, stay visible. Read when
# the library is loaded, which others may do before XLA is needed here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def begin_loading() -> None:
    """Load jaxlib's library in another thread, so that it is there when XLA is first needed.

    The dynamic linker takes half the time of jaxlib's import and does not need Python's lock.
    Meanwhile, Python imports the loader, and verifies the bundle, of which the library gets nothing
    before. Raises as `require`.
    """
    require()
    if "jaxlib._jax" in sys.modules:
        return
    # Found here, not in the thread, which could lose the processor while it holds Python's lock.
    folders = getattr(sys.modules.get("jaxlib"), "__path__", ())
    found = PathFinder.find_spec("jaxlib._jax", folders)
    if found is None or found.origin is None:
        return
    # Not a daemon: a process that ends at once must not run exit handlers beside the linker.
    thread = threading.Thread(target=_load_library, args=(found.origin,), name="aotc-jaxlib")
    with suppress(RuntimeError):  # without another thread, the import loads it
        thread.start()
        # A process forked in the midst of it could never load a library.
        os.register_at_fork(before=thread.join)


def _load_library(path: str) -> None:
    with suppress(OSError):  # what is broken is reported by the import
        ctypes.CDLL(path)


def require() -> None:
    """Raise IncompatibleHostError (AOTC-E506) if jaxlib cannot run, importing only its version."""
    try:
        import jaxlib

        if missing := lacking(floor(jaxlib.__version__)):
            raise IncompatibleHostError(_finding(missing))
        from jaxlib import cpu_feature_guard

        cpu_feature_guard.check_cpu_features()
    except ImportError:
        return  # a jaxlib that is missing or broken is reported by those who load it
    except RuntimeError as error:
        raise IncompatibleHostError(_finding((), str(error).strip().partition("\n")[0])) from error


def require_numpy() -> None:
    """Raise IncompatibleHostError (AOTC-E506) if numpy would end this process by SIGILL."""
    if missing := lacking(_LEVEL_2):
        raise IncompatibleHostError(_finding(missing))


def _finding(missing: Sequence[str], found: str = "a processor without them") -> Finding:
    expected = f"processor features {', '.join(missing)}" if missing else ""
    return finding("AOTC-E506", "the installed jaxlib and numpy", found, expected=expected)
