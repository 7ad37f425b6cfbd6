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

def softmax(params, rows):
    return jax.nn.softmax(rows @ params["kernel"], axis=1)

def running_sum(params, rows):
    return jnp.cumsum(rows @ params["kernel"], axis=1)

def recurrent(params, rows):
    step = lambda state, row: (jnp.tanh(state + row @ params["kernel"]),) * 2
    return jax.lax.scan(step, jnp.zeros((rows.shape[0], 3)), rows.swapaxes(0, 1))[1]

def clamped(params, rows):
    return jnp.take(rows @ params["kernel"], jnp.arange(4) * 5, axis=1, mode="clip")

def ranked(params, rows):
    return jax.lax.top_k((rows @ params["kernel"]).sum(-1), rows.shape[1])[0]

def positions(params, rows):
    count = rows.shape[1]
    return (rows @ params["kernel"]) * jnp.arange(2 * count, 0, -2)[:, None] / count

def sliced(params, rows):
    start = rows[0, 0, 0].astype(int)
    return jax.lax.dynamic_slice_in_dim(rows @ params["kernel"], start, 2, axis=1)

def halved(params, rows):
    return (rows @ params["kernel"])[:, : rows.shape[1] // 2 + 1]

def padded(params, rows):
    missing = -rows.shape[1] % 5
    return jnp.pad(rows @ params["kernel"], ((0, 0), (0, missing), (0, 0))).sum(1)

def last_five(params, rows):
    return (rows @ params["kernel"])[:, -5:].sum(1)

def squared(params, rows):
    return (rows[:, :, None, 0] * rows[:, None, :, 1]).reshape(-1) + params["kernel"].sum()

def remainder(params, rows):
    return rows @ params["kernel"] * (rows.shape[1] % 5)

def decided(params, rows):
    return rows @ params["kernel"] if rows.shape[1] > 4 else rows[:, :, :3]

def one_length(params, rows):
    return rows @ params["kernel"] * (2 if rows.shape[1] == 12 else 1)
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
    for old, new in reversed(change.items()):
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


def at_every_fifth(program: str) -> dict[str, str]:
    """Compare sizes with one remainder by 5, at which some wrong programs look right."""
    sizes = {"[1, 17]": "[2, 47]", "[1, 2]\nprofiles = [1, 2]": "[2, 2]\nprofiles = [2]"}
    return {**sizes, "program:encode": f"program:{program}"}


RIGHT = ("softmax", "running_sum", "recurrent", "clamped", "ranked", "positions")


def test_programs_that_are_the_same_at_every_size_are_served(tmp_path: Path) -> None:
    head, entry = MANIFEST.split("[entry_points.encode]")
    named = (entry.replace("program:encode", f"program:{name}") for name in RIGHT)
    every = "".join(f"[entry_points.{name}]{own}" for name, own in zip(RIGHT, named, strict=True))
    made(tmp_path, **{**at_every_fifth("encode"), MANIFEST: head + every})
    program: dict[str, Any] = {}
    exec(PROGRAM, program)
    kernel = {"kernel": np.arange(12.0, dtype=np.float32).reshape(4, 3) / 7}
    with aotc_runtime.load(tmp_path / "sums.aotb", trust=tmp_path / "trust.toml") as bundle:
        for name in RIGHT:
            for seq in (2, 3, 9, 10, 11, 31, 46, 47):
                rows = np.random.default_rng(seq).standard_normal((2, seq, 4)).astype(np.float32)
                wanted = np.asarray(program[name](kernel, rows))
                np.testing.assert_allclose(bundle[name](rows), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("sliced", "AOTC-E916", "depends on seq"),
        ("halved", "AOTC-E839", "?"),
        ("padded", "AOTC-E839", "mod(- seq, 5) + seq at program.py"),
        ("last_five", "AOTC-E839", "max(0, seq - 5) at program.py"),
        ("squared", "AOTC-E839", "seq^2 at program.py"),
        ("remainder", "AOTC-E839", "mod(seq, 5) at program.py"),
        ("decided", "AOTC-E838", "seq > 4"),
        ("one_length", "AOTC-E838", "seq == 12"),
        ("", "AOTC-E816", "xla for ranges of sizes of encode"),
    ],
)
def test_what_one_executable_cannot_serve_is_refused(
    tmp_path: Path, program: str, code: str, words: str
) -> None:
    engines = {'["onnxruntime"]': '["onnxruntime", "xla"]'}
    with pytest.raises(AotcError) as caught:
        made(tmp_path, **(at_every_fifth(program) if program else engines))
    (finding, *_) = caught.value.findings
    assert finding.code == code
    assert words in finding.found
