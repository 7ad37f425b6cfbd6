"""The names in index.json, by which registries' tools copy a bundle and what is attached to it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.oci_descriptors import descriptor_of, layout_index
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Descriptor
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified

TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
"""Of a registry, by the distribution specification."""

GOLDEN = Path(__file__).parents[3] / "golden"


def names(bundle: Path) -> list[str]:
    index = json.loads(bytes(open_bundle(bundle).file("index.json") or b""))
    return [each["annotations"][oci_layout.NAME_ANNOTATION] for each in index["manifests"]]


def test_each_entry_has_a_name_of_its_own_that_is_a_tag(digits_bundle: tuple[Path, Path]) -> None:
    found = names(digits_bundle[0])
    root = read_unverified(open_bundle(digits_bundle[0]))[0].root_digest
    assert found[0] == "1.0.0"
    assert all(name.startswith(root.replace(":", "-") + ".") for name in found[1:])
    assert len(set(found)) == len(found) == 3 and all(TAG.match(name) for name in found)


def test_signing_names_what_is_there_and_what_is_added(tmp_path: Path) -> None:
    """Also in a bundle of the first format, whose root stays as it is."""
    bundle = Path(shutil.copyfile(GOLDEN / "digits.aotb", tmp_path / "b.aotb"))
    before = read_unverified(open_bundle(bundle))[0].root_digest
    endorse(bundle, LocalSigner.ephemeral())
    found = names(bundle)
    assert found[0] == "1.0.0" and len(set(found)) == 4
    assert read_unverified(open_bundle(bundle))[0].root_digest == before


@pytest.mark.parametrize(
    ("version", "name"), [("1.2.0-rc1", "1.2.0-rc1"), ("1.0.0+cpu x", "1.0.0_cpu_x")]
)
def test_a_version_becomes_a_name_that_tools_take(version: str, name: str) -> None:
    contents, _ = read_unverified(open_bundle(GOLDEN / "digits.aotb"))
    (manifest,) = contents.manifests.values()
    fields = {field: getattr(manifest, field) for field in manifest.__struct_fields__}
    other = type(manifest)(**{**fields, "version": version})
    index = layout_index(descriptor_of(Descriptor, b"", oci_layout.INDEX_TYPE), [], {"x": other})
    assert index.manifests[0].annotations == {oci_layout.NAME_ANNOTATION: name}
