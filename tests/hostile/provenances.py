"""Bundles whose provenance says something, keys with windows, and the time of checking."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.trust_policy import TrustedKey

from .tampering import (
    Documents,
    MemoryBundle,
    put_together,
    root_digest,
    signed_envelope,
    statement_about,
    to_json,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BUILDER = "https://example.org/builder"
SOURCE = "sha256:" + "5" * 64


def a_build(
    *,
    builder: str = BUILDER,
    finished: datetime | None = NOW,
    sources: tuple[str, ...] = (SOURCE,),
    build_type: str = "https://aotc.dev/build/v1",
) -> dict[str, Any]:
    """An SLSA provenance predicate."""
    dependencies = [
        {"name": f"source {number}", "digest": dict([digest.split(":")])}
        for number, digest in enumerate(sources)
    ]
    metadata = {"finishedOn": finished.isoformat()} if finished else {}
    return {
        "buildDefinition": {
            "buildType": build_type,
            "externalParameters": {"anything": "else"},
            "resolvedDependencies": [*dependencies, {"uri": "pkg:pypi/jax@0.12.0"}],
        },
        "runDetails": {"builder": {"id": builder}, "metadata": metadata},
    }


ENDORSEMENT = a_build(
    builder="https://aotc.dev/builder/local",
    finished=None,
    sources=(),
    build_type="https://aotc.dev/sign/v1",
)


def attested(
    documents: Documents,
    *statements: tuple[LocalSigner, dict[str, Any]],
    predicate_type: str = "https://slsa.dev/provenance/v1",
) -> MemoryBundle:
    """The bundle with one envelope for each signer, about each predicate."""
    root = root_digest(documents)
    documents.envelopes = [
        signed_envelope(
            to_json(
                {**statement_about(root), "predicateType": predicate_type, "predicate": predicate}
            ),
            signer,
        )
        for signer, predicate in statements
    ]
    return put_together(documents)


def key_of(signer: LocalSigner, **stated: Any) -> TrustedKey:
    """A policy's entry for a signer. stated: its other fields."""
    return TrustedKey(public_key=signer.public_pem(), **stated)


def declaring(documents: Documents, fallback: str) -> bundle_manifest.BundleManifest:
    """The manifest with a policy for its dimension."""
    found = msgspec.convert(documents.manifest, bundle_manifest.BundleManifest)
    policies: dict[str, bundle_manifest.DimensionPolicy] = {
        "pad": bundle_manifest.Pad(fill={}, mask="", length="", proof=()),
        "split": bundle_manifest.Split(proof=()),
        "compile": bundle_manifest.CompileHere(most=1, seconds=1),
    }
    chosen = {"batch": policies[fallback]} if fallback in policies else {}
    entry_point = msgspec.structs.replace(found.entry_points["predict"], out_of_profile=chosen)
    return msgspec.structs.replace(found, entry_points={"predict": entry_point})
