"""Bundles that this x86-64 host builds for Arm, in the production loader on emulated processors."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import emulated
import jax_free
import pytest
from example_programs import EXAMPLES, require_same

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from tests.conftest import MANIFESTS, Bundle, Once
from tests.engines.conftest import ENGINES, Other
from tests.engines.test_graph_quantized import write_small
from tests.hostile.tampering import in_memory, take_apart
from tests.running import python

pytestmark = [pytest.mark.arm, pytest.mark.limit(3600)]

ON = {
    "cpu-armv8.2-a": "neoverse-n1",
    "cpu-neoverse-n1": "neoverse-n1",
    "cpu-neoverse-v1": "neoverse-v1",
    "cpu-neoverse-v2": "neoverse-n2",
    "cpu-apple-m1": "max,sve=off",
}
"""Each target with the least of qemu's processors that has its features."""


On = Callable[[str], emulated.Emulator]


@pytest.fixture(scope="session")
def arm_bundle(once: Once) -> Callable[[str], Bundle]:
    """An example by name, built for every Arm target, once per test run."""

    def built(name: str) -> Bundle:
        def fill(folder: Path) -> None:
            emulated.arm("max")
            signer = LocalSigner.ephemeral()
            output, manifest = folder / f"{name}.aotb", MANIFESTS / f"{name}.toml"
            build(manifest, output, BuildOptions(targets=[*ON], signer=signer))
            (folder / "trust.toml").write_text(policy_text(name, [signer.public_pem()]))

        folder = once(f"arm-{name}", fill)
        return folder / f"{name}.aotb", folder / "trust.toml"

    return built


@pytest.fixture
def on(tmp_path: Path) -> On:
    """The loader on a processor, by qemu's name for it."""
    return lambda cpu: emulated.Emulator(emulated.arm(cpu), tmp_path)


@pytest.mark.parametrize("target", ON)
@pytest.mark.parametrize("name", ["digits", "vision", "lm"])
def test_a_program_answers_as_plain_jax_does_here(
    arm_bundle: Callable[[str], Bundle], name: str, target: str, tmp_path: Path
) -> None:
    example, server = EXAMPLES[name], emulated.arm(ON[target])
    inputs, bundle = example.inputs(), arm_bundle(name)
    outputs, report = jax_free.run(
        example.client, bundle, tmp_path, inputs, target=target, server=server
    )
    assert (report["target"], report["engine"]) == (target, "iree")
    require_same(outputs, example.expected(inputs), example)


ABOVE = {
    "cpu-neoverse-v2": "bf16, complxnum, fp16fml, i8mm, jsconv, sve, sve2, sve2-bitperm",
    "cpu-neoverse-v1": "bf16, complxnum, fp16fml, i8mm, jsconv, sve",
    "cpu-apple-m1": "complxnum, fp16fml, jsconv",
}
"""What the code of these targets uses and a Neoverse N1 lacks."""


GRAPHS = [each.as_param() for each in ENGINES if each.name == "onnxruntime"]
FILES = Path(__file__).parents[1] / "unit" / "frontends" / "pytorch" / "files"
MODEL = """
schema = 1
name = "convolutions"
version = "1.0.0"
targets = ["cpu-neoverse-n1"]
engines = [ENGINE]

[dimensions.batch]
range = [1, 8]
profiles = [2, 8]

[entry_points.forward]
source = "convolutions.pt2"
inputs.image = { shape = ["batch", 2, 6, 6], dtype = "float32" }
"""


@pytest.mark.parametrize("name", ["digits", "vision", "lm", "convolutions", "small"])
@pytest.mark.parametrize("engine", GRAPHS)
def test_graphs_give_plain_jax_results(engine: Other, name: str, on: On, tmp_path: Path) -> None:
    targets = ["cpu-neoverse-n1", "cpu-neoverse-v1", "cpu-neoverse-v2"]
    manifest = tmp_path / f"{name}.toml"
    if name == "small":
        write_small(
            tmp_path,
            bits="int8",
            activations="dynamic",
            target=targets[0],
            engines=f"engines = [{engine.listed}]",
            keys="tolerance = { rtol = 1e-4, atol = 1e-5 }",
        )
    elif name == "convolutions":
        shutil.copy(FILES / "convolutions.pt2", tmp_path)
        manifest.write_text(MODEL.replace("ENGINE", engine.listed))
    else:
        shutil.copytree(MANIFESTS / name, tmp_path / name)
        text = (MANIFESTS / f"{name}.toml").read_text()
        manifest.write_text(text.replace("targets = ", f"engines = [{engine.listed}]\ntargets = "))
    signer, bundle = LocalSigner.ephemeral(), (tmp_path / f"{name}.aotb", tmp_path / "trust.toml")
    build(manifest, bundle[0], BuildOptions(targets=targets, signer=signer))
    bundle[1].write_text(policy_text(name, [signer.public_pem()]))
    # The load calls every fixture, and compares.
    for target in targets:
        said = on(ON[target]).load(bundle, target=target)
        assert not said.codes
        assert said.document["report"]["engine"] == engine.name


