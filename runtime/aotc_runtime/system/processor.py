"""Can jaxlib, and the numpy beside it, run on this processor at all? Asked before either is loaded.

jaxlib is compiled for a processor level of its own (AVX2 and FMA for 0.12) and checks nothing: its
library dies of SIGILL, and so does numpy on processors further below. Only
`jaxlib.cpu_feature_guard` runs anywhere; jax asks it, jaxlib alone does not.
"""

from __future__ import annotations

from functools import cache

from aotc_runtime.errors import Finding, IncompatibleHostError


@cache
def refusal() -> Finding | None:
    """Why jaxlib cannot run here (AOTC-E506), or None. Imports nothing but its guard."""
    try:
        from jaxlib import cpu_feature_guard

        cpu_feature_guard.check_cpu_features()
    except ImportError:
        # A jaxlib that is missing or broken is reported by those who load it.
        return None
    except RuntimeError as error:
        return Finding(
            code="AOTC-E506",
            where="this host's processor",
            expected="the processor features that the installed jaxlib was compiled for",
            found=next(iter(str(error).strip().splitlines()), "fewer"),
            hint="run on a newer processor (jaxlib 0.12 needs x86-64-v3), or build for "
            "cpu-x86-64-v2 with jaxlib 0.11.2, which needs AVX, and install that here",
        )
    return None


def require() -> None:
    """Raises IncompatibleHostError (AOTC-E506) where jaxlib cannot run."""
    if (finding := refusal()) is not None:
        raise IncompatibleHostError(finding)
