"""Precisions of a build: weights stored in 8 or 4 bits, compared, recorded and required."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from jax import export
from msgspec.structs import replace

import aotc_runtime
from aotc.base.errors import BuildManifestError, ParityError, UsageError
from aotc.base.evidence import AppliedPrecision, Calibration
from aotc.bundle.read.bundle_review import review
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.cli.command_group import cli
from aotc.commands.export.exported_model import choose
from aotc.commands.report_page.page_renderer import page_of, render
from aotc.commands.tune.tuning_service import Measure
from aotc.compile.target_files import builtin_folder
from aotc.config.precision_specs import INT4_GROUP, ChosenPrecision
from aotc.config.tuning_file import Recorded, TuningFile
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions, Tuning
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Kind
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding, TrustError
from aotc_runtime.schema.bundle_manifest import (
    DType,
    EvaluationRan,
    MeasuredCandidate,
    ParityRan,
    Precision,
)
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.manifest_consistency import check_consistency
from tests.conftest import Once
from tests.refusals import error_of

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

TABLE = jnp.asarray(np.random.default_rng(9).standard_normal((64, 32)), jnp.float32)

@jax.jit
def layer(x, dense):
    return jnp.tanh(x @ dense["kernel"] + dense["bias"])

def predict(params, x):
    return layer(layer(x, params["first"]), params["second"]) @ params["last"].T

def tied(params, x):
    hidden = x @ params["last"].T
    return hidden @ params["last"] + params["last"][0]

def closed(params, x):
    return x @ TABLE + params["last"][0, :32]

def looped(params, x):
    def step(_, x):
        return jnp.tanh(x @ params["first"]["kernel"] @ params["second"]["kernel"])

    return lax.fori_loop(0, 3, step, x)

def images(kernel, x):
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )

def product(params, x):
    return x @ params

def lowest():
    return jnp.full((64, 64), jnp.finfo(jnp.float32).min)

def made():
    return jnp.asarray(np.random.default_rng(3).standard_normal((3, 3, 16, 16)), jnp.bfloat16)
"""

HEAD = """schema = 1
name = "small"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
weights.params.source = "params.safetensors"
dimensions.batch = { range = [1, 64], profiles = [1, 8] }
"""

BARE = """schema = 1
name = "small"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
"""

PREDICT = """
[entry_points.{name}]
function = "program:{function}"
bind = {{ params = "params" }}
inputs.x = {{ shape = ["batch", 64], dtype = "float32" }}
precision = "{precision}"
{more}
"""

EVALUATION = """
[entry_points.predict.evaluation]
data = "data.npz"
metric = "rmse"
"""

FEW_CANDIDATES = '\noptions = { xla_cpu_experimental_ynn_fusion_type = "" }\n'
"""At the end of a target file: candidates do not vary what it says, and few are left to compile."""

SHAPES = {
    "first/kernel": (64, 128),
    "first/bias": (128,),
    "second/kernel": (128, 64),
    "second/bias": (64,),
    "last": (32, 64),
}


def params() -> dict[str, Any]:
    chance = np.random.default_rng(0)
    return {
        name: (chance.standard_normal(shape) / 8).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def precision(weights: str, more: str = "", name: str = "small") -> str:
    return f'\n[precision.{name}]\nweights = "{weights}"\n{more}\n'


NOW = datetime.now(UTC)


def built(
    folder: Path,
    text: str,
    cache: LocalStore | None = None,
    head: str = HEAD,
    tuning: Tuning | None = None,
) -> Built:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "params.safetensors").write_bytes(write_tensors(params(), where="test"))
    x = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float32)
    target = predicted(params(), x) if tuning else np.zeros((16, 32), np.float32)
    np.savez(folder / "data.npz", x=x, target=target)
    (folder / "m.toml").write_text(head + text)
    signer = LocalSigner.ephemeral()
    (folder / "trust.toml").write_text(policy_text("small", [signer.public_pem()]))
    return build(
        folder / "m.toml",
        folder / "small.aotb",
        BuildOptions(signer=signer, jobs=1, cache=cache, tuning=tuning),
    )


