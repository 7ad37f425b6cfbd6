"""The custom calls a shipped executable may contain: those the runtime can serve.

A target outside this list calls into something the loading process does not have; a Python
callback would be a segmentation fault there.
"""

import re

SERVED = "TopK, lapack_*_ffi"
"""The custom calls that are allowed, in words."""

_LAPACK = re.compile(r"\Alapack_[a-z0-9_]+_ffi\Z")
_BUILT_IN = frozenset({"TopK"})
_TARGET = re.compile(r'custom_call_target="([^"]+)"')


def targets(hlo_text: str) -> tuple[str, ...]:
    """Return the custom-call targets of an HLO module's text, sorted."""
    return tuple(sorted(set(_TARGET.findall(hlo_text))))


def is_allowed(target: str) -> bool:
    """Return whether the runtime can serve this target on a CPU."""
    return target in _BUILT_IN or is_lapack(target)


def is_lapack(target: str) -> bool:
    """Return whether the target is a call into LAPACK, which jaxlib has to register."""
    return _LAPACK.match(target) is not None


def is_callback(target: str) -> bool:
    """Return whether the target calls into Python."""
    return "callback" in target
