"""Errors of the engine in the words of the runtime."""

from __future__ import annotations

from aotc_runtime.errors import BackendError, Finding


def backend_error(code: str, where: str, expected: str, found: str, hint: str) -> BackendError:
    """A BackendError with one finding."""
    return BackendError(Finding(code=code, where=where, expected=expected, found=found, hint=hint))


def no_device(platform: str, found: str) -> BackendError:
    """AOTC-E758. found: what there is instead of devices."""
    return backend_error(
        "AOTC-E758",
        platform,
        "devices that XLA can use",
        found,
        "`aotc targets check` and the driver's own tools say more",
    )


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
