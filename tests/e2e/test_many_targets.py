"""One program for two targets: built in one go, or apart and merged, cut down again, and served."""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.compat.compat_matrix import matrix
from aotc.commands.merge.merged_bundle import merge_bundles
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import examine, read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import Once, manifest_of

PROGRAM = """
import jax.numpy as jnp

def score(params, x):
    return jnp.tanh(x @ params["w"]).sum(axis=1)

def init():
    return {"w": jnp.linspace(-1, 1, 512 * 512, dtype="float32").reshape(512, 512)}
"""

MANIFEST = manifest_of("""
name = "small"
[weights.params]
init = "program:init"
[dimensions.batch]
range = [1, 8]
profiles = [1, 8]
[entry_points.score]
function = "program:score"
bind = { params = "params" }
inputs.x = { shape = ["batch", 512], dtype = "float32" }
""")

V3, V4 = "cpu-x86-64-v3", "cpu-x86-64-v4"


@dataclass(frozen=True)
class Bundles:
    """one, two: for a target each.  both: of one build.  merged: of one and two."""

    one: Path
    two: Path
    both: Path
    merged: Path
    trust: Path


@pytest.fixture(scope="module")
def bundles(once: Once) -> Bundles:
    folder = once("targets", build_apart_and_together)
    paths = (folder / f"{name}.aotb" for name in ("one", "two", "both", "merged"))
    return Bundles(*paths, folder / "trust.toml")


def build_apart_and_together(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    manifest = folder / "manifest.toml"
    manifest.write_text(MANIFEST)
    signer = LocalSigner.ephemeral()
    trust = folder / "trust.toml"
    trust.write_text(policy_text("small", [signer.public_pem()]))
    one, two, both, merged = (folder / f"{n}.aotb" for n in ("one", "two", "both", "merged"))
    build(manifest, one, BuildOptions(signer=signer))
    build(manifest, two, BuildOptions(targets=[V4], signer=signer))
    build(manifest, both, BuildOptions(targets=[V4, V3], signer=signer))
    merge_bundles([two, one], merged, Form.ARCHIVE, read_policy(trust), signer, datetime.now(UTC))


def test_merging_two_builds_gives_the_root_of_one_build_for_both(bundles: Bundles) -> None:
    roots = [read_unverified(open_bundle(p))[0].root_digest for p in (bundles.merged, bundles.both)]
    assert roots[0] == roots[1]


def test_the_loader_takes_the_best_target_for_this_host_and_says_why(bundles: Bundles) -> None:
    x = np.linspace(-1, 1, 8 * 512, dtype=np.float32).reshape(8, 512)
    has_v4 = "avx512f" in detect().isa
    w = np.linspace(-1, 1, 512 * 512, dtype=np.float32).reshape(512, 512)
    with aotc_runtime.load(bundles.merged, trust=bundles.trust) as loaded:
        np.testing.assert_allclose(loaded["score"](x), np.tanh(x @ w).sum(1), rtol=1e-3, atol=1e-2)
        report = json.loads(json.dumps(loaded.report()))
    assert report["target"] == (V4 if has_v4 else V3)
    reason = report["target_reason"]
    assert (reason["rule"], reason["absent"]) == ("most processor features", [])
    fits = {candidate["target"]: candidate["fits"] for candidate in reason["candidates"]}
    assert fits == {V3: True, V4: has_v4}
    with aotc_runtime.load(bundles.merged, trust=bundles.trust, target=V3) as loaded:
        assert loaded.report()["target_reason"]["rule"] == "named"


def test_what_compat_says_is_what_the_verifier_says(bundles: Bundles) -> None:
    """On this host, and on it as if it had less."""
    here = detect()
    contents, _ = read_unverified(open_bundle(bundles.merged))
    policy = read_policy(bundles.trust)
    for lacks in ((), ("avx512",), ("avx",)):
        features = frozenset(f for f in here.isa if not f.startswith(lacks or "-"))
        facts = msgspec.structs.replace(here, isa=features)
        verdict = examine(open_bundle(bundles.merged), policy, facts, time.time())
        (row,) = matrix(contents.manifests, {"here": facts}, [], [])
        assert row.runs == (verdict.target if "host" in verdict.gates else None)
        told = [finding for cell in row.cells for finding in cell.findings]
        assert set(verdict.findings) <= set(told)