def entry_point(function: str = "predict", precision: str = "small", more: str = "") -> str:
    return PREDICT.format(name=function, function=function, precision=precision, more=more)


def applied(folder: Path, name: str = "predict") -> AppliedPrecision:
    evidence = (
        review(open_bundle(folder / "small.aotb"), None, NOW).targets["cpu-x86-64-v3"].evidence
    )
    assert evidence is not None
    found = evidence.entry_points[name].precision
    assert isinstance(found, AppliedPrecision)
    return found


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    text = entry_point() + precision("int8", 'keep = ["second/*"]') + EVALUATION
    return once("precise", lambda folder: built(folder, text))


def test_weights_of_products_are_stored_in_8_bits_and_called(folder: Path) -> None:
    bundle = folder / "small.aotb"
    with aotc_runtime.load(bundle, trust=folder / "trust.toml") as loaded:
        stored = {each.name: each for each in loaded.manifest.weights["params"].tensors}
        profiles = loaded.manifest.entry_points["predict"].profiles
        x = np.ones((8, 64), np.float32)
        found = np.asarray(loaded["predict"](x=x))
    assert {name: (each.dtype.value, each.shape) for name, each in stored.items()} == {
        "first/bias": ("float32", (128,)),
        "first/kernel:int8:0": ("int8", (64, 128)),
        "first/kernel:int8:0:scale": ("float32", (128,)),
        "last:int8:1": ("int8", (32, 64)),
        "last:int8:1:scale": ("float32", (32,)),
        "second/bias": ("float32", (64,)),
        "second/kernel": ("float32", (128, 64)),
    }
    wanted = Precision(name="small", weights="int8")
    assert [each.precision for each in profiles] == [wanted, wanted]
    assert all(isinstance(each.parity, ParityRan) for each in profiles)
    exact = predicted(params(), x)
    assert 0 < np.abs(found - exact).max() < 0.05
    assert np.allclose(found, predicted(params() | restored(), x), rtol=1e-4, atol=1e-5)


def predicted(weights: Mapping[str, Any], x: Any) -> Any:
    hidden = np.tanh(x @ weights["first/kernel"] + weights["first/bias"])
    hidden = np.tanh(hidden @ weights["second/kernel"] + weights["second/bias"])
    return hidden @ weights["last"].T


def restored() -> dict[str, Any]:
    """Return the two quantized weights as floating-point numbers, with qwix's formula."""
    found = {}
    for name, axis in (("first/kernel", 0), ("last", 1)):
        weight = params()[name]
        scale = np.abs(weight).max(axis=axis, keepdims=True) / np.float32(127.5)
        found[name] = np.rint(weight / scale).clip(-128, 127) * scale
    return found


def test_evidence_names_each_weight_with_its_error_and_why_others_are_kept(folder: Path) -> None:
    found = applied(folder)
    assert (found.name, found.weights) == ("small", "int8")
    assert found.kept == {
        "params first/bias": "one axis",
        "params second/bias": "keep",
        "params second/kernel": "keep",
    }
    first, last = found.quantized
    assert (first.tensor, first.was, first.contracted, first.group) == (
        *("first/kernel", "float32"),
        *((0,), 0),
    )
    assert last.contracted == (1,)
    for each in found.quantized:
        weight, rounded = params()[each.tensor], restored()[each.tensor]
        assert float(each.max_error) == pytest.approx(np.abs(weight - rounded).max())
        noise = np.square(weight.astype(float) - rounded).sum()
        assert float(each.snr_db) == pytest.approx(
            10 * np.log10(np.square(weight.astype(float)).sum() / noise), abs=0.06
        )


