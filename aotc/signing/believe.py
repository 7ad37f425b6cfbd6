"""Reads a bundle that a trust policy accepts, without asking whether this host could run it: for
commands that look into bundles or join them, and load nothing.
"""

from __future__ import annotations

from datetime import datetime

from aotc_runtime.errors import raise_if
from aotc_runtime.formats.oci import BlobSource
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.verification import rules, signatures
from aotc_runtime.verification.contents import (
    Contents,
    read_contents,
    read_envelopes,
    read_root,
    read_unverified,
)
from aotc_runtime.verification.signatures import Voucher
from aotc_runtime.verification.verify import check_policy


def read_believed(
    source: BlobSource, policy: TrustPolicy | None, now: datetime
) -> tuple[Contents, tuple[Voucher, ...]]:
    """A bundle's contents and whoever vouches for them, after steps 1 to 7 of docs/trust.md without
    their rules on the host. policy: None checks the digests alone.

    Raises BundleFormatError, IntegrityError, TrustError.
    """
    if policy is None:
        return read_unverified(source)[0], ()
    root = read_root(source)
    raise_if(rules.check_limits(source, policy))
    raise_if(rules.check_revoked_root(root.entry.digest, policy, source.name))
    envelopes = read_envelopes(source, root)
    vouchers = signatures.vouchers_for(
        envelopes, root.entry.digest, policy, source.name, now.timestamp()
    )
    contents = read_contents(source, root, envelopes.blobs)
    raise_if(check_policy(contents, envelopes.blobs, vouchers, policy, source.name))
    return contents, vouchers
