"""Assets: files that travel with a program are verified, listed and handed over as they were."""

import json
import os
import stat
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_programs import build_trusted

import aotc_runtime
from aotc.base.errors import BuildManifestError, CaptureError
from aotc.bundle.read.bundle_review import Review, review
from aotc.bundle.write.bundle_writer import Form, pack
from aotc.capture import file_digests
from aotc.commands.diff.bundle_diff import diff
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import check_same_source, merge, target_parts_of
from aotc.commands.report_page.page_renderer import page_of, render
from aotc.commands.reproduce.rebuilt_bundle import reproduce
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline import asset_files
from aotc.pipeline.asset_files import read_assets, with_card
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.parity_check import manifest_parts
from aotc.report.inspect_report import bundle_report
from aotc.report.report_text import print_bundle
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle, Once
from tests.hostile.doors import toolchain
from tests.refusals import error_of

MANIFEST = """
schema = 1
name = "words"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
license = "Apache-2.0 OR MIT"
owners = ["Words team <words@example.org>"]
[assets]
tokenizer = "tokenizer"
labels = "labels.txt"
[weights.w]
init = "program:weights"
[entry_points.f]
function = "program:f"
bind = { w = "w" }
inputs.x = { shape = [4], dtype = "float32" }
"""
PROGRAM = """
import numpy as np

def weights():
    return np.arange(4, dtype=np.float32)

def f(w, x):
    return x * w
"""
# `{}` is also the config of every attestation.
FILES = {"special_tokens.json": b"{}", "empty.txt": b"", "model/vocab-1.txt": b"a\nb\n" * 500}
LABELS = b"cat\ndog\n"