def test_the_metric_is_compared_with_the_weights_of_the_program(folder: Path) -> None:
    (target,) = review(open_bundle(folder / "small.aotb"), None, NOW).targets.values()
    (evaluation,) = target.manifest.entry_points["predict"].evaluations or ()
    with np.load(folder / "data.npz") as data:
        x = data["x"]
    exact = np.sqrt(np.mean(np.square(predicted(params(), x))))
    rounded = np.sqrt(np.mean(np.square(predicted(params() | restored(), x))))
    assert isinstance(evaluation.result, EvaluationRan)
    assert float(evaluation.reference) == pytest.approx(exact, rel=1e-6)
    assert float(evaluation.result.value) == pytest.approx(rounded, rel=1e-6)
    assert abs(exact - rounded) > 1e-5 * exact


def test_policies_reports_and_differences_tell_the_precision(folder: Path, tmp_path: Path) -> None:
    bundle = folder / "small.aotb"
    for accepted, is_refused in (("int8", False), ("float32", True), ("int4", True)):
        policy = tmp_path / "trust.toml"
        policy.write_text(f'precisions = ["{accepted}"]\n{(folder / "trust.toml").read_text()}')
        verified = CliRunner().invoke(cli, ["verify", str(bundle), "--trust", str(policy)])
        assert ("AOTC-E338" in verified.output, verified.exit_code != 0) == (is_refused,) * 2
        if is_refused:
            assert error_of(TrustError, aotc_runtime.load, bundle, trust=policy).code == "AOTC-E338"
    shown = CliRunner().invoke(cli, ["trust", "show", str(policy)]).output
    assert "precisions  int4" in shown
    text = CliRunner().invoke(cli, ["inspect", str(bundle)]).output
    assert "precision small: 2 weights in int8" in text
    assert "params second/kernel (keep)" in text
    document = json.loads(CliRunner().invoke(cli, ["inspect", str(bundle), "--json"]).output)
    shown_entry = document["targets"]["cpu-x86-64-v3"]["entry_points"]["predict"]
    assert shown_entry["profiles"][0]["precision"] == {"name": "small", "weights": "int8"}
    assert len(shown_entry["precision"]["quantized"]) == 2
    reviewed = review(open_bundle(bundle), None, NOW)
    assert b"Quantized weights" in render(page_of(reviewed, None))
    built(tmp_path, entry_point(precision="float32"))
    told = CliRunner().invoke(cli, ["diff", str(tmp_path / "small.aotb"), str(bundle)]).output
    assert "weights" in told and "int8" in told and "small" in told


def test_calls_round_activations_to_8_bits(tmp_path: Path) -> None:
    text = entry_point() + precision("int8", 'activations = "dynamic"') + EVALUATION
    built(tmp_path, text)
    bundle = tmp_path / "small.aotb"
    found = applied(tmp_path)
    assert (found.activations, found.products) == ("dynamic", 3)
    assert (
        "factor of 3 products to 8 bits" in CliRunner().invoke(cli, ["inspect", str(bundle)]).output
    )
    x = np.random.default_rng(7).standard_normal((8, 64)).astype(np.float32)
    with aotc_runtime.load(bundle, trust=tmp_path / "trust.toml") as loaded:
        made = np.asarray(loaded["predict"](x=x))
        tolerance = loaded.manifest.entry_points["predict"].tolerance
    assert 1e-3 < float(tolerance.atol) < 0.1 * np.abs(made).max()
    text = CliRunner().invoke(cli, ["inspect", str(bundle)]).output
    assert f"tolerance has {tolerance.atol} for numbers rounded to another step" in text
    weights = params() | restored()
    second = params()["second/kernel"]
    scale = np.abs(second).max(axis=0, keepdims=True) / np.float32(127.5)
    weights["second/kernel"] = np.rint(second / scale).clip(-128, 127) * scale

    def rounded(x: Any) -> Any:
        unit = np.abs(x).max(axis=1, keepdims=True) / np.float32(127.5)
        return np.rint(x / unit).clip(-127, 127) * unit

    hidden = np.tanh(rounded(x) @ weights["first/kernel"] + weights["first/bias"])
    hidden = np.tanh(rounded(hidden) @ weights["second/kernel"] + weights["second/bias"])
    np.testing.assert_allclose(made, rounded(hidden) @ weights["last"].T, rtol=1e-4, atol=1e-5)
    assert np.abs(made - predicted(weights, x)).max() > 1e-3


