"""One executable for every size of a dimension: built, proven, served, and what is refused."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import AotcError
from aotc.cli.command_group import cli
from aotc.commands.profiles.size_space import space_of_bundle
from aotc.report.sizes_report import shapes_lines, shapes_report
from aotc_runtime import LoadedBundle, ShapeError
from aotc_runtime.serving.answered_calls import answer
from aotc_runtime.serving.call_metrics import Path as Served
from aotc_runtime.serving.routing import fallback_calls
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Once
from tests.e2e.small_programs import build_signed
from tests.engines.sums import manifests, refused_at_load
from tests.refusals import error_of

onnxruntime = pytest.importorskip("onnxruntime")

PROGRAM = """
import jax
import jax.numpy as jnp

def init():
    return {"kernel": jnp.arange(12.0).reshape(4, 3) / 7}

def encode(params, rows):
    batch, count, _ = rows.shape
    flat = rows.reshape(batch * count, 4) @ params["kernel"] * (2 if batch == 2 else 3)
    hidden = jnp.tanh(flat.reshape(batch, count, 3)) + jnp.arange(count)[:, None] / 8
    causal = jnp.tril(jnp.ones((count, count), bool))
    scores = jnp.where(causal, hidden @ hidden.transpose(0, 2, 1), -1e9)
    mixed = jax.nn.softmax(scores) @ hidden
    return {"mean": mixed.mean(1), "all": mixed, "twice": jnp.concatenate([mixed, mixed], 1)}
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
"""

ENTRY = """
[entry_points.{0}]
function = "program:{0}"
bind = {{ params = "params" }}
inputs.rows = {{ shape = ["batch", "seq", 4], dtype = "float32" }}
tolerance = {{ rtol = 1e-5, atol = 1e-5 }}
"""

FIFTH = MANIFEST.replace("[1, 17]", "[2, 47]")
"""Sizes with one remainder by 5 are compared, at which some wrong programs look right."""


def program(**results: str) -> str:
    """A program with functions of these results, of n rows of x."""
    head = "    n, x = rows.shape[1], rows @ params['kernel']"
    functions = (
        f"def {name}(params, rows):\n{head}\n    return {results[name]}" for name in results
    )
    return "\n\n".join([PROGRAM, *functions])


def made(folder: Path, manifest: str = MANIFEST, **results: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = map(ENTRY.format, results or ["encode"])
    build_signed(folder, "sums", program(**results), "".join([manifest, *entries]))


def loaded(folder: Path) -> LoadedBundle:
    return aotc_runtime.load(folder / "sums.aotb", trust=folder / "trust.toml")


def check(folder: Path, bundle: LoadedBundle, name: str, batch: int, seq: int) -> None:
    """Compare a call with plain JAX."""
    functions: dict[str, Any] = {}
    exec((folder / "program.py").read_text(), functions)
    rows = np.random.default_rng(seq).standard_normal((batch, seq, 4)).astype(np.float32)
    results = bundle[name](rows), functions[name](functions["init"](), rows)
    for found, wanted in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="session")
def ranged(once: Once) -> Path:
    """A folder with the bundle and its policy."""
    return once("onnx-ranges", made)


def test_every_size_of_the_range_is_served_exactly(ranged: Path) -> None:
    with loaded(ranged) as bundle:
        for _, batch, seq in product(range(2), (1, 2), range(1, 18)):
            check(ranged, bundle, "encode", batch, seq)
        report = bundle["encode"].report()
        for shape in ((1, 18, 4), (1, 0, 4), (3, 4, 4)):
            rows = np.ones(shape, np.float32)
            assert error_of(ShapeError, bundle["encode"], rows).code == "AOTC-E613"
    assert report["calls"]["encode[batch=1]"] == report["calls"]["encode[batch=2]"] == 2 * (17 - 10)
    assert {(each["sizes"]["seq"], each["count"]) for each in report["shapes"]} == {
        (seq, 2) for seq in range(1, 18)
    }
    assert report["paths"]["pad"] == report["paths"]["split"] == {}


def test_a_size_of_the_range_is_checked_and_counted_as_one_of_a_profile(
    ranged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback_calls, "SHAPES_MAX", 2 * 10 + 1)
    with loaded(ranged) as bundle:
        encode = bundle["encode"]
        profiles = set(encode._table)
        for seq in (3, 3, 5):
            rows = np.random.default_rng(seq).standard_normal((1, seq, 4)).astype(np.float32)
            wanted = encode(rows=rows)["all"]
            for given in (rows, np.asfortranarray(rows), rows[..., ::-1][..., ::-1]):
                found = answer(encode, (given,), {})
                assert (found.path, found.executable) == (Served.RANGE, "encode[batch=1]")
                np.testing.assert_array_equal(found.result["all"], wanted)
                assert not found.result["all"].flags.writeable
            assert error_of(ShapeError, encode, rows.astype(np.float64)).code == "AOTC-E606"
        # One size had room beside the profiles, and the other is served as well.
        assert set(encode._table) - profiles == {((1, 3, 4),)}
        report = encode.report()
        assert (
            report["paths"]["range"]["encode[batch=1]"]["calls"]
            == report["calls"]["encode[batch=1]"]
        )
        assert report["calls"]["encode[batch=1]"] == 12
        assert [(each["sizes"]["seq"], each["count"]) for each in report["shapes"]] == [
            (3, 8),
            (5, 4),
        ]
    assert error_of(ShapeError, encode, rows[:, :3]).code == "AOTC-E633"


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
    contents, _ = read_unverified(open_bundle(ranged / "sums.aotb"))
    (read,) = contents.manifests.values()
    assert [*shapes_lines(shapes_report(read.entry_points["encode"]))] == [
        "seq: one executable for all sizes",
        "batch: specialised, encode in program.py asks whether batch == 2",
    ]
    space = space_of_bundle(read, "encode")
    assert len(space.profiles) == len({tuple(each.items()) for each in space.profiles}) == 2 * 17


def test_commands_read_a_range(ranged: Path, tmp_path: Path) -> None:
    bundle, trust = str(ranged / "sums.aotb"), ("--trust", str(ranged / "trust.toml"))
    (tmp_path / "log.jsonl").write_text('{"batch": 1, "seq": 3}\n{"batch": 2, "seq": 17}\n')
    log = ("--traffic", str(tmp_path / "log.jsonl"))
    profile, model = ("--profile", "batch=2,seq=17"), tmp_path / "model"
    for words in (
        ("inspect", bundle),
        ("diff", bundle, bundle),
        ("explain", bundle, "encode", *trust, *profile),
        ("report", bundle, *trust, "-o", str(tmp_path / "page.html")),
        ("profiles", "suggest", str(ranged / "manifest.toml"), *log),
        ("profiles", "check", bundle, *log, "--min-coverage", "1", "--max-padding", "0"),
        (
            "export",
            bundle,
            "encode",
            "--as",
            "onnx",
            *trust,
            *profile,
            "-o",
            str(tmp_path / "model"),
        ),
    ):
        cli.main(words, standalone_mode=False)
    exported = onnxruntime.InferenceSession(model / "model.onnx")
    (results, *_) = exported.run(None, {"rows": np.ones((2, 5, 4), np.float32)})
    assert results.shape[1] == 5


@pytest.mark.parametrize(("largest", "keys", "code"), [(17, 0, "AOTC-E753"), (18, 1, "AOTC-E118")])
def test_an_executable_for_other_sizes_than_compared_is_refused(
    ranged: Path, tmp_path: Path, largest: int, keys: int, code: str
) -> None:
    def change(documents: Any) -> None:
        entry = documents.manifest["entry_points"]["encode"]
        entry["out_of_profile"] = dict([*entry["out_of_profile"].items()][:keys])
        documents.manifest["dimensions"]["seq"]["maximum"] = largest

    assert refused_at_load(ranged / "sums.aotb", tmp_path, change).code == code


def test_programs_that_are_the_same_at_every_size_are_served(tmp_path: Path) -> None:
    step = "lambda state, row: (jnp.tanh(state + row),) * 2"
    right = {
        "softmax": "jax.nn.softmax(x, axis=1)",
        "running_sum": "jnp.cumsum(x, axis=1)",
        "recurrent": f"jax.lax.scan({step}, x[:, 0] * 0, x.swapaxes(0, 1))[1]",
        "clamped": 'jnp.take(x, jnp.arange(4) * 5, axis=1, mode="clip")',
        "ranked": "jax.lax.top_k(x.sum(-1), n)[0]",
        "positions": "x * jnp.arange(2 * n, 0, -2)[:, None] / n",
    }
    one = FIFTH.replace("[1, 2]\nprofiles = [1, 2]", "[2, 2]\nprofiles = [2]")
    made(tmp_path, one, **right)
    with loaded(tmp_path) as bundle:
        for name, seq in product(right, (2, 3, 9, 10, 11, 31, 46, 47)):
            check(tmp_path, bundle, name, 2, seq)


@pytest.mark.parametrize(
    ("result", "code", "words"),
    [
        ("jax.lax.dynamic_slice_in_dim(x, 1 + (x < n).sum(), 2, 1)", "AOTC-E916", "depends on seq"),
        ("x[:, : n // 2 + 1]", "AOTC-E839", "?"),
        ("jnp.pad(x, ((0, 0), (0, -n % 5), (0, 0))).sum(1)", "AOTC-E839", "mod(- seq, 5) + seq at"),
        ("x[:, -5:].sum(1)", "AOTC-E839", "max(0, seq - 5) at program.py"),
        ("(x[:, :, None, 0] * x[:, None, :, 1]).reshape(-1)", "AOTC-E839", "seq^2 at program.py"),
        ("x * (n % 5)", "AOTC-E839", "mod(seq, 5) at program.py"),
        ("x if n > 4 else rows[:, :, :3]", "AOTC-E838", "seq > 4"),
        ("x * (2 if n == 12 else 1)", "AOTC-E838", "seq == 12"),
        ("x * (2 if (rows.shape[0] - 1) * n > 30 else 1)", "AOTC-E838", "seq > 30"),
    ],
)
def test_what_one_executable_cannot_serve_is_refused(
    tmp_path: Path, result: str, code: str, words: str
) -> None:
    (finding, *_) = error_of(AotcError, partial(made, tmp_path, FIFTH, f=result)).findings
    assert finding.code == code and words in finding.found


def test_an_engine_that_compiles_each_size_takes_no_range(tmp_path: Path) -> None:
    both = MANIFEST.replace('["onnxruntime"]', '["onnxruntime", "xla"]')
    (finding,) = error_of(AotcError, made, tmp_path, both).findings
    assert (finding.code, finding.hint) == ("AOTC-E816", 'engines = ["onnxruntime"]')
