"""One executable for every size of a dimension: built, proven, served, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import AotcError
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.commands.profiles.size_space import space_of_bundle
from aotc.pipeline.build import build
from aotc.report.sizes_report import shapes_lines, shapes_report
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Once
from tests.engines.sums import manifests, refused_at_load

PROGRAM = """
import jax
import jax.numpy as jnp

def init():
    return {"kernel": jnp.arange(12.0).reshape(4, 3) / 7}

def encode(params, rows):
    hidden = jnp.tanh(rows @ params["kernel"]) + jnp.arange(rows.shape[1])[:, None] / 8
    causal = jnp.tril(jnp.ones((rows.shape[1], rows.shape[1]), bool))
    scores = jnp.where(causal, hidden @ hidden.transpose(0, 2, 1), -1e9)
    mixed = jax.nn.softmax(scores) @ hidden
    return {"mean": mixed.mean(1), "all": mixed, "twice": jnp.concatenate([mixed, mixed], 1)}

def decides(params, rows):
    return rows @ params["kernel"] if rows.shape[1] > 4 else rows[:, :, :3]

def squares(params, rows):
    return (rows[:, :, 0][:, :, None] * rows[:, None, :, 1]).reshape(-1) + params["kernel"].sum()
"""

MANIFEST = """
schema = 1
name = "sums"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
engines = ["onnxruntime"]

[weights.params]
init = "program:init"

[dimensions.batch]
range = [1, 2]
profiles = [1, 2]

[dimensions.seq]
range = [1, 17]
profiles = "range"

[entry_points.encode]
function = "program:encode"
bind = { params = "params" }
inputs.rows = { shape = ["batch", "seq", 4], dtype = "float32" }
tolerance = { rtol = 1e-5, atol = 1e-5 }
"""


def made(folder: Path, **change: str) -> None:
    """Build a bundle from the manifest with these texts replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(PROGRAM)
    text = MANIFEST
    for old, new in change.items():
        text = text.replace(old, new)
    (folder / "sums.toml").write_text(text)
    signer = LocalSigner.ephemeral()
    (folder / "trust.toml").write_text(policy_text("sums", [signer.public_pem()]))
    build(folder / "sums.toml", output=folder / "sums.aotb", signer=signer)


@pytest.fixture(scope="session")
def ranged(once: Once) -> Path:
    """A folder with the bundle and its policy."""

    def make(folder: Path) -> None:
        made(folder)

    return once("onnx-ranges", make)


def expected(rows: Any) -> dict[str, Any]:
    kernel = np.arange(12.0).reshape(4, 3) / 7
    length = rows.shape[1]
    hidden = np.tanh(rows @ kernel) + np.arange(length)[:, None] / 8
    scores = np.where(np.tri(length, dtype=bool), hidden @ hidden.transpose(0, 2, 1), -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ hidden
    return {"mean": mixed.mean(1), "all": mixed, "twice": np.concatenate([mixed, mixed], 1)}


def test_every_size_of_the_range_is_served_exactly(ranged: Path) -> None:
    random = np.random.default_rng(0)
    with aotc_runtime.load(ranged / "sums.aotb", trust=ranged / "trust.toml") as bundle:
        encode = bundle["encode"]
        for _ in range(2):
            for batch in (1, 2):
                for seq in range(1, 18):
                    rows = random.standard_normal((batch, seq, 4)).astype(np.float32)
                    found = encode(rows)
                    for name, wanted in expected(rows).items():
                        assert found[name].shape == wanted.shape
                        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)
        report = encode.report()
    assert report["calls"]["encode[batch=1]"] == report["calls"]["encode[batch=2]"] == 2 * (17 - 10)
    assert {(each["sizes"]["seq"], each["count"]) for each in report["shapes"]} == {
        (seq, 2) for seq in range(1, 18)
    }
    assert report["paths"]["pad"] == report["paths"]["split"] == {}


def test_a_size_outside_of_the_range_is_refused(ranged: Path) -> None:
    with aotc_runtime.load(ranged / "sums.aotb", trust=ranged / "trust.toml") as bundle:
        for shape, code in (((1, 18, 4), "AOTC-E613"), ((3, 4, 4), "AOTC-E613")):
            with pytest.raises(aotc_runtime.ShapeError) as caught:
                bundle["encode"](np.ones(shape, np.float32))
            assert caught.value.code == code


def test_one_executable_is_compared_at_both_ends_and_at_eight_sizes_between(ranged: Path) -> None:
    (manifest,) = manifests(ranged / "sums.aotb").values()
    entry = manifest["entry_points"]["encode"]
    assert manifest["format_version"] == "1.1"
    assert entry["out_of_profile"] == {"seq": {"policy": "range"}}
    for batch in (1, 2):
        own = [each for each in entry["profiles"] if each["sizes"]["batch"] == batch]
        assert [each["sizes"]["seq"] for each in own] == [1, 2, 4, 6, 8, 9, 11, 13, 15, 17]
        assert len({each["executable"]["digest"] for each in own}) == 1
        assert {each["parity"]["status"] for each in own} == {"ran"}


def test_reports_count_every_size_as_served(ranged: Path) -> None:
    contents, _ = read_unverified(open_bundle(ranged / "sums.aotb"))
    (manifest,) = contents.manifests.values()
    (line,) = shapes_lines(shapes_report(manifest.entry_points["encode"]))
    assert line == "seq: one executable for all sizes"
    space = space_of_bundle(manifest, "encode")
    assert len(space.profiles) == len({tuple(each.items()) for each in space.profiles}) == 2 * 17


def test_an_executable_for_other_shapes_than_its_profile_says_is_refused(
    ranged: Path, tmp_path: Path
) -> None:
    def without_range(documents: Any) -> None:
        documents.manifest["entry_points"]["encode"]["out_of_profile"] = {}

    assert refused_at_load(ranged / "sums.aotb", tmp_path, without_range).code == "AOTC-E753"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            {'["onnxruntime"]': '["onnxruntime", "xla"]'},
            "AOTC-E816",
            "xla for ranges of sizes of encode",
        ),
        ({"program:encode": "program:decides"}, "AOTC-E838", "seq > 4"),
        ({"program:encode": "program:squares"}, "AOTC-E839", "seq^2"),
    ],
    ids=["another engine", "another program", "a square"],
)
def test_what_one_executable_cannot_serve_is_refused(
    tmp_path: Path, change: dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(AotcError) as caught:
        made(tmp_path, **change)
    (finding, *_) = caught.value.findings
    assert finding.code == code
    assert words in finding.found