def narrow(x: Any) -> Any:
    return np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float32)


def test_calls_multiply_bfloat16(tmp_path: Path) -> None:
    names = ("predict", "looped", "closed", "tied")
    text = "".join(entry_point(name, "all" if name == "tied" else "small") for name in names)
    half = '[precision.all]\ncompute = "bfloat16"\n[precision.small]\ncompute = "bfloat16"\n'
    made = built(tmp_path, text + EVALUATION + half + 'keep = ["last"]\n')
    bundle, trust = tmp_path / "small.aotb", tmp_path / "trust.toml"
    assert sum("none of amx-bf16, avx512bf16, bf16" in each for each in made.notes) == len(names)
    x = np.random.default_rng(7).standard_normal((8, 64)).astype(np.float32)
    with aotc_runtime.load(bundle, trust=trust) as loaded:
        found = {name: np.asarray(loaded[name](x=x)) for name in names}
        stored = {each.name: each for each in loaded.manifest.weights["params"].tensors}
        limit = float(loaded.manifest.entry_points["predict"].tolerance.atol)
        assert loaded.manifest.format_version == "1.1"
    assert {name for name, each in stored.items() if each.dtype.value == "bfloat16"} == {
        "first/kernel:bfloat16",
        "second/kernel:bfloat16",
    }
    own = params()
    first, second, last = own["first/kernel"], own["second/kernel"], own["last"]
    hidden = np.tanh(narrow(x) @ narrow(first) + own["first/bias"])
    hidden = np.tanh(narrow(hidden) @ narrow(second) + own["second/bias"])
    looped = x
    for _ in range(3):
        looped = np.tanh(narrow(narrow(looped) @ narrow(first)) @ narrow(second))
    table = np.random.default_rng(9).standard_normal((64, 32)).astype(np.float32)
    closed = narrow(x) @ narrow(table) + last[0, :32]
    tied = narrow(narrow(x) @ narrow(last).T) @ narrow(last) + last[0]
    # No number lies so near to the middle between two steps that numpy rounds it otherwise.
    for name, exact in zip(names, (hidden @ last.T, looped, closed, tied), strict=True):
        np.testing.assert_allclose(found[name], exact, rtol=1e-5, atol=1e-5)
    assert 1e-4 < limit < np.abs(found["predict"] - predicted(own, x)).max()
    precision = applied(tmp_path)
    assert (precision.weights, precision.activations, precision.products) == (
        *("bfloat16", "bfloat16"),
        2,
    )
    assert [each.scale for each in precision.quantized] == ["", ""]
    text = CliRunner().invoke(cli, ["inspect", str(bundle)]).output
    assert "calls round the factors of 2 products to bfloat16 and sum in float32" in text
    reviewed = review(open_bundle(bundle), None, NOW)
    assert b"bfloat16" in render(page_of(reviewed, None))


def test_static_scales_are_calibrated_on_the_evaluation_data(tmp_path: Path) -> None:
    text = entry_point() + precision("int8", 'activations = "static"') + EVALUATION
    built(tmp_path, text)
    found, bundle = applied(tmp_path), tmp_path / "small.aotb"
    assert (found.activations, found.products) == ("static", 3)
    calibration = found.calibration
    assert isinstance(calibration, Calibration)
    assert calibration.samples == 16
    assert calibration.data == sha256((tmp_path / "data.npz").read_bytes())
    with np.load(tmp_path / "data.npz") as data:
        x = data["x"]
    weights = params()
    assert calibration.units["params first/kernel"] == repr(
        float(np.abs(x).max() / np.float32(127.5))
    )
    with aotc_runtime.load(bundle, trust=tmp_path / "trust.toml") as loaded:
        stated = loaded.manifest.entry_points["predict"].profiles[0].precision
        assert stated == Precision(name="small", weights="int8", activations="static")
        large, ordinary = (np.asarray(loaded["predict"](x=x[:8] * by)) for by in (100, 1))
    assert np.isfinite(large).all()
    exact = predicted(weights, x[:8])
    assert 1e-4 < np.abs(ordinary - exact).max() < 0.05 * np.abs(exact).max()
    strict = tmp_path / "strict.toml"
    for accepted, is_refused in (('"int8"', True), ('"int8", "static"', False)):
        strict.write_text(f"precisions = [{accepted}]\n{(tmp_path / 'trust.toml').read_text()}")
        verified = CliRunner().invoke(cli, ["verify", str(bundle), "--trust", str(strict)])
        assert ("AOTC-E338" in verified.output) == is_refused


