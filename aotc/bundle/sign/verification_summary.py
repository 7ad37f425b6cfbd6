"""The verdict of `aotc verify`, signed for others who trust this verifier's key.

In two forms, which name no host, no user and no path: https://slsa.dev/spec/v1.2/verification_summary
and https://github.com/in-toto/attestation/blob/main/spec/predicates/svr.md.
"""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from packageurl import PackageURL

from aotc.base.errors import refusal
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import hexes, stamp
from aotc.bundle.sign.signer import Signer

SUMMARY_TYPE = "https://slsa.dev/verification_summary/v1"
RESULT_TYPE = "https://in-toto.io/attestation/svr/v0.2"
VERIFIER_ID = "https://aotc.dev/verifier"
DETAILS = "https://aotc.dev/verification/v1"
"""The field with gates, signers and target; names of a producer's own fields are URIs."""


def verification_summary(
    verdict: Mapping[str, Any], policy: str, reference: str, began: datetime, signer: Signer
) -> bytes:
    """Return the summary and the result of a bundle that passed: DSSE envelopes, one a line.

    `verdict` is the document of `verify_report`, `policy` the name of the policy's file, and
    `reference` the bundle's by digest, empty for a file. Verification began at `began`, in UTC.
    Raises UsageError: AOTC-E052 if targets are absent, and the signer's errors.
    """
    if absent := verdict["target_reason"]["absent"]:
        # The root digest stands for every target, and these were not hashed.
        raise refusal("AOTC-E052", verdict["bundle"], "no " + ", ".join(absent))
    assert verdict["weights_hashed"], "every byte below the root digest was"
    name, release = verdict["name"], verdict["version"]
    judged_by = {"uri": quote(policy), "digest": hexes(verdict["policy_digest"])}
    summary = {
        "verifier": {"id": VERIFIER_ID, "version": {"aotc": version("aotc")}},
        "timeVerified": stamp(began),
        "resourceUri": reference or PackageURL("generic", None, name, release).to_string(),
        "policy": judged_by,
        "verificationResult": "PASSED",
        "verifiedLevels": ["SLSA_BUILD_LEVEL_UNEVALUATED"],
        "slsaVersion": "1.2",
        DETAILS: {each: verdict[each] for each in ("gates", "signers", "target")},
    }
    result = {
        "verifier": {"id": VERIFIER_ID, "policies": [judged_by]},
        "timeCreated": stamp(began),
        "properties": [f"AOTC_{gate.upper()}" for gate in verdict["gates"]],
    }
    root, subject = verdict["root_digest"], f"{name}-{release}"
    forms = {SUMMARY_TYPE: summary, RESULT_TYPE: result}.items()
    made = (attest(root, subject, form, signer, kind) for kind, form in forms)
    return b"".join(each.envelope + b"\n" for each in made)
