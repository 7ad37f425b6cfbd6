"""The bundle that is served to clients of gRPC."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.typed_program import build_types

Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def types(once: Once) -> tuple[Path, Path]:
    folder = once("types", build_types)
    return folder / "types.aotb", folder / "trust.toml"