def test_tuning_keeps_the_worst_weights_and_takes_the_fastest_precision(tmp_path: Path) -> None:
    text = entry_point().replace('"small"', '["tiny", "small"]') + EVALUATION
    text += "max_drop = 0.08\n" + precision("int4", name="tiny") + precision("int8")
    (tmp_path / "targets").mkdir()
    target = (builtin_folder() / "cpu-x86-64-v3.toml").read_text() + FEW_CANDIDATES
    (tmp_path / "targets" / "few.toml").write_text(target)
    head = HEAD.replace("cpu-x86-64-v3", "few").replace("[1, 8]", "[8]")
    assert refused(tmp_path, text, head).hint.endswith("choose with `aotc build --tune`")
    cache = LocalStore(tmp_path / "cache", 10**9)
    made = built(tmp_path, text, cache, head, Measure())
    assert made.tuning_file is not None
    chosen = made.tuning_file.precisions["predict"]
    assert [each.name for each in chosen.candidates] == ["tiny", "small"]
    assert all(isinstance(each, MeasuredCandidate) for each in chosen.candidates)
    keep = {"tiny": ("first/kernel", "last"), "small": ()}
    assert chosen.keep == keep[chosen.precision]
    again = built(tmp_path, text, cache, head, Recorded(made.tuning_file, "t.json"))
    assert again.bundle.root_digest == made.bundle.root_digest


def test_a_tuning_file_chooses_a_precision_and_what_it_keeps(tmp_path: Path) -> None:
    text = entry_point().replace('"small"', '["float32", "small"]') + EVALUATION
    text += "max_drop = 0.08\n" + precision("int8")
    chosen = {"predict": ChosenPrecision("small", ("last",))}
    not_tuned = {"cpu-x86-64-v3": "another processor"}
    file = TuningFile(1, version("jaxlib"), (), not_tuned, precisions=chosen)
    made = built(tmp_path, text, tuning=Recorded(file, "t.json"))
    applied = made.program.entry_points["predict"].precision
    assert applied is not None
    assert [each.tensor for each in applied.quantized] == ["first/kernel", "second/kernel"]
    assert applied.kept["params last"] == "accuracy control"
    note = "predict has the precision small, within the limits of its metric; not quantized: last"
    assert note in made.notes


@pytest.mark.parametrize(("weights", "group"), [("int4", 64), ("int4", 16), ("int8", 32)])
def test_groups_share_a_scale(weights: str, group: int, tmp_path: Path) -> None:
    more = "" if group == INT4_GROUP else f"group = {group}"
    made = built(tmp_path, entry_point() + precision(weights, more))
    (manifest,) = made.bundle.manifests.values()
    tensors = manifest.weights["params"].tensors
    packed = f"last:{weights}:1:{group}"
    names = {f"{name}/kernel:{weights}:0:{group}" for name in ("first", "second")}
    found = {each.name: each.shape for each in tensors if (each.packed or each.dtype) == weights}
    assert found.keys() == {packed, *names}
    if weights == "int4":
        assert (found[packed], manifest.format_version) == ((32, 32), "1.1")
        wide = [replace(t, dtype=DType.INT8) if t.name == packed else t for t in tensors]
        weights_of = {"params": replace(manifest.weights["params"], tensors=tuple(wide))}
        for wrong in (
            replace(manifest, format_version="1.0"),
            replace(manifest, weights=weights_of),
        ):
            assert {each.code for each in check_consistency(wrong, "")} == {"AOTC-E118"}
    with aotc_runtime.load(tmp_path / "small.aotb", trust=tmp_path / "trust.toml") as loaded:
        x = np.random.default_rng(5).standard_normal((1, 64)).astype(np.float32)
        called = np.asarray(loaded["predict"](x=x))
    exact = predicted(params(), x)
    assert 0 < np.abs(called - exact).max() < 0.5 * np.abs(exact).max()


