"""The states of a bundle on its way to serving."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """verifying -> loading -> warming -> ready -> closed, or failed from any of the first three.

    verifying: signatures, digests and compatibility.  loading: weights and executables.  warming:
    every fixture runs.
    """

    VERIFYING = "verifying"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"
