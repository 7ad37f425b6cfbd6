"""Reads build manifests: which functions to build, at which shapes, with which weights and targets.

build-manifest.md lists the keys. `aotc.config.manifest_specs` defines the values that
`read_build_manifest` returns; they may be imported from here.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from msgspec import msgpack

from aotc.base.errors import raise_if
from aotc.base.msgpack_values import unpack
from aotc.config import manifest_relations, toml_validation
from aotc.config import toml_document as toml
from aotc.config.checkpoint_files import INDEX, SINGLE, main_file
from aotc.config.dimension_specs import DimensionSpec as DimensionSpec
from aotc.config.input_specs import InputDict as InputDict
from aotc.config.input_specs import InputLeaf as InputLeaf
from aotc.config.input_specs import InputLike as InputLike
from aotc.config.input_specs import InputList as InputList
from aotc.config.input_specs import InputTree as InputTree
from aotc.config.input_specs import all_leaves as all_leaves
from aotc.config.input_specs import with_leaves as with_leaves
from aotc.config.manifest_problem import Problem
from aotc.config.manifest_specs import BuildManifest as BuildManifest
from aotc.config.manifest_specs import EntryPointSpec as EntryPointSpec
from aotc.config.manifest_specs import FixtureSpec as FixtureSpec
from aotc.config.manifest_specs import ManifestKeys
from aotc.config.manifest_specs import SourceFile as SourceFile
from aotc.config.manifest_specs import WeightsSpec as WeightsSpec
from aotc.config.precision_specs import ChosenPrecision
from aotc.config.routing_policies import at_once as at_once
from aotc.config.toml_document import Document
from aotc_runtime.schema.bundle_manifest import Range

SCHEMA = 1
KIND = "build manifest"


def read_build_manifest(path: Path, *, written: Path | None = None) -> BuildManifest:
    """Read and check a build manifest.

    `written` is a file that the caller is about to write, which need not exist yet.

    Raises:
        BuildManifestError: With every problem of one kind: AOTC-E801 unreadable, E802 not TOML,
            E810 another schema; keys by themselves: E803 unknown key, E804 missing key, E805 wrong
            type or value, E807 conflict or duplicate; keys beside each other: these, E806 unknown
            reference, E808 missing file, E809 never used. The capture checks shardings, once it
            knows all shapes.
    """
    document = toml.read(path, KIND)
    toml.require_schema(document, SCHEMA)
    manifest = _manifest(document, path.resolve().parent)
    problems = [*manifest_relations.check(manifest), *_missing_files(manifest, written)]
    raise_if(document.findings(problems))
    return manifest


def encode_build_manifest(manifest: BuildManifest) -> bytes:
    """Return a manifest for `decode_build_manifest` in another process."""
    where = [os.fsencode(manifest.path), os.fsencode(manifest.root)]
    return msgpack.encode([*where, manifest.text, manifest.chosen])


def prepare_to_decode() -> None:
    """Build the validator of manifests, which takes longer than most manifests."""
    toml_validation.prepare(ManifestKeys)


def decode_build_manifest(data: bytes) -> BuildManifest:
    """Return a manifest that another process has read and checked."""
    path, root, text, chosen = unpack(data, tuple[bytes, bytes, bytes, dict[str, ChosenPrecision]])
    document = toml.parse_bytes(Path(os.fsdecode(path)), text, KIND)
    return replace(_manifest(document, Path(os.fsdecode(root))), chosen=chosen)


def _manifest(document: Document, root: Path) -> BuildManifest:
    keys = toml.parse(document, ManifestKeys, root)
    values = {field.name: getattr(keys, field.name) for field in fields(keys)}
    values["entry_points"] = {
        name: replace(entry, policies={**dict.fromkeys(ranged, Range()), **entry.policies})
        for name, entry in keys.entry_points.items()
        for ranged in [entry.ranged(keys.dimensions)]
    }
    return BuildManifest(
        **values,
        path=document.path,
        root=root,
        text=document.source,
        lines=document.lines,
    )


def _missing_files(manifest: BuildManifest, written: Path | None) -> Iterator[Problem]:
    new = None if written is None else written.absolute()
    assets = ((("assets", name), file) for name, file in manifest.assets.items())
    for path, named in (*manifest.files(), *assets):
        file = main_file(named) if path[0] == "weights" else named
        if file.path.absolute() == new:
            continue
        if path[0] == "assets" and file.path.is_dir():
            continue
        if reason := _why_no_file(file.path):
            hint = "create the file, or correct the path"
            if path[0] == "weights" and file.path.is_dir():
                reason = f"a directory without {INDEX} or {SINGLE}"
                hint = 'restore other checkpoints in a function: init = "package.module:function"'
            elif path[-1] == "data":
                hint = 'name an .npz file, a folder of them, or a "package.module:function"'
                reason = "no .npz file in it" if file.path.is_dir() else reason
            yield Problem("AOTC-E808", path, hint, found=f"{file.text}: {reason}")


def _why_no_file(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        # ValueError: a null character in the path.
        return getattr(error, "strerror", None) or str(error)
    if not stat.S_ISREG(mode):
        return "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return None if os.access(path, os.R_OK) else "not readable"
