"""Attestations: an in-toto statement about a root digest, with SLSA provenance, in a DSSE envelope.

https://slsa.dev/spec/v1.0/provenance. The predicate says what was built from what; it names no
host, no user and no path. It lies outside of the root digest, and so does the time it states.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aotc.config.build_manifest import BuildManifest
from aotc.signing.signer import Signer
from aotc.stages import Attestation, CapturedProgram
from aotc_runtime import canonical
from aotc_runtime.digest import sha256
from aotc_runtime.formats import dsse
from aotc_runtime.formats.statement import (
    BUILD_TYPE,
    MERGE_TYPE,
    PROVENANCE_TYPE,
    SIGN_TYPE,
    STATEMENT_TYPE,
)
from aotc_runtime.schema.manifest import BundleManifest

BUILDER_ID = "https://aotc.dev/builder/local"

TOOLCHAIN = ("aotc", "aotc-runtime", "jax", "jaxlib", "msgspec", "numpy", "scipy")
"""Packages whose code shapes the bundle's bytes."""


def _hex(digest: str) -> dict[str, str]:
    return {"sha256": digest.removeprefix("sha256:")}


def _dependencies(sources: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "digest": _hex(digest)} for name, digest in sorted(sources.items())
    ]
    for package in TOOLCHAIN:
        try:
            found.append({"uri": f"pkg:pypi/{package}@{version(package)}"})
        except PackageNotFoundError:
            continue
    return found


def provenance(
    manifest: BuildManifest,
    program: CapturedProgram,
    built: Sequence[BundleManifest],
    finished: datetime,
) -> dict[str, Any]:
    """SLSA provenance v1 of a build. finished: when it ended, UTC."""
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "manifest": {"name": manifest.path.name, "digest": _hex(sha256(manifest.text))},
                "targets": sorted(part.target.name for part in built),
            },
            "internalParameters": {
                "name": manifest.name,
                "version": manifest.version,
                "enable_x64": manifest.enable_x64,
            },
            "resolvedDependencies": _dependencies(program.sources),
        },
        "runDetails": {
            "builder": {"id": BUILDER_ID, "version": {"aotc": version("aotc")}},
            "metadata": {"finishedOn": finished.strftime("%Y-%m-%dT%H:%M:%SZ")},
        },
    }


def endorsement() -> dict[str, Any]:
    """The provenance that `aotc sign` can vouch for: this tool signed an existing bundle."""
    return {
        "buildDefinition": {
            "buildType": SIGN_TYPE,
            "externalParameters": {},
            "internalParameters": {},
            "resolvedDependencies": [],
        },
        "runDetails": {"builder": {"id": BUILDER_ID, "version": {"aotc": version("aotc")}}},
    }


@dataclass(frozen=True, slots=True)
class Ingredient:
    """A bundle that another was merged from. name: "digits-1.0.0".  signers: ids of the keys that
    counted when it was read, none if nobody asked.  finished: when its build ended, if that is
    known from them.
    """

    name: str
    root_digest: str
    targets: tuple[str, ...]
    signers: tuple[str, ...]
    finished: datetime | None


def merging(inputs: Sequence[Ingredient], targets: Sequence[str]) -> dict[str, Any]:
    """SLSA provenance v1 of a bundle that `aotc merge` put together.

    It is as old as its oldest input, so that merging makes no old build pass for a new one; if
    that is not known of all of them, it states no time.
    """
    times = [found.finished for found in inputs]
    known = [time for time in times if time is not None]
    metadata = {}
    if len(known) == len(times):
        metadata["finishedOn"] = min(known).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "buildDefinition": {
            "buildType": MERGE_TYPE,
            "externalParameters": {"targets": sorted(targets)},
            "internalParameters": {},
            "resolvedDependencies": [
                {
                    "name": found.name,
                    "digest": _hex(found.root_digest),
                    "annotations": {
                        "signers": list(found.signers),
                        "targets": list(found.targets),
                    },
                }
                for found in inputs
            ],
        },
        "runDetails": {
            "builder": {"id": BUILDER_ID, "version": {"aotc": version("aotc")}},
            "metadata": metadata,
        },
    }


def attest(
    root_digest: str,
    subject: str,
    predicate: Mapping[str, Any],
    signer: Signer,
    predicate_type: str = PROVENANCE_TYPE,
) -> Attestation:
    """A signed statement about a root digest. subject: "digits-1.0.0", for people."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject, "digest": _hex(root_digest)}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    payload = canonical.encode(statement)
    signature = signer.sign(dsse.pre_authentication_encoding(dsse.PAYLOAD_TYPE, payload))
    envelope = dsse.Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=dsse.PAYLOAD_TYPE,
        signatures=(dsse.Signature(sig=base64.b64encode(signature).decode(), keyid=signer.key_id),),
    )
    return Attestation(root_digest, signer.key_id, canonical.encode(envelope))
