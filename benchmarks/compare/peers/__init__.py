"""One module per peer: how it makes its artifact, imports, loads and is called.

prepare(case) makes the artifact from a case's folder and returns its files. imports() imports what
the peer needs. load(case) returns a function from the input to results; leaves(result) are these in
the order of the expected files. version() names what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol


class Peer(Protocol):
    """Interface of the modules of this package."""

    def prepare(self, case: Path) -> Sequence[Path]: ...

    def imports(self) -> None: ...

    def load(self, case: Path) -> Callable[[Any], Any]: ...

    def leaves(self, result: Any) -> Sequence[Any]: ...

    def version(self) -> str: ...
