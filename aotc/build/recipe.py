"""What a bundle's provenance says of its build, as far as building it again needs it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.errors import ReproducibilityError
from aotc_runtime.errors import Finding
from aotc_runtime.formats.foreign import decode_foreign
from aotc_runtime.formats.statement import BUILD_TYPE, PROVENANCE_TYPE, Statement
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification import signatures
from aotc_runtime.verification.contents import Contents, read_envelopes, read_root, read_unverified


class _Resource(Struct, frozen=True):
    name: str = ""
    uri: str = ""
    digest: dict[str, str] = {}


class _External(Struct, frozen=True):
    manifest: _Resource = _Resource()


class Revision(Struct, frozen=True):
    gitCommit: str
    dirty: bool


class _Tuning(Struct, frozen=True):
    digest: dict[str, str]


class _Internal(Struct, frozen=True):
    python: str = ""
    requested_targets: tuple[str, ...] = ()
    revision: Revision | None = None
    tuning: _Tuning | None = None


class _Definition(Struct, frozen=True):
    buildType: str
    externalParameters: _External = _External()
    internalParameters: _Internal = _Internal()
    resolvedDependencies: tuple[_Resource, ...] = ()


class _Predicate(Struct, frozen=True):
    buildDefinition: _Definition


class Recipe(Struct, frozen=True):
    """manifest: file name and digest.  targets: as written.  files: sources, weights and fixtures
    that the build read, from the manifest's folder, to their digests.  packages: to versions.
    signers: ids of the keys that count; none if nobody asked.
    """

    manifest: str
    manifest_digest: str
    targets: tuple[str, ...]
    files: dict[str, str]
    packages: dict[str, str]
    python: str
    revision: Revision | None
    tuning: str
    signers: tuple[str, ...]


def read_recipe(path: Path, policy: TrustPolicy | None) -> tuple[Contents, Recipe]:
    """A bundle with every digest checked, and how it was built.

    policy: whose keys count; None to take any statement at its word. Raises what verification
    raises of the first six steps (docs/trust.md), and ReproducibilityError (AOTC-E941) where no
    statement describes one build.
    """
    source = open_bundle(path)
    contents, _ = read_unverified(source)
    envelopes, _ = read_envelopes(source, read_root(source))
    signers: tuple[str, ...] = ()
    if policy is None:
        predicates = list(_unchecked(envelopes, str(path)))
    else:
        found = signatures.vouchers_for(
            envelopes, contents.root_digest, policy, source.name, time.time()
        )
        signers = signatures.signers_of(found)
        predicates = [voucher.predicate for voucher in found]
    decoded = [decode_foreign(each, _Predicate, where=str(path)) for each in predicates]
    builds = {
        msgspec.json.encode(each): each.buildDefinition
        for each in decoded
        if each.buildDefinition.buildType == BUILD_TYPE
    }
    if len(builds) != 1:
        raise ReproducibilityError(_no_recipe(path, len(builds), decoded))
    return contents, _recipe(next(iter(builds.values())), signers)


def _unchecked(envelopes: Iterable[bytes], where: str) -> Iterable[bytes]:
    for data in envelopes:
        payload = signatures.open_envelope(data, where).payload
        statement = decode_foreign(payload, Statement, where=where)
        if statement.predicateType == PROVENANCE_TYPE:
            yield bytes(statement.predicate)


def _no_recipe(path: Path, count: int, decoded: list[_Predicate]) -> Finding:
    kinds = sorted({each.buildDefinition.buildType for each in decoded})
    found = f"{count} of them" if count else "none; " + (", ".join(kinds) or "it is unsigned")
    return Finding(
        code="AOTC-E941",
        where=str(path),
        expected="the provenance of one build",
        found=found,
        hint="build with --key, which signs what was built from what; of a merged bundle, "
        "reproduce those it was merged from",
    )


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
        python=internal.python,
        revision=internal.revision,
        tuning=_digest(internal.tuning.digest) if internal.tuning else "",
        signers=signers,
    )


def _digest(digest: dict[str, str]) -> str:
    return f"sha256:{digest.get('sha256', '')}"
