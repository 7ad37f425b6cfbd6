"""Writing profiles into the text of a build manifest; comments, order and all else stay."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from aotc.base.errors import refusal
from aotc.bundle.write.atomic_files import write_atomically
from aotc.commands.profiles.suggested_profiles import Suggestion
from aotc.config.build_manifest import BuildManifest, dimensions_of, read_build_manifest
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.toml_source import render_path

type Place = tuple[str, ...]


def write_profiles(suggestion: Suggestion) -> str:
    """Write suggested profiles in one step; returns the key that now holds them.

    The file keeps its mode and its comments.

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
            raise refusal("AOTC-E044", str(manifest.path), "")

    # Through a link, the file it leads to is replaced, not the link.
    write_atomically(manifest.path.resolve(), [text.encode()], check=check)
    return render_path(place)


def with_profiles(
    manifest: BuildManifest, entry_point: str, target: str, profiles: Sequence[Mapping[str, int]]
) -> tuple[str, Place]:
    """The manifest's text with these profiles, and the key they stand under.

    A dimension of its own keeps its profiles; where several dimensions, or several entry points,
    are concerned, the entry point gets a list. What the target overrides is overridden there.
    Raises UsageError (AOTC-E043) where this cannot be done in place.
    """
    text = manifest.text.decode()
    place, value = _place(manifest, entry_point, target, profiles)
    wanted = tomllib.loads(text)
    _put(wanted, place, value)
    try:
        document = tomlkit.parse(text)
        if tomlkit.dumps(document) != text:
            raise _not_in_place(manifest, place, "tables that would be moved")
        _put(document, place, _array(value))
        edited = tomlkit.dumps(document)
        found = tomllib.loads(edited)
    except (TOMLKitError, RecursionError, ValueError) as error:
        raise _not_in_place(manifest, place, str(error)) from error
    if found != wanted:
        raise _not_in_place(manifest, place, "a file that would say something else afterwards")
    return edited, place


def _place(
    manifest: BuildManifest, entry_point: str, target: str, profiles: Sequence[Mapping[str, int]]
) -> tuple[Place, list[Any]]:
    spec = manifest.entry_points[entry_point]
    names = list(profiles[0])
    override = manifest.overrides.get(target)
    above: Place = ()
    if override and (
        entry_point in override.entry_points or override.dimensions.keys() & set(names)
    ):
        above = ("target", target)
    listed = override.entry_points.get(entry_point) if above and override else spec.profiles
    if listed or len(names) > 1 or _is_shared(manifest, entry_point, names[0]):
        return (*above, "entry_points", entry_point, "profiles"), [dict(p) for p in profiles]
    sizes = [profile[names[0]] for profile in profiles]
    return (*above, "dimensions", names[0], "profiles"), sizes


def _is_shared(manifest: BuildManifest, entry_point: str, dimension: str) -> bool:
    return any(
        dimension in dimensions_of(tree)
        for name, other in manifest.entry_points.items()
        if name != entry_point
        for tree in other.inputs.values()
    )


def _put(document: Any, place: Place, value: Any) -> None:
    for step in place[:-1]:
        if step not in document:
            document[step] = {}
        document = document[step]
    document[place[-1]] = value


def _array(value: Sequence[Any]) -> Any:
    array = tomlkit.array()
    for item in value:
        if isinstance(item, dict):
            table = tomlkit.inline_table()
            table.update(item)
            array.append(table)
        else:
            array.append(item)
    return array.multiline(bool(value) and isinstance(value[0], dict))


def _not_in_place(manifest: BuildManifest, place: Place, found: str) -> AotcError:
    return refusal("AOTC-E043", f"{manifest.path} {render_path(place)}", found)
