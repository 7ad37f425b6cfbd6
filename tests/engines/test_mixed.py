"""Targets whose executables several engines made: XLA and each of the others."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import UsageError
from aotc.base.evidence import MIXED, Evidence
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.commands.certify.certify_bundle import certifiable
from aotc.commands.tune.tuning_service import Measure
from aotc.config import tuning_file
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc.report.inspect_report import manifest_report
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.schema.bundle_manifest import engine_of
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import Once
from tests.engines import sums
from tests.engines.conftest import ENGINES, Other
from tests.engines.mixing import TARGET, make_mixed
from tests.hostile.tampering import Documents, in_memory, take_apart
from tests.refusals import error_of
from tests.running import python


@pytest.fixture(scope="session")
def mixed(other: Other, once: Once) -> Path:
    """A folder with the bundle and its policy."""

    def made(folder: Path) -> None:
        _, recorded = make_mixed(sums.write(folder, f'"xla", {other.listed}'), folder, other.name)
        (folder / "tuning.json").write_bytes(tuning_file.encode(recorded.file))

    return once(f"{other.name}-mixed", made)


def load(mixed: Path) -> Any:
    return aotc_runtime.load(mixed / "mixed.aotb", trust=mixed / "trust.toml")


def test_manifest_names_engine_of_each_executable(mixed: Path, other: Other) -> None:
    manifest = take_apart(in_memory(mixed / "mixed.aotb")).manifest
    assert manifest["target"]["platform"] == manifest["requires"]["platform"] == "cpu"
    (needs,) = manifest["requires"]["engines"].values()
    assert needs["plugin"] == other.runtime
    assert needs["accepts_plugin"] == [manifest["built_with"]["tools"][other.compiler]]
    points = manifest["entry_points"]
    stated = [record.get("platform") for each in points.values() for record in each["profiles"]]
    assert stated == [None, other.name, None]


def test_executables_equal_those_of_one_engine(mixed: Path, other: Other) -> None:
    alone = {
        name: take_apart(in_memory(mixed / f"{name}.aotb")).manifest["entry_points"]
        for name in ("xla", other.name)
    }
    points = take_apart(in_memory(mixed / "mixed.aotb")).manifest["entry_points"]
    for name, place, engine in (
        ("predict", 0, "xla"),
        ("predict", 1, other.name),
        ("step", 0, "xla"),
    ):
        mine = points[name]["profiles"][place]
        assert mine["executable"] == alone[engine][name]["profiles"][place]["executable"]


def test_calls_equal_one_engine_and_report_who_served(mixed: Path, other: Other) -> None:
    with load(mixed) as loaded:
        predict = loaded["predict"]
        np.testing.assert_allclose(predict(sums.IMAGE)["scores"], sums.SCORES, atol=1e-5)
        np.testing.assert_allclose(predict(sums.IMAGE[:1])["scores"], sums.SCORES[:1], atol=1e-5)
        np.testing.assert_allclose(predict(sums.IMAGE[:3])["scores"], sums.SCORES[:3], atol=1e-5)
        report = loaded.report()
    assert report["engines"] == {
        "predict[batch=1]": "xla",
        "predict[batch=4]": other.name,
        "step": "xla",
    }
    assert report["entry_points"]["predict"]["calls"] == {
        "predict[batch=1]": 1,
        "predict[batch=4]": 2,
    }
    assert report["entry_points"]["predict"]["conversions"] == {}
    json.dumps(report)


def test_result_passed_to_another_engine_is_converted(mixed: Path, other: Other) -> None:
    with (
        load(mixed) as loaded,
        aotc_runtime.load(mixed / f"{other.name}.aotb", trust=mixed / "trust.toml") as alone,
    ):
        state, _ = alone["step"].on_device(np.zeros(5, np.float32), np.int32(1))
        again, total = loaded["step"].on_device(state, np.int32(3))
        assert np.asarray(again).tolist() == [0, 1, 0, 1, 0]
        assert float(np.asarray(total)) == 4.0
        caught = error_of(aotc_runtime.ShapeError, loaded["step"], state, np.int32(0))
        assert caught.code == "AOTC-E631", "a donated array is used up by any engine"
        assert loaded.report()["entry_points"]["step"]["conversions"] == {f"{other.name} to xla": 1}
        scores = loaded["predict"].on_device(sums.IMAGE)["scores"]
        assert scores.device.platform == other.name
        np.testing.assert_allclose(np.asarray(scores), sums.SCORES, atol=1e-5)
        one = loaded["predict"].on_device(sums.IMAGE[:1])["scores"]
        assert one.device.platform == "cpu"
        joined = loaded["predict"](sums.IMAGE)["scores"]
        np.testing.assert_allclose(joined, sums.SCORES, atol=1e-5)


def test_a_bundle_that_is_closed_gives_nothing_to_either_engine(mixed: Path) -> None:
    loaded = load(mixed)
    kept = loaded["predict"](sums.IMAGE)["scores"]
    loaded.close()
    np.testing.assert_allclose(
        kept, sums.IMAGE @ sums.KERNEL + np.arange(3, dtype=np.float32), atol=1e-5
    )
    assert error_of(aotc_runtime.ShapeError, loaded["predict"], sums.IMAGE).code == "AOTC-E633"


@pytest.mark.parametrize("lacking", ["jaxlib", "the other"])
def test_verify_names_every_package_that_lacks(mixed: Path, other: Other, lacking: str) -> None:
    package = "jaxlib" if lacking == "jaxlib" else other.package
    program = sums.WITHOUT_PACKAGE.replace("PACKAGE", package)
    done = python("-c", program, "verify", mixed / "mixed.aotb", "--trust", mixed / "trust.toml")
    assert done.returncode == 6, done.stdout + done.stderr
    named = "jaxlib==" if lacking == "jaxlib" else other.runtime
    assert "AOTC-E405" in done.stderr and named in done.stderr


def test_verify_and_inspect_say_both(mixed: Path, other: Other) -> None:
    done = python(
        *("-m", "aotc_runtime", "verify", mixed / "mixed.aotb"),
        *("--trust", mixed / "trust.toml", "--json"),
    )
    assert json.loads(done.stdout)["engines"] == ["xla", other.name]
    built = aotc_runtime.load(mixed / "mixed.aotb", trust=mixed / "trust.toml")
    document = manifest_report(built.manifest)
    profiles = document["entry_points"]["predict"]["profiles"]
    assert [each["engine"] for each in profiles] == ["xla", other.name]
    caught = error_of(AotcError, certifiable, {TARGET: built.manifest}, None, ())
    assert caught.code == "AOTC-E505"


@pytest.mark.parametrize("accepted", ["xla", "the other", "both"])
def test_policy_must_accept_every_used_engine(mixed: Path, other: Other, accepted: str) -> None:
    names = {"xla": ["xla"], "the other": [other.name], "both": ["xla", other.name]}[accepted]
    text = (mixed / "trust.toml").read_text()
    policy = mixed / f"trust-{accepted.replace(' ', '-')}.toml"
    head, keys = text.split("[[keys]]", 1)
    policy.write_text(f"{head}engines = {json.dumps(names)}\n\n[[keys]]{keys}")
    assert read_policy(policy).engines == tuple(names)
    if accepted == "both":
        aotc_runtime.load(mixed / "mixed.aotb", trust=policy).close()
        return
    with pytest.raises(aotc_runtime.TrustError) as caught:
        aotc_runtime.load(mixed / "mixed.aotb", trust=policy)
    assert caught.value.code == "AOTC-E322"
    assert caught.value.findings[0].found == ({other.name, "xla"} - {*names}).pop()


def test_the_same_choices_give_the_same_bytes(mixed: Path, other: Other, tmp_path: Path) -> None:
    recorded = tuning_file.read(mixed / "tuning.json")
    manifest = sums.write(tmp_path / "elsewhere", f'"xla", {other.listed}')
    again = build(
        manifest,
        tmp_path / "again.aotb",
        BuildOptions(signer=LocalSigner.ephemeral(), tuning=recorded),
    )
    with load(mixed) as loaded:
        assert loaded.root_digest == again.bundle.root_digest
    assert again.tuning_file == recorded.file


def test_file_of_an_unlisted_engine_is_refused(mixed: Path, tmp_path: Path) -> None:
    recorded = tuning_file.read(mixed / "tuning.json")
    with pytest.raises(UsageError) as caught:
        build(sums.write(tmp_path, '"xla"'), tmp_path / "no.aotb", BuildOptions(tuning=recorded))
    assert caught.value.code == "AOTC-E031"


def test_measuring_takes_the_best_engine_for_each_executable(other: Other, tmp_path: Path) -> None:
    path = sums.write(tmp_path, f'"xla", {other.listed}')
    path.write_text(path.read_text() + "\n[tune]\nmixed = true\n")
    built = build(
        path, tmp_path / "sums.aotb", BuildOptions(signer=LocalSigner.ephemeral(), tuning=Measure())
    )
    manifest = built.bundle.manifests[TARGET]
    records = [p for each in manifest.entry_points.values() for p in each.profiles]
    used = {engine_of(manifest.platform_of(record)) for record in records}
    assert [record.tuned.choice.partition("-")[0] for record in records if record.tuned] == [
        engine_of(manifest.platform_of(record)) for record in records
    ]
    documents = take_apart(in_memory(tmp_path / "sums.aotb"))
    evidence = documents.layers[documents.manifest["evidence"]["digest"]]
    choice = canonical_json.decode(evidence, Evidence, where="evidence").chosen
    assert choice
    assert (choice.engine == MIXED) == (len(used) > 1)


def _all_on(platform: str | None, documents: Documents) -> None:
    for each in documents.manifest["entry_points"].values():
        for record in each["profiles"]:
            record.update(platform=platform) if platform else record.pop("platform", None)


def _needing(platform: str, documents: Documents, other: str) -> None:
    needs = documents.manifest["requires"]["engines"]
    needs[platform] = needs[other]
    _of(documents, "step").update(platform=platform)


def _of(documents: Documents, name: str, profile: int = 0) -> Any:
    return documents.manifest["entry_points"][name]["profiles"][profile]


CONTRADICTIONS: dict[str, tuple[Callable[[Documents, str], None], str]] = {
    "an engine that is not listed": (
        lambda d, _: d.manifest["requires"].pop("engines"),
        "no other platforms",
    ),
    "an engine for nothing": (lambda d, _: _all_on(None, d), "an executable for"),
    "a target's engine for nothing": (lambda d, other: _all_on(other, d), "an executable for cpu"),
    "no platform": (lambda d, _: _of(d, "step").update(platform=""), "of requires.engines"),
    "a device of XLA's": (
        lambda d, other: _needing("cuda", d, other),
        "XLA as the target's own engine",
    ),
    "custom calls of another engine": (
        lambda d, _: _of(d, "predict", 1).update(custom_call_targets=["lapack_spotrf_ffi"]),
        "no custom calls",
    ),
    "one engine on two devices": (
        lambda d, other: _needing(f"{other}-gpu", d, other),
        "each engine once",
    ),
}


@pytest.mark.parametrize("which", CONTRADICTIONS)
def test_contradictions_are_refused(mixed: Path, other: Other, which: str, tmp_path: Path) -> None:
    change, expected = CONTRADICTIONS[which]
    bundle = mixed / "mixed.aotb"
    path, policy = sums.changed(bundle, tmp_path, lambda documents: change(documents, other.name))
    caught = error_of(BundleFormatError, aotc_runtime.load, path, trust=policy)
    assert caught.code == "AOTC-E118"
    assert any(expected in found.expected for found in caught.findings)


@pytest.mark.parametrize("whose", ["XLA's", "the other's"])
def test_mislabelled_file_is_refused(mixed: Path, other: Other, whose: str, tmp_path: Path) -> None:
    """Every engine but XLA's own code is left in place, so that one executable alone lies."""

    def change(documents: Documents) -> None:
        points = documents.manifest["entry_points"]
        if whose == "XLA's":
            points["step"]["profiles"][0]["platform"] = other.name
        else:
            # Both of its profiles are swapped, so that each engine still has one.
            del points["predict"]["profiles"][1]["platform"]
            points["predict"]["profiles"][0]["platform"] = other.name

    sums.refused_by_a_server(mixed / "mixed.aotb", tmp_path, change)


