"""Every module is what the bundle holds, with the profile and the targets it belongs to."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.read.bundle_review import Review, review
from aotc.commands.explain import representations
from aotc.pipeline.build import build
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import Once

NOW = datetime.now(UTC)

MANIFEST = """
schema = 1
name = "shown"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v4"]
[dimensions.n]
range = [1, 64]
profiles = [4, 8]
[entry_points.f]
function = "shown:f"
inputs.x = { shape = ["n", 4], dtype = "float32" }
"""


@pytest.fixture(scope="module")
def shown(once: Once) -> Review:
    def fill(folder: Path) -> None:
        (folder / "shown.py").write_text("def f(x):\n    return (x + 1) @ x.T\n")
        (folder / "shown.toml").write_text(MANIFEST)
        build(folder / "shown.toml", output=folder / "shown.aotb")

    folder = once("shown", fill)
    return review(open_bundle(folder / "shown.aotb"), None, NOW)


def test_a_module_is_shown_once_for_the_targets_that_share_it(shown: Review) -> None:
    found = representations.explain(shown, "f", None, None)
    assert [(r.sizes, r.targets) for r in found] == [
        ({"n": 4}, ("cpu-x86-64-v3", "cpu-x86-64-v4")),
        ({"n": 8}, ("cpu-x86-64-v3", "cpu-x86-64-v4")),
    ]
    assert "tensor<4x4xf32>" in found[0].text and "tensor<8x4xf32>" in found[1].text
    assert all("stablehlo.dot_general" in r.text for r in found)


@pytest.mark.parametrize(
    ("entry", "sizes", "target", "where"),
    [
        ("g", {}, None, "shown.aotb"),
        ("f", {}, "cpu-x86-64-v2", "--target"),
        ("f", {"n": 5}, None, "--profile"),
    ],
)
def test_what_is_not_there_is_refused(
    shown: Review, entry: str, sizes: dict[str, int], target: str | None, where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        representations.explain(shown, entry, sizes, target)
    assert caught.value.code == "AOTC-E055"
    assert caught.value.findings[0].where.endswith(where)
