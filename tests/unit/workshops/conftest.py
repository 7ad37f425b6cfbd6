"""The command line, for the tests of commands."""

from __future__ import annotations

from unit.cli.conftest import aotc, refused

__all__ = ["aotc", "refused"]
