"""Evaluate the current policy for a bundle that serves."""

from __future__ import annotations

import time
from collections.abc import Iterator

from aotc_runtime.base.errors import AotcError, Finding, finding
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.verification import policy_rules
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.policy_reader import policy_keys

REFUSED_BY_POLICY = frozenset(
    f"AOTC-E{number}"
    for number in (302, 304, 306, 307, 312, 313, 314, 315, 316, 317, 318, 319, 320, 322, 323)
)
"""Codes for bundles that a policy does not accept. Not among them: policies that cannot be read,
keys that have expired, bundles that are damaged.
"""


def is_refused_by_policy(error: AotcError) -> bool:
    """Return whether an error is a policy's rejection of a bundle."""
    return all(found.code in REFUSED_BY_POLICY for found in error.findings)


def revocations(bundle: LoadedBundle, policy: TrustPolicy) -> Iterator[Finding]:
    """Yield what a policy revokes of a bundle that serves.

    This is its root, blobs, keys, name or version; its files may have been replaced.
    """
    where = f"{bundle.name} {bundle.version}"
    yield from policy_rules.check_revoked_root(bundle.root_digest, policy, where)
    roles = dict.fromkeys(references(bundle.manifest), f"a blob of {where}")
    yield from policy_rules.check_revoked_blobs(roles, policy)
    yield from policy_rules.check_identity(bundle.manifest, policy)
    keys, now = policy_keys(policy), time.time()
    # A timestamp may say that a signature is older than the revocation of its key.
    known = [keys[id] for id in bundle.signers if id in keys]
    counted = [
        key
        for key in known
        if not (key.revoked if policy.timestamp_authorities else key.state(now) == "revoked")
    ]
    if len({key.holder for key in counted}) < policy.threshold:
        revoked = ", ".join(key.label for key in known if key not in counted)
        if revoked:
            yield finding("AOTC-E312", where, revoked)
        else:
            signers = ", ".join(id[:16] for id in bundle.signers)
            yield finding("AOTC-E302", where, f"signatures by keys {signers}")