PROGRAM = """
import jax.numpy as jnp

def f(x):
    return jnp.tanh(x) @ x.T
"""
NATIVE = """
schema = 1
name = "native"
version = "1.0.0"
targets = ["native"]

[entry_points.f]
function = "program:f"
inputs.x = { shape = [4, 8], dtype = "float32" }
"""


def test_an_arm_host_builds_for_itself_with_xla(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "native.toml").write_text(NATIVE)
    host, bundle = emulated.arm_toolchain("neoverse-n1", tmp_path), tmp_path / "native.aotb"
    words = ["-m", "aotc.cli.main", "build", "native.toml", "-o", str(bundle), "--cache", "off"]
    done = subprocess.run(
        [*host.command, *words],
        env={**os.environ, **host.environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (target,) = take_apart(in_memory(bundle)).targets
    assert target.manifest["target"]["triple"] == "aarch64-unknown-linux-gnu"
    # Its parity is that of calls of the executable in the emulated host.
    (profile,) = target.manifest["entry_points"]["f"]["profiles"]
    assert profile["parity"]["status"] == "ran"


def test_missing_features_reject_targets(arm_bundle: Callable[[str], Bundle], on: On) -> None:
    said = on("neoverse-n1").verify(arm_bundle("digits"))
    assert (said.exit_code, said.document["target"]) == (0, "cpu-neoverse-n1")
    candidates = {each["target"]: each for each in said.document["target_reason"]["candidates"]}
    assert {name for name, each in candidates.items() if not each["fits"]} == {*ABOVE}
    for name, lacking in ABOVE.items():
        (finding,) = candidates[name]["findings"]
        assert finding["code"] == "AOTC-E502"
        assert finding["expected"] == lacking


@pytest.mark.parametrize(
    ("cpu", "fits"),
    [
        ("cortex-a76", {"cpu-armv8.2-a", "cpu-neoverse-n1"}),
        ("neoverse-v1", {*ON} - {"cpu-neoverse-v2"}),
        ("max,sve=off", {*ON} - {"cpu-neoverse-v1", "cpu-neoverse-v2"}),
        ("max", {*ON}),
    ],
)
def test_which_targets_fit_a_processor(
    arm_bundle: Callable[[str], Bundle], on: On, cpu: str, fits: set[str]
) -> None:
    found = emulated.fitting(on(cpu).verify(arm_bundle("digits")))
    assert found == {target: [] if target in fits else ["AOTC-E502"] for target in ON}


def test_processor_before_armv8_2_rejected(arm_bundle: Callable[[str], Bundle], on: On) -> None:
    said = on("cortex-a53").load(arm_bundle("digits"), target="cpu-armv8.2-a")
    (finding,) = said.document["findings"]
    assert finding["code"] == "AOTC-E502"
    assert finding["expected"] == "lse, rdm"
    assert "iree._runtime_libs._runtime" not in said.document["loaded"]


def test_unchecked_bundle_dies_of_illegal_code(arm_bundle: Callable[[str], Bundle], on: On) -> None:
    bundle = arm_bundle("digits")
    assert on("neoverse-n1").load(bundle, target="cpu-neoverse-v1").document["findings"]
    said = on("neoverse-n1").load(bundle, target="cpu-neoverse-v1", without_check="check_isa")
    assert said.exit_code == emulated.SIGILL


def test_bundle_for_aarch64_is_rejected_on_this_host(arm_bundle: Callable[[str], Bundle]) -> None:
    path, policy = arm_bundle("digits")
    done = python("-m", "aotc_runtime", "verify", path, "--trust", policy, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (7, False)
    told = [each["findings"][0] for each in document["target_reason"]["candidates"]]
    assert {finding["code"] for finding in told} == {"AOTC-E501"}
    assert {finding["expected"] for finding in told} == {"iree aarch64 linux glibc"}
