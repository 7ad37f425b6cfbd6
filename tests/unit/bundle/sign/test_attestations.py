"""Attestations: an in-toto statement in a DSSE envelope, signed over its exact bytes."""

import base64
import json

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.sign.attestation import PAYLOAD_BYTES_MAX, attest
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import marks_in
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.root_signatures import accepted_provenance, signers_of

ROOT = sha256(b"the root")
SIGNER = LocalSigner.ephemeral()
POLICY = TrustPolicy(schema=1, name="digits", keys=(TrustedKey(public_key=SIGNER.public_pem()),))


def test_the_runtime_accepts_an_attestation_for_its_root_only() -> None:
    made = attest(ROOT, "digits-1.0.0", endorsement(), SIGNER)
    assert made == attest(ROOT, "digits-1.0.0", endorsement(), SIGNER), "no time is in it"
    assert signers_of(accepted_provenance([made.envelope], ROOT, POLICY, "b", 0)) == (
        SIGNER.key_id,
    )
    with pytest.raises(TrustError) as caught:
        accepted_provenance([made.envelope], sha256(b"another root"), POLICY, "b", 0)
    assert caught.value.code == "AOTC-E305"


@pytest.mark.parametrize("bound", ["marks", "bytes"])
def test_the_statement_at_its_limit_is_made_and_one_more_is_not(bound: str) -> None:
    empty = base64.b64decode(json.loads(attest(ROOT, "b", {"x": ""}, SIGNER).envelope)["payload"])
    most = {
        "marks": limits.STATEMENT_MARKS_MAX - marks_in(empty),
        "bytes": PAYLOAD_BYTES_MAX - len(empty),
    }[bound]
    text = {"marks": ",", "bytes": "x"}[bound]
    made = attest(ROOT, "b", {"x": text * most}, SIGNER)
    assert signers_of(accepted_provenance([made.envelope], ROOT, POLICY, "b", 0)) == (
        SIGNER.key_id,
    )
    with pytest.raises(UsageError):
        attest(ROOT, "b", {"x": text * (most + 1)}, SIGNER)
