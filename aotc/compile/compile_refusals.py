"""Findings that all backends share, for jobs that do not compile."""

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from aotc.base.errors import quote, refusal
from aotc.base.stages import CompileJob
from aotc.compile.xla.xla_custom_calls import is_callback
from aotc_runtime.base.errors import AotcError

_NO_CALLS = "a program without custom calls, such as those of jnp.linalg to LAPACK"
LINES_SHOWN = 12
"""Number of the compiler's last lines that are shown: an assertion and its stack take ten."""


_BAD_OPTION = re.compile("No such compile option|While setting option")
"""Words of XLA for options that it does not know, and for values that they do not take."""


def place_of(job: CompileJob) -> str:
    """Return where in a build a job stands, for a finding about it."""
    return f"{job.label} for {job.target.name}"


def refused_program(job: CompileJob, words: str, said: Sequence[str]) -> AotcError:
    """Return AOTC-E901, or E908 for an option, with the compiler's message and its output."""
    found = quote(words, list(said)[-LINES_SHOWN:])
    if _BAD_OPTION.search(words):
        return refusal("AOTC-E908", place_of(job), found, cause="invalid-compiler-option")
    return refusal("AOTC-E901", place_of(job), found)


def refused_calls(
    job: CompileJob,
    refused: Sequence[str],
    served: str,
    instead: str = "express the operation in plain jax",
) -> AotcError:
    """Return AOTC-E904 for custom calls that the runtime does not serve.

    `served` are those that it does, "" for none; `instead` is the hint, except for callbacks.
    """
    found = (name + (f" at {job.calls[name]}" if name in job.calls else "") for name in refused)
    expected = f"custom calls that the runtime serves: {served}" if served else _NO_CALLS
    hint = "remove the callback from the function" if any(map(is_callback, refused)) else instead
    return refusal("AOTC-E904", place_of(job), ", ".join(found), expected=expected, hint=hint)


def unknown_jaxlib(job: CompileJob, known: str, found: str) -> AotcError:
    """Return AOTC-E906; `known` are the parts of jaxlib that this aotc supports."""
    where, expected = place_of(job), f"the interfaces and {known} of jaxlib 0.11.2 to 0.12.0"
    return refusal("AOTC-E906", where, f"{found} (jaxlib {version('jaxlib')})", expected=expected)


def require_installed(platform: str, extra: str, *names: str) -> dict[str, str]:
    """Return the versions of distributions that compile for an engine; `extra` installs them.

    Raises CompileError (AOTC-E907) if one is missing.
    """
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise refusal(
                "AOTC-E907",
                f"the engine {platform}",
                f"no {name}",
                expected=" and ".join(names),
                hint=f"in a clone, run `pip install ./runtime ./runtime/serve '.[{extra}]'`",
            ) from error
    return found


def require_word(job: CompileJob, option: str, stated: str, words: Sequence[str]) -> str:
    """Return an option's value, which is one of these words, or "" where it is not set.

    Raises CompileError (AOTC-E908) for another value.
    """
    if stated in ("", *words):
        return stated
    found, expected = f"{option} = {stated}"[:200], f"one of: {', '.join(words)}"
    cause = "invalid-compiler-option"
    raise refusal("AOTC-E908", place_of(job), found, expected=expected, cause=cause)
