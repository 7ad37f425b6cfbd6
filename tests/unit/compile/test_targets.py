"""Target files: the ones we ship, where names are looked up, and bad ones with their messages."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError
from aotc.compile.target_files import find_target, list_targets, read_target
from aotc.compile.target_model import TRIPLES
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import CudaDevice, TpuDevice
from tests.refusals import error_of

ROOT = Path(__file__).parents[3]

GOOD = """\
schema = 1
name = "box"
platform = "cpu"
triple = "x86_64-unknown-linux-gnu"
cpu = "x86-64-v2"
features = ["sse2", "64bit", "sse2"]
tuning = ["prefer-no-gather"]
threads = 2
options = { b = "2", a = "1" }
"""

# Old and new text.  Code of the one finding, and its place in the file.  Words of its expected,
# found and hint.
# fmt: off
BAD = [
    ("x86-64-v2", "x86-64-v9", "AOTC-E812", "5 cpu", "x86-64-v4", "x86-64-v9", "did you mean"),
    (TRIPLES[0], "aarch64-apple-darwin", "AOTC-E812", "4 triple", TRIPLES[0],
     "aarch64-apple-darwin", "correct the name"),
    ('"sse2", "64bit"', '"sse9"', "AOTC-E812", "6 features[0]", "an LLVM feature", "sse9",
     "did you mean `sse"),
    ('"sse2", "64bit"', '"+sse2"', "AOTC-E812", "6 features[0]", "without sign", "+sse2",
     "did you mean `sse2`?"),
    ("prefer-no-gather", "avx2", "AOTC-E812", "7 tuning[0]", "a tuning attribute", "avx2",
     "correct the name"),
    ('["sse2", "64bit", "sse2"]', "[]", "AOTC-E805", "6 features", "at least 1", "[] (array)",
     "add the missing values"),
    ("threads = 2", "threads = 0", "AOTC-E805", "8 threads", "at least 1", "0 (integer)",
     "write a size of at least 1"),
    ("threads = 2", "threads = 5000", "AOTC-E805", "8 threads", "at most 4096", "5000 (integer)",
     "correct"),
    ("threads", "thread", "AOTC-E803", "8 thread", "threads", "thread", "did you mean `threads`?"),
    ('name = "box"\n', "", "AOTC-E804", "1 name", "", "", "add it"),
    ('"cpu"', '"xpu"', "AOTC-E805", "3 platform",
     "one of: \"cpu\", \"cuda\", \"iree\"", '"xpu"', "did you mean `"),
    ('a = "1"', "a = 1", "AOTC-E805", "9 options.a", "a string", "1 (integer)", "quotes"),
    ("schema = 1", "schema = 2", "AOTC-E810", "1 schema", "schema = 1", "2", "use the version"),
    ('schema = 1\nname = "box"\nplatform = "cpu"', 'schema = 2\nplatform = "quantum"', "AOTC-E810",
     "1 schema", "schema = 1", "2", "use the version"),
    ("x86-64-v2", "x" * 100_000, "AOTC-E812", "5 cpu", "x86-64-v4", "xxx...", "correct the name"),
    ('"sse2", "64bit"', ", ".join(['"sse9"'] * 600), "AOTC-E805", "6 features", "at most 512",
     "(array)", ""),
    ("threads = 2", "threads = ", "AOTC-E802", "8:11", "", "Invalid value", "syntax"),
]
# fmt: on


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def to_file(text: str) -> Path:
        (tmp_path / "box.toml").write_text(text)
        return tmp_path

    return to_file


@pytest.mark.parametrize(("old", "new", "code", "where", "expected", "found", "hint"), BAD)
def test_a_bad_target_is_one_finding_with_its_place_and_what_to_do(
    write: Callable[[str], Path],
    old: str,
    new: str,
    code: str,
    where: str,
    expected: str,
    found: str,
    hint: str,
) -> None:
    assert old in GOOD
    folder = write(GOOD.replace(old, new))
    caught = error_of(BuildManifestError, read_target, "box.toml", folder)
    finding: Finding
    (finding,) = caught.findings
    assert (finding.code, finding.where) == (code, f"{folder}/box.toml:{where}")
    assert expected in finding.expected
    assert found in finding.found
    assert hint in finding.hint
    assert len(str(finding)) < 5000


def test_a_good_target_is_sorted_and_without_repetition(write: Callable[[str], Path]) -> None:
    target = read_target("box.toml", write(GOOD))
    assert target.features == ("64bit", "sse2")
    assert list(target.options) == ["a", "b"]
    assert (target.name, target.cpu, target.threads) == ("box", "x86-64-v2", 2)


@pytest.mark.parametrize("path", sorted((ROOT / "targets").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_targets_have_their_file_name_and_a_description(path: Path) -> None:
    (found,) = [model for place, model in list_targets(ROOT)[0].items() if place == path]
    assert found.name == path.stem
    assert found.description


CUDA = """\
schema = 1
name = "boxes"
platform = "cuda"
device = "NVIDIA H100 80GB HBM3"
changes = { core_count = "114" }
compute_capability = "9.0"
kinds = ["NVIDIA H200", "NVIDIA H100 PCIe"]
devices = 4
"""
TPU = (
    'schema = 1\nname = "chips"\nplatform = "tpu"\ntopology = "v5e:2x2"\nkinds = ["TPU v5 lite"]\n'
)


def test_the_platform_decides_what_describes_a_device(write: Callable[[str], Path]) -> None:
    boxes = read_target("box.toml", write(CUDA))
    assert boxes.device == CudaDevice(
        description="NVIDIA H100 80GB HBM3",
        compute_capability="9.0",
        kinds=("NVIDIA H100 PCIe", "NVIDIA H200"),
        changes={"core_count": "114"},
    )
    assert (boxes.platform, boxes.devices, boxes.triple, boxes.cpu) == ("cuda", 4, TRIPLES[0], "")
    chips = read_target("box.toml", write(TPU))
    assert chips.device == TpuDevice(topology="v5e:2x2", kinds=("TPU v5 lite",))
    assert chips.devices == 1


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "where"),
    [
        (CUDA, 'device = "NVIDIA H100 80GB HBM3"\n', "", "AOTC-E804", "box.toml:1 device"),
        (CUDA, '"9.0"', '"9"', "AOTC-E805", "box.toml:6 compute_capability"),
        (CUDA, '"9.0"', '"sm_90"', "AOTC-E805", "box.toml:6 compute_capability"),
        (CUDA, '"9.0"', '"09.0"', "AOTC-E805", "box.toml:6 compute_capability"),
        (CUDA, '"9.0"', '"٩.٠"', "AOTC-E805", "box.toml:6 compute_capability"),
        (CUDA, '"9.0"', '"100.0"', "AOTC-E805", "box.toml:6 compute_capability"),
        (CUDA, "devices = 4", "devices = 0", "AOTC-E805", "box.toml:8 devices"),
        (CUDA, "devices = 4", "threads = 4", "AOTC-E803", "box.toml:8 threads"),
        (TPU, '["TPU v5 lite"]', "[]", "AOTC-E805", "box.toml:5 kinds"),
        (TPU, "topology", "architecture", "AOTC-E803", "box.toml:4 architecture"),
        (GOOD, 'platform = "cpu"\n', "platform = 1\n", "AOTC-E805", "box.toml:3 platform"),
    ],
)
def test_a_bad_accelerator_is_refused_in_the_words_of_its_platform(
    write: Callable[[str], Path], text: str, old: str, new: str, code: str, where: str
) -> None:
    assert old in text
    folder = write(text.replace(old, new))
    caught = error_of(BuildManifestError, read_target, "box.toml", folder)
    found = {(finding.code, finding.where) for finding in caught.findings}
    assert (code, f"{folder}/{where}") in found


def test_higher_levels_have_the_features_of_lower_ones() -> None:
    v3, v4 = (set(read_target(f"cpu-x86-64-{v}", ROOT).features) for v in ("v3", "v4"))
    assert v3 < v4
    assert all(name.startswith("avx512") for name in v4 - v3)


def test_the_nearest_target_of_a_name_wins(tmp_path: Path) -> None:
    near, above = tmp_path / "project" / "targets", tmp_path / "targets"
    for folder in (near, above):
        folder.mkdir(parents=True)
        (folder / "box.toml").write_text(GOOD)
    assert find_target("box", tmp_path / "project", "targets") == near / "box.toml"
    (near / "box.toml").unlink()
    assert find_target("box", tmp_path / "project", "targets") == above / "box.toml"


@pytest.mark.parametrize("name", ["box", "", "box.toml", "gone/box", "../box.toml", "./"])
def test_missing_target_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    caught = error_of(BuildManifestError, read_target, name, tmp_path, "m.toml targets")
    (finding,) = caught.findings
    assert (finding.code, finding.where) == ("AOTC-E811", "m.toml targets")
    assert finding.found == f'"{name}"{", which is not a file" if name == "./" else ""}'


def test_a_broken_file_and_a_pipe_keep_no_other_target_from_being_used(tmp_path: Path) -> None:
    folder = tmp_path / "targets"
    folder.mkdir()
    (folder / "box.toml").write_text(GOOD)
    (folder / "broken.toml").write_text("schema = 1\n")
    os.mkfifo(folder / "pipe.toml")
    models, findings = list_targets(tmp_path)
    assert folder / "box.toml" in models
    assert {finding.where.partition(":")[0] for finding in findings} == {f"{folder}/broken.toml"}
    assert error_of(BuildManifestError, read_target, "boks", tmp_path).code == "AOTC-E811"
