"""Errors of the engine in the words of the runtime."""

from __future__ import annotations

from aotc_runtime.errors import AotcError, refusal


def no_device(platform: str, found: str) -> AotcError:
    """AOTC-E758. found: what there is instead of devices."""
    return refusal(
        "AOTC-E758",
        platform,
        found,
        expected="devices that XLA can use",
        hint="`aotc targets check` and the driver's own tools say more",
    )


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
