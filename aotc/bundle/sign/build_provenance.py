"""Build provenance of a bundle, as a SLSA provenance v1 statement.

https://slsa.dev/spec/v1.0/provenance. It names no host, no user and no path. It lies outside of the
root digest, and so do the times it states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from aotc.base.constants import NOT_SET, SET
from aotc.base.source_locations import annotations_of
from aotc.base.stages import CapturedProgram, Package
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.slsa_provenance import BUILD_TYPE, MERGE_TYPE, SIGN_TYPE
from aotc_runtime.schema.bundle_manifest import BundleManifest

if TYPE_CHECKING:
    # Which signing need not import: it reads no build manifest.
    from aotc.config.build_manifest import BuildManifest

BUILDER_ID = "https://aotc.dev/builder/local"
"""The builder id of builds for which none was named."""

VARIABLE_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Revision:
    """The commit of a build's folder; `dirty` if the folder has uncommitted changes."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class Materials:
    """Inputs of a build besides its program.

    Attributes:
        targets: As written.
        environment: Variables that its processes were given.
        variables: Those that the program read, and whether each was set.
        code: Digests of the code of aotc's own packages.
        tuning: Digest of the tuning file.
        started: UTC.
        finished: UTC.
    """

    targets: tuple[str, ...]
    python: str
    environment: Mapping[str, str]
    code: Mapping[str, str]
    finished: datetime
    started: datetime | None = None
    revision: Revision | None = None
    tuning: str | None = None
    builder_id: str = BUILDER_ID
    variables: Mapping[str, bool] = field(default_factory=dict)


def provenance(
    manifest: BuildManifest,
    program: CapturedProgram,
    built: Sequence[BundleManifest],
    materials: Materials,
) -> dict[str, Any]:
    """Return the provenance of a build, JSON-able."""
    internal: dict[str, Any] = {
        "name": manifest.name,
        "version": manifest.version,
        "enable_x64": manifest.enable_x64,
        "python": materials.python,
        "environment": dict(sorted(materials.environment.items())),
        "compile_options": {
            part.target.name: dict(sorted(part.target.options.items())) for part in built
        },
        "requested_targets": list(materials.targets),
    }
    if revision := materials.revision:
        internal["revision"] = {"gitCommit": revision.commit, "dirty": revision.dirty}
    if variables := {
        name: SET if is_set else NOT_SET
        for name, is_set in sorted(materials.variables.items())
        if is_variable(name)
    }:
        internal["variables"] = variables
    if materials.tuning:
        internal["tuning"] = {"digest": hexes(materials.tuning)}
    metadata = {"finishedOn": stamp(materials.finished)}
    if materials.started:
        metadata["startedOn"] = stamp(materials.started)
    external = {
        "manifest": {"name": manifest.path.name, "digest": hexes(sha256(manifest.text))},
        "targets": sorted(part.target.name for part in built),
    }
    made_from = [*_files(program.made_from, program), *_packages(program.packages, materials.code)]
    made = _predicate(BUILD_TYPE, external, made_from, metadata, materials.builder_id)
    made["buildDefinition"]["internalParameters"] = internal
    return made


def _predicate(
    build_type: str,
    external: Mapping[str, Any],
    dependencies: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, str] | None = None,
    builder_id: str = BUILDER_ID,
) -> dict[str, Any]:
    builder = {"id": builder_id, "version": {"aotc": version("aotc")}}
    return {
        "buildDefinition": {
            "buildType": build_type,
            "externalParameters": external,
            "internalParameters": {},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {"builder": builder, **({} if metadata is None else {"metadata": metadata})},
    }


def is_variable(name: str) -> bool:
    """Return whether provenance can name a variable: printable, in one line, and short."""
    return name.isprintable() and 0 < len(name) <= VARIABLE_CHARACTERS_MAX


def endorsement() -> dict[str, Any]:
    """Return the provenance that `aotc sign` can vouch for: this tool signed an existing bundle."""
    return _predicate(SIGN_TYPE, {}, [])


@dataclass(frozen=True, slots=True)
class Ingredient:
    """A bundle that another was merged from.

    `name` is like "digits-1.0.0". `signers` are the ids of keys that counted when it was read, none
    without a policy; `finished` is the end of its build, if they state it.
    """

    name: str
    root_digest: str
    targets: tuple[str, ...]
    signers: tuple[str, ...]
    finished: datetime | None


def merging(inputs: Sequence[Ingredient], targets: Sequence[str]) -> dict[str, Any]:
    """Return the provenance of a bundle that `aotc merge` put together.

    It is as old as its oldest input, so that merging makes no old build pass for a new one; if that
    is not known of all of them, it states no time.
    """
    times = [found.finished for found in inputs]
    known = [time for time in times if time is not None]
    metadata = {"finishedOn": stamp(min(known))} if len(known) == len(times) else {}
    dependencies = [
        {
            "name": found.name,
            "digest": hexes(found.root_digest),
            "annotations": {"signers": list(found.signers), "targets": list(found.targets)},
        }
        for found in inputs
    ]
    return _predicate(MERGE_TYPE, {"targets": sorted(targets)}, dependencies, metadata)


def hexes(digest: str) -> dict[str, str]:
    """Return a digest as in-toto writes it: algorithm to hex."""
    return {"sha256": digest.removeprefix("sha256:")}


def stamp(time: datetime) -> str:
    """RFC 3339, whole seconds, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _files(digests: Mapping[str, str], program: CapturedProgram) -> list[dict[str, Any]]:
    """Sources carry annotations with the lines that the evidence is about."""
    lines = {name: entry_point.lines for name, entry_point in program.entry_points.items()}
    return [
        {
            "name": name,
            "digest": hexes(digest),
            **({"annotations": lines_of} if (lines_of := annotations_of(lines, name)) else {}),
        }
        for name, digest in sorted(digests.items())
    ]


def _packages(packages: Mapping[str, Package], code: Mapping[str, str]) -> list[dict[str, Any]]:
    """List packages with digests as annotations, since these are of the installed files.

    An artifact on an index has another digest. `files` of a checkout says little, so aotc's own
    packages have `code` as well.
    """
    return [
        {
            "name": name,
            "uri": f"pkg:pypi/{name}@{package.version}",  # github.com/package-url/purl-spec
            "annotations": {
                "files": package.files,
                **({"code": code[name]} if name in code else {}),
            },
        }
        for name, package in sorted(packages.items())
    ]
