"""The command line: what it says is compared with what the runtime's own command says."""

from unit.cli.conftest import aotc

__all__ = ["aotc"]