def test_a_bundle_has_the_same_bytes_again_and_a_precision_of_its_own(tmp_path: Path) -> None:
    cache = LocalStore(tmp_path / "cache", 10**9)
    texts = [entry_point() + precision("int8"), entry_point() + precision("int8", "group = 16")]
    first, again, other = (built(tmp_path, text, cache) for text in (texts[0], *texts))
    assert first.bundle.root_digest == again.bundle.root_digest != other.bundle.root_digest
    cached = [{d.task.kind: d.cached for d in made.tasks} for made in (again, other)]
    assert [each[Kind.PARITY] for each in cached] == [True, False]
    assert [each[Kind.REFERENCE] for each in cached] == [True, False]


def test_entry_points_with_other_precisions_share_a_weights_set(tmp_path: Path) -> None:
    text = entry_point() + precision("int8")
    text += PREDICT.format(name="exact", function="predict", precision="float32", more="")
    text += PREDICT.format(name="coarse", function="predict", precision="tiny", more="")
    built(tmp_path, text + precision("int4", 'keep = ["last"]', "tiny"))
    with aotc_runtime.load(tmp_path / "small.aotb", trust=tmp_path / "trust.toml") as loaded:
        stored = {each.name for each in loaded.manifest.weights["params"].tensors}
        x = np.ones((1, 64), np.float32)
        found = {name: np.asarray(loaded[name](x=x)) for name in ("exact", "predict", "coarse")}
    assert {"first/kernel", "first/kernel:int8:0", "first/kernel:int4:0:64"} <= stored
    assert {"last", "last:int8:1"} <= stored and "last:int4:1:64" not in stored
    exact = predicted(params(), x)
    errors = {name: np.abs(each - exact).max() for name, each in found.items()}
    assert errors["exact"] < 1e-5 < errors["predict"] < errors["coarse"]
    named = "coarse", "stablehlo", {"batch": 1}, None
    read = review(open_bundle(tmp_path / "small.aotb"), None, NOW)
    assert choose(read, *named, "tiny").executable.record.precision.name == "tiny"
    (told,) = error_of(UsageError, choose, read, *named, "small").findings
    assert (told.found, told.expected) == ("small", "one of: tiny")


def test_kernels_of_convolutions_and_narrow_weights_are_quantized(tmp_path: Path) -> None:
    text = """
weights.kernel.init = "program:made"
[entry_points.images]
function = "program:images"
bind = { kernel = "kernel" }
inputs.x = { shape = [1, 8, 8, 16], dtype = "bfloat16" }
precision = "small"
tolerance = { rtol = 2e-2, atol = 1e-2 }
"""
    made = built(tmp_path, text + precision("int8", "group = 5"), head=BARE)
    (manifest,) = made.bundle.manifests.values()
    assert {each.name: each.dtype.value for each in manifest.weights["kernel"].tensors} == {
        "value:int8:0.1.2": "int8",
        "value:int8:0.1.2:scale": "float32",
    }