def write_project(folder: Path) -> Path:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "labels.txt").write_bytes(LABELS)
    for path, data in FILES.items():
        (folder / "tokenizer" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer" / path).write_bytes(data)
    (folder / "words.toml").write_text(MANIFEST)
    return folder / "words.toml"


@pytest.fixture(scope="module")
def words(once: Once) -> Bundle:
    def fill(folder: Path) -> None:
        bill = folder / "words.cdx.json"
        build_trusted(write_project(folder), folder / "words.aotb", sbom=bill)

    folder = once("words", fill)
    return folder / "words.aotb", folder / "trust.toml"


def bytes_of(asset: aotc_runtime.LoadedAsset) -> dict[str, bytes]:
    return {path: bytes(data) for path, data in asset.files.items()}


def test_loaded_assets_are_the_files_of_the_build(words: Bundle) -> None:
    with aotc_runtime.load(words[0], trust=words[1]) as bundle:
        tokenizer, labels = bundle.assets["tokenizer"], bundle.assets["labels"]
        assert (tokenizer.is_folder, bytes_of(tokenizer)) == (True, FILES)
        assert (labels.is_folder, labels.data) == (False, LABELS)
        assert all(data.readonly for data in tokenizer.files.values())
        with pytest.raises(TypeError):
            tokenizer.data  # noqa: B018 - a property
    assert bytes_of(tokenizer) == FILES, "after the bundle is closed"


def test_paths_of_assets_are_private_copies(words: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "words.aotb"
    path.write_bytes(words[0].read_bytes())
    with aotc_runtime.load(path, trust=words[1]) as bundle:
        path.write_bytes(b"\0" * path.stat().st_size)  # as no deployment should
        tokenizer, labels = bundle.assets["tokenizer"], bundle.assets["labels"]
        with tokenizer.as_path() as folder, labels.as_path() as file:
            found = {p: (folder / p).read_bytes() for p in FILES}
            assert (found, file.name, file.read_bytes()) == (FILES, "labels.txt", LABELS)
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert not file.parent.exists() and not folder.parent.exists()


def test_changed_asset_is_refused(words: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "words.aotb"
    path.write_bytes(words[0].read_bytes().replace(LABELS, LABELS.upper()))
    caught = error_of(aotc_runtime.IntegrityError, aotc_runtime.load, path, trust=words[1])
    assert caught.code == "AOTC-E201"


def reviewed(path: Path) -> Review:
    return review(open_bundle(path), None, datetime.now(UTC))


def test_assets_are_inspected_recorded_and_of_format_1_1(
    words: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    report = bundle_report(reviewed(words[0]))
    print_bundle(report)
    printed = capsys.readouterr().out
    assert "asset tokenizer: folder of 3 files, 2.0 kB" in printed
    assert f"asset labels: labels.txt, {len(LABELS)} B" in printed
    (target,) = report["targets"].values()
    sizes = {path: ref["size"] for path, ref in target["assets"]["tokenizer"]["files"].items()}
    assert sizes == {path: len(data) for path, data in FILES.items()}
    (record,) = [s for s in report["signatures"] if s.get("sources")]
    names = {*record["sources"].values()}
    assert {"labels.txt", *(f"tokenizer/{path}" for path in FILES)} <= names
    bill = json.loads(words[0].with_name("words.cdx.json").read_text())
    refs = {part["bom-ref"] for part in bill["components"]}
    assert {"asset:labels:labels.txt", "asset:tokenizer:empty.txt"} <= refs
    described = bill["metadata"]["component"]
    assert described["licenses"] == [{"expression": "Apache-2.0 OR MIT"}]
    assert described["authors"] == [{"name": "Words team <words@example.org>"}]
    page = render(page_of(reviewed(words[0]), None)).decode()
    assert "Apache-2.0 OR MIT" in page and "Words team &lt;words@example.org&gt;" in page
    contents, _ = read_unverified(open_bundle(words[0]))
    (manifest,) = contents.manifests.values()
    assert manifest.format_version == "1.1"
    parts = dict(manifest_parts(manifest))
    assert dict(manifest_parts(msgspec.structs.replace(manifest, assets=msgspec.UNSET))) == parts


def test_copies_of_a_bundle_keep_its_assets(words: Bundle, tmp_path: Path) -> None:
    source = open_bundle(words[0])
    extract(source, ["cpu-x86-64-v3"], tmp_path / "layout", Form.LAYOUT)
    with aotc_runtime.load(tmp_path / "layout", trust=words[1]) as bundle:
        assert bytes_of(bundle.assets["tokenizer"]) == FILES
    parts = list(target_parts_of(source, read_unverified(source)[0]))
    merged = pack(tmp_path / "merged.aotb", Form.ARCHIVE, merge(parts))
    assert read_unverified(open_bundle(merged.path))[0].targets


def test_bundles_with_other_assets_differ(words: Bundle, tmp_path: Path) -> None:
    manifest = write_project(tmp_path)
    manifest.write_text(MANIFEST.replace('labels = "labels.txt"\n', ""))
    (tmp_path / "tokenizer" / "empty.txt").write_text("full")
    build(manifest, output=tmp_path / "other.aotb")
    sources = open_bundle(words[0]), open_bundle(tmp_path / "other.aotb")
    changes = diff(reviewed(words[0]), reviewed(tmp_path / "other.aotb"), lines_max=0).changes
    found = {(c.place, c.path) for c in changes if c.kind == "assets"}
    target = "cpu-x86-64-v3"
    assert found == {(f"{target} tokenizer", "empty.txt"), (f"{target} labels", "")}
    both = [p for s in sources for p in target_parts_of(s, read_unverified(s)[0])]
    differ = {each.where.partition(" ")[2] for each in check_same_source(both)}
    assert {"assets", "asset tokenizer"} <= differ


CARD = """---
license: apache-2.0
tags: [words]
---
# Words

Use it for *words*, <b>nothing</b> else.
"""


def test_card_of_the_command_line_is_an_asset(tmp_path: Path) -> None:
    (tmp_path / "project" / "docs").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "project" / "docs")
    manifest, card = write_project(tmp_path / "project"), tmp_path / "link" / "card.md"
    card.write_text(CARD)
    path, options = tmp_path / "words.aotb", ["--card", str(card), "--check-reproducible"]
    assert toolchain(["keygen", "--plain", str(tmp_path / "ci")]) == 0
    key = ["--key", str(tmp_path / "ci.key")]
    assert toolchain(["build", str(manifest), "-o", str(path), *key, *options]) == 0
    found = reviewed(path)
    (target,) = found.targets.values()
    (ref,) = (target.manifest.assets or {})["card"].files.values()
    assert bytes(found.contents.blobs[ref.digest]) == CARD.encode()
    page = render(page_of(found, None)).decode()
    assert "Model card: card.md" in page and "license: apache-2.0" in page
    assert "*words*, &lt;b&gt;nothing" in page
    assert reproduce(path, tmp_path / "project").root_digest == found.root_digest
    # The manifest says the same; the option replaces it.
    for text in (MANIFEST, MANIFEST.replace('"labels.txt"', '"labels.txt"\ncard = "labels.txt"')):
        manifest.write_text(text)
        assert with_card(read_build_manifest(manifest), card).assets["card"].text == "docs/card.md"
    manifest.write_text(MANIFEST.replace('"labels.txt"', '"labels.txt"\ncard = "docs/card.md"'))
    assert build(manifest, output=path).bundle.root_digest == found.root_digest


@pytest.mark.parametrize("card", ["none.md", "tokenizer"])
def test_card_that_is_no_file_is_refused(card: str, tmp_path: Path) -> None:
    manifest = write_project(tmp_path)
    with pytest.raises(BuildManifestError) as caught:
        build(manifest, tmp_path / "x.aotb", BuildOptions(card=tmp_path / card))
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E817", "--card")
    assert not (tmp_path / "x.aotb").exists()


def link(folder: Path) -> None:
    (folder / "tokenizer" / "link").symlink_to("/etc/passwd")


def folder_link(folder: Path) -> None:
    (folder / "tokenizer" / "link").symlink_to("/etc", target_is_directory=True)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "tokenizer" / "pipe")


def named(name: str) -> Any:
    def change(folder: Path) -> None:
        (folder / "tokenizer" / name).write_bytes(b"x")

    return change


def both_cases(folder: Path) -> None:
    named("EMPTY.txt")(folder)


def emptied(folder: Path) -> None:
    (folder / "tokenizer").rename(folder / "elsewhere")
    (folder / "tokenizer" / "folder").mkdir(parents=True)


UNFIT = {
    "a link to a file": (link, "asset cannot be read"),
    "a link to a folder": (folder_link, "asset cannot be read"),
    "a pipe": (pipe, "asset cannot be read"),
    "a hidden file": (named(".DS_Store"), "asset file name is not portable"),
    "a blank in a name": (named("a b"), "asset file name is not portable"),
    "a name that is no text": (named("a\udcff"), "asset file name is not portable"),
    "names that differ by case": (both_cases, "asset file names differ only by case"),
    "no files": (emptied, "asset folder has the wrong number of files"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_assets_that_no_bundle_can_hold_are_refused(what: str, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    change, title = UNFIT[what]
    change(tmp_path)
    (finding,) = error_of(BuildManifestError, read_assets, read_build_manifest(path)).findings
    assert (finding.code, finding.title) == ("AOTC-E817", title)
    assert finding.where.endswith("words.toml:9 assets.tokenizer")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"labels.txt"', '"none.txt"', "AOTC-E808"),
        ('"labels.txt"', "7", "AOTC-E805"),
        ("labels =", '"la-bels" =', "AOTC-E805"),
        ("labels =", "class =", "AOTC-E805"),
    ],
)
def test_asset_keys_are_checked(old: str, new: str, code: str, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    path.write_text(MANIFEST.replace(old, new))
    assert error_of(BuildManifestError, read_build_manifest, path).code == code


def test_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, states = write_project(tmp_path), iter(range(100))
    monkeypatch.setattr(file_digests, "state_of_open", lambda file: next(states))
    assert error_of(CaptureError, read_assets, read_build_manifest(path)).code == "AOTC-E840"


def test_folder_that_becomes_a_link_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, inner = write_project(tmp_path), tmp_path / "tokenizer" / "inner"
    inner.mkdir()
    (inner / "private").write_bytes(b"x")
    opened = asset_files.open_regular

    def swapped(file: Path) -> BufferedReader:
        if file.name == "private" and not inner.is_symlink():
            inner.rename(tmp_path / "elsewhere")
            inner.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        return opened(file)

    monkeypatch.setattr(asset_files, "open_regular", swapped)
    caught = error_of(BuildManifestError, read_assets, read_build_manifest(path))
    assert caught.findings[0].found == "tokenizer/inner/private: a link"


def test_weights_of_the_bundle_are_no_asset(words: Bundle, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    (manifest,) = read_unverified(open_bundle(words[0]))[0].manifests.values()
    data = open_bundle(words[0]).blob(manifest.weights["w"].blobs[0].digest)
    (tmp_path / "labels.txt").write_bytes(data or b"")
    caught = error_of(AotcError, build, path, output=tmp_path / "x.aotb")
    assert caught.findings[0].title == "asset is a weights file of the bundle"
    assert not (tmp_path / "x.aotb").exists()


def test_asset_that_is_a_module_too_has_its_media_type(words: Bundle, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    (manifest,) = read_unverified(open_bundle(words[0]))[0].manifests.values()
    module = manifest.entry_points["f"].profiles[0].module.digest
    (tmp_path / "labels.txt").write_bytes(open_bundle(words[0]).blob(module) or b"")
    build(path, output=tmp_path / "x.aotb")
    (image,) = read_unverified(open_bundle(tmp_path / "x.aotb"))[0].targets.values()
    (layer,) = [layer for layer in image.layers if layer.digest == module]
    assert layer.mediaType == oci_layout.MODULE_TYPE
