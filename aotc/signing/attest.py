"""Attestations: an in-toto statement about a root digest, in a DSSE envelope."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from aotc.signing.provenance import hexes
from aotc.signing.signer import Signer
from aotc.stages import Attestation
from aotc_runtime import canonical
from aotc_runtime.formats import dsse
from aotc_runtime.formats.statement import PROVENANCE_TYPE, STATEMENT_TYPE


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
        "subject": [{"name": subject, "digest": hexes(root_digest)}],
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
