"""Certificates about bundles, as an attacker or a careless certifier would write them."""

from datetime import datetime
from typing import Any

import msgspec

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy

from .provenances import NOW, a_build, key_of
from .tampering import (
    Documents,
    MemoryBundle,
    policy_for,
    put_together,
    root_digest,
    signed_envelope,
    statement_about,
    to_json,
)

OTHER = "0.12.99"
"""A version of what runs the bundle that it does not accept by itself."""
TYPE = "https://aotc.dev/certificate/v1"
TWO = [{"name": "x", "digest": {"sha256": "0" * 64}}]
"""Subjects that are no root of ours."""


def runs_of(documents: Documents) -> list[dict[str, Any]]:
    """Of every fixture of the bundle, a run that is within its tolerance."""
    found = []
    for name, entry_point in documents.manifest["entry_points"].items():
        for profile in entry_point["profiles"]:
            sizes = ",".join(f"{k}={v}" for k, v in sorted(profile["sizes"].items()))
            found.append(
                {
                    "label": f"{name}[{sizes}]",
                    "executable": profile["executable"]["digest"],
                    "fixture": profile["fixture"]["digest"],
                    "withinTolerance": True,
                    "maxAbs": "1e-07",
                    "maxRel": "2e-06",
                    "ulpMax": 7,
                    "elements": 10,
                    "worst": "result",
                    "seconds": "0.001",
                }
            )
    return found


def package_of(documents: Documents) -> str:
    """Return the package that runs the bundle's executables."""
    device = documents.manifest["requires"].get("device")
    return device["plugin"] if device else "jaxlib"


def code_of(documents: Documents) -> str:
    """Of the finding for a version that the bundle does not accept."""
    return "AOTC-E401" if package_of(documents) == "jaxlib" else "AOTC-E403"


def with_another_version(host: HostFacts, documents: Documents) -> HostFacts:
    """The same host with a version that the bundle does not accept by itself."""
    if package_of(documents) == "jaxlib":
        return msgspec.structs.replace(host, jaxlib=OTHER)
    others = [msgspec.structs.replace(each, plugin=OTHER) for each in host.accelerators]
    return msgspec.structs.replace(host, accelerators=tuple(others))


def a_certificate(
    documents: Documents,
    *,
    version: str = OTHER,
    package: str = "",
    target: str = "",
    outcome: str = "passed",
    detail: str = "",
    certified: datetime = NOW,
    runs: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The predicate of a certificate that counts, but for what is stated otherwise."""
    package = package or package_of(documents)
    is_jaxlib = package == "jaxlib"
    return {
        "schema": 1,
        "target": target or documents.manifest["target"]["name"],
        "jaxlib": version if is_jaxlib else "",
        **({} if is_jaxlib else {"package": package, "version": version}),
        "outcome": outcome,
        "detail": detail,
        "certifiedOn": certified.isoformat(),
        "fixtures": runs_of(documents) if runs is None else runs,
        "surroundings": {
            "cpu": "made up",
            "isa": [],
            "os": "linux",
            "libc": "glibc 2.36",
            "python": "3.13.0",
            "runtime": "0.1.0",
            "packages": {package: version},
        },
    }


def statement(documents: Documents, signer: LocalSigner, predicate: Any, **change: Any) -> bytes:
    """The envelope of a signed statement, a certificate about this root if nothing is changed."""
    stated = {**statement_about(root_digest(documents)), "predicateType": TYPE}
    return signed_envelope(to_json({**stated, "predicate": predicate, **change}), signer)


def certified(documents: Documents, builder: LocalSigner, *certificates: bytes) -> MemoryBundle:
    """The bundle, signed by its builder, with these envelopes beside."""
    build = statement(documents, builder, a_build(), predicateType="https://slsa.dev/provenance/v1")
    documents.envelopes = [build, *certificates]
    return put_together(documents)


def trusting(builder: LocalSigner, *certifiers: LocalSigner, **change: Any) -> TrustPolicy:
    """A policy for what the builder signed, with these certifiers."""
    keys = tuple(key_of(signer) for signer in certifiers)
    return policy_for(builder, **{"certifiers": keys, **change})