@pytest.mark.parametrize("keys", ['weights = "int4"', 'compute = "bfloat16"'])
def test_weights_of_a_model_file_are_quantized(keys: str, tmp_path: Path) -> None:
    weight = params()["first/kernel"]

    def model(x: Any) -> Any:
        return jnp.tanh(x @ weight)

    exported = export.export(jax.jit(model))(jax.ShapeDtypeStruct((4, 64), np.float32))
    (tmp_path / "model.jax").write_bytes(exported.serialize())
    text = '[entry_points.f]\nsource = "model.jax"\nprecision = "small"\n'
    made = built(tmp_path, f"{text}[precision.small]\n{keys}\n", head=BARE)
    (manifest,) = made.bundle.manifests.values()
    (weights,) = manifest.weights.values()
    stored = ["float32", "int4"] if "int4" in keys else ["bfloat16"]
    assert sorted(each.packed or each.dtype for each in weights.tensors) == stored
    with aotc_runtime.load(tmp_path / "small.aotb", trust=tmp_path / "trust.toml") as loaded:
        x = np.random.default_rng(4).standard_normal((4, 64)).astype(np.float32)
        (result,) = jax.tree.leaves(loaded["f"](x))
    assert 1e-4 < np.abs(np.asarray(result) - np.tanh(x @ weight)).max() < 0.5


def test_results_of_a_framework_are_compared_with_the_weights_of_the_program(
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    more = 'fixtures = { file = "inputs.npz", expected = "expected.npz" }'
    text = entry_point(more=more) + precision("int4")
    np.savez(tmp_path / "expected.npz", result=predicted(params(), x))
    built(tmp_path, text)
    np.savez(tmp_path / "expected.npz", result=predicted(params(), x) + np.float32(0.01))
    assert error_of(ParityError, built, tmp_path, text).code == "AOTC-E950"


REJECTED = {
    "AOTC-E805 precision.small.group": (
        entry_point() + precision("int4", "group = 48"),
        *("group = 48, and first/kernel with 64 numbers", "a divisor of 64"),
    ),
    "AOTC-E806 precision.small.keep[1]": (
        entry_point() + precision("int8", 'keep = ["last", "third/*"]'),
        *("third/*", "first/kernel"),
    ),
    "AOTC-E809 entry_points.predict.precision": (
        entry_point() + precision("int8", 'keep = ["*"]'),
        *("params first/kernel, params last, ", "(keep)"),
    ),
    "AOTC-E809 precision.small.activations": (
        entry_point("looped") + precision("int8", 'activations = "dynamic"'),
        "no matrix product of a quantized weight outside of loops",
    ),
    "AOTC-E809 entry_points.tied.precision": (
        entry_point() + entry_point("tied") + precision("int8"),
        "params last (used by stablehlo",
    ),
    "AOTC-E809 entry_points.closed.precision": (
        entry_point("closed") + precision("int8"),
        "the function closes over it",
    ),
    "AOTC-E809 entry_points.product.precision": (
        f'weights.lowest.init = "program:lowest"\n{entry_point(precision="float32")}'
        + entry_point("product").replace('params = "params"', 'params = "lowest"')
        + precision("int4"),
        "lowest value (NaN or infinities)",
    ),
    "AOTC-E809 precision.small.compute": (
        entry_point("tied") + precision("float32", 'compute = "bfloat16"\nkeep = ["*"]'),
        "no product of float32",
    ),
    "AOTC-E816 engines": (
        f'engines = ["openvino", "xla"]\n{entry_point()}[precision.small]\ncompute = "bfloat16"',
        *("openvino, xla for bfloat16 products of predict", "one of: xla"),
    ),
}


@pytest.mark.parametrize("named", REJECTED)
def test_a_precision_that_cannot_be_built(named: str, tmp_path: Path) -> None:
    (code, where), (text, *parts) = named.split(), REJECTED[named]
    found = refused(tmp_path, text)
    assert (found.code, where in found.where) == (code, True)
    said = f"{found.found} {found.expected}"
    assert [part for part in parts if part not in said] == [], said


def refused(folder: Path, text: str, head: str = HEAD) -> Finding:
    error = error_of(BuildManifestError, built, folder, text, head=head)
    return error.findings[0]
