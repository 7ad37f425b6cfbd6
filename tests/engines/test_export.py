"""Exported models of each engine, called by the engine's own runtime."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc.bundle.read.bundle_review import review
from aotc.commands.export.exported_model import choose, write
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import Once
from tests.engines.conftest import Other

FORMATS = {"iree": "iree", "onnxruntime": "onnx", "openvino": "openvino"}


@pytest.mark.parametrize(("entry_point", "sizes"), [("predict", {"batch": 4}), ("step", {})])
def test_an_exported_model_matches_its_fixture(
    other: Other, once: Once, tmp_path: Path, entry_point: str, sizes: dict[str, int]
) -> None:
    sums = other.sums(once)
    policy = read_policy(sums / "trust.toml")
    read = review(open_bundle(sums / "sums.aotb"), policy, datetime.now(UTC))
    document = write(choose(read, entry_point, FORMATS[other.name], sizes, None), tmp_path / "out")
    assert document["check"]["status"] == "matched"
    assert document["runtime"]["package"] == other.runtime
    assert json.loads(json.dumps(document)) == json.loads(
        (tmp_path / "out" / "signature.json").read_text()
    )
    assert {*document["files"], "signature.json"} == {f.name for f in (tmp_path / "out").iterdir()}
    names = [each["name"] for each in document["outputs"]]
    assert names == {"predict": ["row", "scores"], "step": ["0", "1"]}[entry_point]
