"""Tests that need the packages of another engine: `make test-iree` installs IREE's in out/iree,
`make test-onnx` those of ONNX Runtime in out/onnx, `make test-openvino` OpenVINO's in out/openvino.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import Once
from tests.engines.sums import make, write


class Other(NamedTuple):
    """An engine beside XLA. marker: of its tests, and the beginning of their files.  title: in
    messages.  package: that its runtime is imported as.  runtime, compiler: distributions.
    modules: what has to be there.
    """

    name: str
    marker: str
    title: str
    package: str
    runtime: str
    compiler: str
    modules: tuple[str, ...]

    @property
    def listed(self) -> str:
        """In a manifest's list of engines."""
        return f'"{self.name}"'

    def is_here(self) -> bool:
        """Return whether all of its modules can be imported."""
        try:
            return all(find_spec(module) is not None for module in self.modules)
        except ModuleNotFoundError:
            return False

    def marks(self) -> list[pytest.MarkDecorator]:
        """Of a test that needs it."""
        mark = getattr(pytest.mark, self.marker)
        reason = f"{self.title} is not installed: `make test-{self.marker}` installs it"
        return [mark] if self.is_here() else [mark, pytest.mark.skip(reason=reason)]

    def sums(self, once: Once) -> Path:
        """A folder with the bundle of `sums` for this engine alone, and its policy."""
        return once(f"{self.name}-sums", lambda folder: make(folder, write(folder, self.listed)))

    def as_param(self) -> Any:
        """For a test of any engine."""
        return pytest.param(self, id=self.name, marks=self.marks())


_ONNX = ("ONNX Runtime", "onnxruntime", "onnxruntime", "onnxruntime")
_OPENVINO = ("OpenVINO", "openvino", "openvino", "openvino")
_IREE = ("IREE", "iree", "iree-base-runtime", "iree-base-compiler")

ENGINES = (
    Other("iree", "iree", *_IREE, ("iree.compiler", "iree.runtime")),
    Other("onnxruntime", "onnx", *_ONNX, ("onnx", "onnxruntime")),
    Other("openvino", "openvino", *_OPENVINO, ("onnx", "openvino")),
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of an engine in this folder, and skip it where the engine is missing."""
    for engine in ENGINES:
        if item.path.name.startswith(f"test_{engine.marker}"):
            for mark in engine.marks():
                item.add_marker(mark)


@pytest.fixture(scope="session", params=[each.as_param() for each in ENGINES])
def other(request: pytest.FixtureRequest) -> Other:
    """The engine beside XLA."""
    return request.param


@pytest.fixture(scope="session")
def sums(other: Other, once: Once) -> Path:
    return other.sums(once)