GOLDEN = Path(__file__).parents[1] / "golden"
BUILT_WITH = {"jaxlib": "0.12.0.1", "iree-base-runtime": "3.13.0"}


@pytest.mark.parametrize("engine", [ENGINES[0].as_param()])
def test_the_golden_bundle_of_two_engines_is_loaded(engine: Other, tmp_path: Path) -> None:
    if {name: version(name) for name in BUILT_WITH} != BUILT_WITH:
        pytest.skip(f"these executables were built with {BUILT_WITH}")
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("sums", [(GOLDEN / "golden.pub").read_text()]))
    with aotc_runtime.load(GOLDEN / "sums.aotb", trust=policy) as loaded:
        np.testing.assert_allclose(loaded["predict"](sums.IMAGE)["scores"], sums.SCORES, atol=1e-5)
        assert {*loaded.report()["engines"].values()} == {"xla", engine.name}


@pytest.mark.parametrize(
    ("engines", "more", "found"),
    [('"xla"', "", None), ('"xla", "iree"', 'objective = "start"', 'objective = "start"')],
)
def test_mixed_needs_latency(tmp_path: Path, engines: str, more: str, found: str | None) -> None:
    path = sums.write(tmp_path, engines)
    path.write_text(f"{path.read_text()}\n[tune]\nmixed = true\n{more}\n")
    caught = error_of(AotcError, sums.make, tmp_path, path)
    assert caught.code == "AOTC-E809"
    assert found in (None, caught.findings[0].found)
