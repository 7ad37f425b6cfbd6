"""The trust policy: the TOML file at the deploy side, `schema = 1` (docs/trust.md).

schema = 1
name = "digits"              # a bundle name, or a glob such as "team-*"
threshold = 1                # how many distinct keys must have signed
minimum_version = "1.0.0"    # optional: refuse older bundles

[[keys]]
name = "ci"                  # optional, for messages
public_key_file = "ci.pub"   # relative to the policy; or public_key = the PEM text
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class TrustedKey(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A public key (PEM, SubjectPublicKeyInfo; Ed25519 or ECDSA P-256) whose signatures count."""

    public_key: str = ""
    public_key_file: str = ""
    name: str = ""


class TrustPolicy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose signatures count, how many are needed, and for which bundles."""

    schema: Annotated[int, Meta(ge=1, le=1)]
    name: Annotated[str, Meta(min_length=1)]
    keys: Annotated[tuple[TrustedKey, ...], Meta(min_length=1)]
    threshold: Annotated[int, Meta(ge=1)] = 1
    minimum_version: str = ""
