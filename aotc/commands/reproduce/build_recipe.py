"""The build that a bundle's provenance describes, as far as building it again needs it."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aotc.base.constants import SET
from aotc.base.errors import finding, raise_if, refusal
from aotc.bundle.read.opened_bundle import Opened, open_valid
from aotc.bundle.sign.build_provenance import is_variable
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import is_digest
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.in_toto import PROVENANCE_TYPE, Statement, open_envelope
from aotc_runtime.formats.slsa_provenance import BUILD_TYPE
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed

TARGETS_CHARACTERS_MAX = 2**16
"""The names of all targets together; they become arguments of a process, whose length is limited.
"""
SHOWN_MAX = 200
"""Characters of an unexpected text that a message shows."""

_PACKAGE = re.compile(r"\A[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_VERSION = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9.!+_-]*\Z")
"""https://packaging.python.org/en/latest/specifications/name-normalization/#name-format, and
characters of https://packaging.python.org/en/latest/specifications/version-specifiers. Anything
else could be an option, a file or a URL to an installer."""

_ARCHIVE = re.compile(
    r"\.(?:whl|zip|tar|tgz|tbz|txz|tlz|(?:tar\.)?(?:gz|bz2|xz|lz|lzma))\Z", re.IGNORECASE
)
"""How an archive's name ends: for `name==version` that ends so, pip first asks for a file of this
name in the current folder.
"""

_COMMIT = re.compile(r"\A[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_PYTHON = re.compile(r"\A[ -~]{0,100}\Z")


class _Resource(Struct, frozen=True):
    name: str = ""
    uri: str = ""
    digest: dict[str, str] = {}
    annotations: dict[str, Any] = {}


class _External(Struct, frozen=True):
    manifest: _Resource = _Resource()


class Revision(Struct, frozen=True):
    """dirty: whether files differed from the commit."""

    gitCommit: str
    dirty: bool


class _Tuning(Struct, frozen=True):
    digest: dict[str, str]


class _Internal(Struct, frozen=True):
    python: str = ""
    requested_targets: tuple[str, ...] = ()
    revision: Revision | None = None
    tuning: _Tuning | None = None
    variables: dict[str, str] = {}


class _Definition(Struct, frozen=True):
    buildType: str
    externalParameters: _External = _External()
    internalParameters: _Internal = _Internal()
    resolvedDependencies: tuple[_Resource, ...] = ()


class _Predicate(Struct, frozen=True):
    buildDefinition: _Definition


class Recipe(Struct, frozen=True):
    """The recorded build of a bundle.

    manifest, manifest_digest: of the build manifest, the name without a folder.  targets: as the
    build was asked for them.  files: paths from the manifest's folder of sources, weights and
    fixtures, to their digests.  packages: names to versions.  code: of our own packages to the
    digests of their code, where they were recorded.  tuning: digest of the tuning file, or "".
    variables: that the program read, to whether each was set; "*" for all of them.
    signers: ids of the policy's keys that vouch for this; none without a policy.
    """

    manifest: str
    manifest_digest: str
    targets: tuple[str, ...]
    files: dict[str, str]
    packages: dict[str, str]
    code: dict[str, str]
    python: str
    revision: Revision | None
    tuning: str
    variables: dict[str, bool]
    signers: tuple[str, ...]


def read_recipe(path: Path, policy: TrustPolicy | None) -> tuple[Opened, Recipe]:
    """Return a bundle with every digest checked, and how its provenance says that it was built.

    policy: must accept the bundle, except for its rules on the host; None to believe any statement,
    signed or not.
    Raises what the first seven steps of verification raise (docs/reference/trust-policy.md), and
    ReproducibilityError: AOTC-E941 no statement describes one build, E945 one that names what no
    build records.
    """
    read = open_valid(open_streamed(path), policy, datetime.now(UTC).timestamp())
    if read.verified:
        predicates: Iterable[bytes] = (each.predicate for each in read.provenance)
    else:
        predicates = _read_unchecked(read.envelopes, str(path))
    return read, recipe_of(predicates, read.signers, str(path))


def recipe_of(predicates: Iterable[bytes], signers: tuple[str, ...], where: str) -> Recipe:
    """Return the recipe of the build that provenance statements describe.

    Raises BundleFormatError (AOTC-E106) for what is no provenance, ReproducibilityError: AOTC-E941
    none of a build, or of several, E945 names that no build records.
    """
    decoded = [decode_foreign(each, _Predicate, where=where) for each in predicates]
    builds = {
        msgspec.json.encode(each): each.buildDefinition
        for each in decoded
        if each.buildDefinition.buildType == BUILD_TYPE
    }
    if len(builds) != 1:
        kinds = sorted({each.buildDefinition.buildType for each in decoded})
        several = f"{len(builds)} of them"
        none = "none; " + (", ".join(kinds) or "it is unsigned")
        raise refusal("AOTC-E941", where, several if builds else none)
    recipe = _recipe(next(iter(builds.values())), signers)
    raise_if(_odd(recipe, where))
    return recipe


def _read_unchecked(envelopes: Iterable[bytes], where: str) -> Iterable[bytes]:
    for data in envelopes:
        payload = open_envelope(data, where).payload
        statement = decode_foreign(payload, Statement, where=where)
        if statement.predicateType == PROVENANCE_TYPE:
            yield bytes(statement.predicate)


def _recipe(build: _Definition, signers: tuple[str, ...]) -> Recipe:
    manifest, internal = build.externalParameters.manifest, build.internalParameters
    packages = [each for each in build.resolvedDependencies if each.uri.startswith("pkg:pypi/")]
    return Recipe(
        manifest=manifest.name,
        manifest_digest=_digest(manifest.digest),
        targets=internal.requested_targets,
        files={
            each.name: _digest(each.digest)
            for each in build.resolvedDependencies
            if each.digest and not each.uri
        },
        packages=dict(sorted(each.uri[9:].rpartition("@")[::2] for each in packages)),
        code={
            each.name: str(each.annotations["code"])
            for each in packages
            if "code" in each.annotations
        },
        python=internal.python,
        revision=internal.revision,
        tuning=_digest(internal.tuning.digest) if internal.tuning else "",
        variables={name: said == SET for name, said in sorted(internal.variables.items())},
        signers=signers,
    )


def _odd(recipe: Recipe, where: str) -> Iterator[Finding]:
    """Yield AOTC-E945 for names that no build records.

    A file system, an installer or a terminal could misread them, as another path or an option.
    """
    named = recipe.manifest
    if Path(named).name != named or named in ("", "..") or "\0" in named:
        yield _no_name(where, "the name of a build manifest", named)
    for name in recipe.files:
        if not name or "\0" in name:
            yield _no_name(where, "the path of a file", name)
    for name, version in recipe.packages.items():
        if not _PACKAGE.match(name) or not _VERSION.match(version) or _ARCHIVE.search(version):
            yield _no_name(where, "the name and version of a package", f"{name}@{version}")
    for name, digest in recipe.code.items():
        if not is_digest(digest):
            yield _no_name(where, f"the digest of the code of {name!r}", digest)
    if any("\0" in target for target in recipe.targets):
        yield _no_name(where, "names of targets", ", ".join(recipe.targets))
    if sum(map(len, recipe.targets)) + len(recipe.targets) > TARGETS_CHARACTERS_MAX:
        count = f"{len(recipe.targets)} of them"
        yield _no_name(where, f"targets of at most {TARGETS_CHARACTERS_MAX} characters", count)
    if recipe.revision and not _COMMIT.match(recipe.revision.gitCommit):
        yield _no_name(where, "the digest of a git commit", recipe.revision.gitCommit)
    for name in recipe.variables:
        if not is_variable(name):
            yield _no_name(where, "the name of a variable", name)
    if not _PYTHON.match(recipe.python):
        yield _no_name(where, "the name and version of a Python", recipe.python)


def _no_name(where: str, expected: str, found: str) -> Finding:
    shown = found if len(found) <= SHOWN_MAX else f"{found[:SHOWN_MAX]}…"
    return finding("AOTC-E945", f"{where} provenance", repr(shown), expected=expected)


def _digest(digest: dict[str, str]) -> str:
    return f"sha256:{digest.get('sha256', '')}"
