"""Findings that all backends share, for jobs that do not compile."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points, version

from aotc.backends.protocol import GROUP
from aotc.backends.xla.custom_calls import is_callback
from aotc.errors import CompileError, quoted
from aotc.stages import CompileJob
from aotc_runtime.errors import Finding

LINES_SHOWN = 12
"""How many of the last lines that the compiler printed are shown: an assertion and its stack take
about ten.
"""


def failure(code: str, job: CompileJob, expected: str, found: str, hint: str) -> CompileError:
    """A CompileError with one finding about a job."""
    return CompileError(
        Finding(
            code=code,
            where=f"{job.label} for {job.target.name}",
            expected=expected,
            found=found,
            hint=hint,
        )
    )


def refused_program(job: CompileJob, words: str, said: Sequence[str]) -> CompileError:
    """AOTC-E901. words: the compiler's.  said: the lines it printed."""
    return failure(
        "AOTC-E901",
        job,
        "a program that XLA compiles for this target",
        quoted(words, list(said)[-LINES_SHOWN:]),
        "the message is XLA's; the operation it names is in the entry point",
    )


def refused_calls(job: CompileJob, refused: Sequence[str], served: str) -> CompileError:
    """AOTC-E904. refused: names of custom calls.  served: those the runtime can serve."""
    found = (name + (f" at {job.calls[name]}" if name in job.calls else "") for name in refused)
    return failure(
        "AOTC-E904",
        job,
        f"only custom calls that the runtime can serve: {served}",
        ", ".join(found),
        "remove the callback from the function"
        if any(map(is_callback, refused))
        else "express the operation in plain jax",
    )


def unknown_jaxlib(job: CompileJob, known: str, found: str) -> CompileError:
    """AOTC-E906. known: what of jaxlib this aotc knows."""
    return failure(
        "AOTC-E906",
        job,
        f"jaxlib's interfaces and {known} as in 0.11.2 to 0.12.0",
        f"{found} (jaxlib {version('jaxlib')})",
        "install a jaxlib that this aotc supports: `pip install 'jaxlib>=0.11.2,<0.13'`",
    )


def no_backend(platform: str, hint: str) -> CompileError:
    """AOTC-E909. platform: that nothing compiles for here."""
    found = sorted({point.name for point in entry_points(group=GROUP)})
    return CompileError(
        Finding(
            code="AOTC-E909",
            where=f"platform {platform}",
            expected="a backend for one of: " + ", ".join(found),
            found="none installed for this platform",
            hint=hint,
        )
    )
