"""Writes suggested profiles into a build manifest, after reading back that they are what it
says."""

from __future__ import annotations

from pathlib import Path

from aotc.base.errors import refusal
from aotc.bundle.write.atomic_files import Before, nothing, write_atomically
from aotc.commands.profiles.suggested_profiles import Suggestion
from aotc.commands.profiles.traffic.manifest_edit import with_profiles
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.formats.toml_source import render_path


def write_profiles(suggestion: Suggestion, before: Before = nothing) -> str:
    """Write suggested profiles in one step; returns the key that now holds them.

    The file keeps its mode and its comments.  before: as of `write_atomically`.

    Raises UsageError: AOTC-E043 where this cannot be done in place, E003 for a place that cannot be
    written, E044 for a manifest that has changed meanwhile; BuildManifestError for a manifest that
    would not be valid afterwards. Nothing is written then.
    """
    manifest, space = suggestion.manifest, suggestion.space
    text, place = with_profiles(manifest, space.entry_point, suggestion.target, suggestion.profiles)

    def check(written: Path) -> None:
        found = read_build_manifest(written).profiles(space.entry_point, suggestion.target)
        assert list(found) == suggestion.profiles, "the edit was compared with what it should say"
        if manifest.path.read_bytes() != manifest.text:
            raise refusal("AOTC-E044", str(manifest.path), "a file that was changed meanwhile")

    # Through a link, the file it leads to is replaced, not the link.
    write_atomically(manifest.path.resolve(), [text.encode()], check=check, before=before)
    return render_path(place)
