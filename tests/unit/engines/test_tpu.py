"""TPUs: names of topologies, what is said of others, and the wheel that compiles for them."""

import sys
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError, CompileError
from aotc.compile.target_files import read_target
from aotc.engines.tpu import tpu_topologies, tpu_wheels
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import TpuDevice
from tests.refusals import error_of
from tests.unit.engines.lowering import install

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(path.stem for path in (ROOT / "targets").glob("tpu*.toml"))

GOOD = """\
schema = 1
name = "chips"
platform = "tpu"
topology = "v5e:2x4"
kinds = ["TPU v5 lite"]
devices = 8
"""


@pytest.mark.parametrize(
    ("name", "devices", "hosts", "options"),
    [
        ("v5e:1x1", 1, 1, {"chips_per_host_bounds": [1, 1, 1]}),
        ("v5e:2x4", 8, 1, {"chips_per_host_bounds": [2, 4, 1]}),
        ("v5e:4x4", 16, 4, {"chips_per_host_bounds": [2, 2, 1]}),
        ("v6e:16x16", 256, 64, {"chips_per_host_bounds": [2, 2, 1]}),
        ("v5p:2x2x4", 16, 4, {"chips_per_host_bounds": [2, 2, 1]}),
        ("tpu7x:2x2x1", 8, 1, {"chips_per_host_bounds": [2, 2, 1]}),
        ("v4:2x2x1", 4, 1, {"chips_per_host_bounds": [2, 2, 1], "chip_config_name": "megacore"}),
    ],
)
def test_names_of_devices(name: str, devices: int, hosts: int, options: dict[str, object]) -> None:
    topology = tpu_topologies.parse(name)
    assert (topology.devices, topology.hosts, topology.options) == (devices, hosts, options)


@pytest.mark.parametrize(
    ("name", "expected", "hint"),
    [
        ("v7x:2x2x1", "a TPU generation: v2, v3, v4, v5e", "docs/reference/targets.md"),
        ("V5E:2x2", "a generation (v2", "docs/reference/targets.md"),
        ("v5e:2x2x1", "chips along 2 axes for v5e", 'such as "v5e:2x4"'),
        ("v4:2x2", "chips along 3 axes for v4", 'such as "v4:2x2x1"'),
        ("v5e:3x5", "chips of one host (1x1, 2x2, 2x4)", "even"),
        ("v5e:0x1", "the chips along each axis", "docs/reference/targets.md"),
        ("", "the chips along each axis", "docs/reference/targets.md"),
        ("v5e:1x1\n", "the chips along each axis", "docs/reference/targets.md"),
    ],
)
def test_invalid_name_is_refused_with_reason(name: str, expected: str, hint: str) -> None:
    caught = error_of(tpu_topologies.UnknownTopologyError, tpu_topologies.parse, name)
    assert expected in caught.expected
    assert hint in caught.hint


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_target_has_all_devices_of_its_topology(name: str) -> None:
    target = read_target(name, ROOT)
    assert isinstance(target.device, TpuDevice)
    topology = tpu_topologies.parse(target.device.topology)
    assert target.devices == topology.devices
    assert target.device.kinds == (topology.generation.kind,)
    assert name.removeprefix("tpu-") == target.device.topology.replace(":", "-")


@pytest.mark.parametrize(
    ("old", "new", "where", "expected", "found"),
    [
        ("v5e:2x4", "v7x:2x2x1", "box.toml:4 topology", "tpu7x", '"v7x:2x2x1"'),
        ("devices = 8", "devices = 9", "box.toml:6 devices", "the 8 of v5e:2x4", "9"),
        ("TPU v5 lite", "TPU v5e", "box.toml:5 kinds", '"TPU v5 lite"', '"TPU v5e"'),
    ],
)
def test_a_target_that_contradicts_its_topology_is_refused(
    tmp_path: Path, old: str, new: str, where: str, expected: str, found: str
) -> None:
    assert old in GOOD
    (tmp_path / "box.toml").write_text(GOOD.replace(old, new))
    (finding,) = error_of(BuildManifestError, read_target, "box.toml", tmp_path).findings
    assert (finding.code, finding.where) == ("AOTC-E812", f"{tmp_path}/{where}")
    assert expected in finding.expected
    assert finding.found == found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with a jax that was made for libtpu 0.0.50, and no others."""
    pin = 'Requires-Dist: libtpu==0.0.50.*; extra == "tpu"'
    more = ('Requires-Dist: requests; extra == "tpu"', pin)
    install(tmp_path, "jax", "0.12.0.1", lines=more)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def install_libtpu(site: Path, version: str) -> Path:
    install(site, "libtpu", version, "libtpu/libtpu.so")
    return site / "libtpu" / "libtpu.so"


@pytest.mark.parametrize("version", ["0.0.50", "0.0.50.1"])
def test_the_release_that_jax_names_is_found(site: Path, version: str) -> None:
    library = install_libtpu(site, version)
    assert tpu_wheels.find() == (library, version)


def refused() -> tuple[Finding, ...]:
    return error_of(CompileError, tpu_wheels.find).findings


@pytest.mark.parametrize("version", ["0.0.48", "0.0.5", "0.0.500", "0.0.51"])
def test_another_release_is_refused_with_the_one_that_jax_names(site: Path, version: str) -> None:
    install_libtpu(site, version)
    (finding,) = refused()
    assert (finding.code, finding.where, finding.found) == ("AOTC-E907", "libtpu", version)
    assert finding.expected == "libtpu 0.0.50, for jax 0.12.0.1"
    assert finding.hint == "run `pip install libtpu==0.0.50`"


@pytest.mark.usefixtures("site")
def test_none_is_refused_with_the_extra() -> None:
    (finding,) = refused()
    assert (finding.code, finding.title) == ("AOTC-E907", "compiler is not installed")
    assert "'.[tpu]'" in finding.hint


def test_one_whose_library_is_gone_is_refused(site: Path) -> None:
    install_libtpu(site, "0.0.50").unlink()
    (finding,) = refused()
    assert finding.found == "no libtpu.so in it"
    assert "--force-reinstall libtpu==0.0.50" in finding.hint
