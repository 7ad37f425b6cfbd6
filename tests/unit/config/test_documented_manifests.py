"""The manifests and target files in build-manifest.md are good, and every key is in it."""

import re
from pathlib import Path

import pytest

from aotc.compile.compiler_registry import kind_of, platforms
from aotc.compile.target_files import read_target
from aotc.config.build_manifest import (
    DimensionSpec,
    EntryPointSpec,
    FixtureSpec,
    WeightsSpec,
    read_build_manifest,
)
from aotc.config.manifest_specs import Gates, ManifestKeys, Overrides, ToleranceSpec
from aotc.config.toml_validation import keys_of
from tests.documented import blocks_of

PATH = Path(__file__).parents[3] / "docs" / "reference" / "build-manifest.md"
PAGE = PATH.read_text("utf-8")
BLOCKS = [block.code for block in blocks_of(PATH) if block.language == "toml"]
MANIFESTS = [block for block in BLOCKS if "[entry_points." in block]
TARGETS = [block for block in BLOCKS if "triple =" in block]


def test_every_block_is_one_of_the_two() -> None:
    assert len(MANIFESTS) >= 2
    assert len(MANIFESTS) + len(TARGETS) == len(BLOCKS)


@pytest.mark.parametrize("text", MANIFESTS, ids=range(len(MANIFESTS)))
def test_documented_manifests_are_good(tmp_path: Path, text: str) -> None:
    for name in re.findall(r'^(?:source|file|results|data) = "(.*?)"', text, re.MULTILINE):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    path = tmp_path / "m.toml"
    path.write_text(text)
    assert read_build_manifest(path).entry_points


@pytest.mark.parametrize("text", TARGETS, ids=range(len(TARGETS)))
def test_documented_targets_are_good(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.toml").write_text(text)
    assert read_target("t.toml", tmp_path).devices


@pytest.mark.parametrize(
    "model",
    [
        *(ManifestKeys, WeightsSpec, DimensionSpec, EntryPointSpec, FixtureSpec, Overrides),
        *(Gates, ToleranceSpec, *(kind_of(platform).model for platform in platforms())),
    ],
    ids=lambda model: model.__name__,
)
def test_every_key_is_documented(model: type) -> None:
    for key in keys_of(model):
        assert f"`{key}`" in PAGE
