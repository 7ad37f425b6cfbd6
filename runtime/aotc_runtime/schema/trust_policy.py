"""The trust policy: the TOML file at the deploy side, `schema = 1`.

docs/reference/trust-policy.md has an example.

Only `schema`, `name` and one `[[keys]]` have to be stated; a rule that is left out refuses nothing,
but for furthest_fallback, which then refuses compiling.
"""

# No import of its own: msgspec has loaded datetime already. Annotations are not postponed: msgspec
# would have to evaluate each of them when a policy is first read.
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aotc_runtime.base import limits
from aotc_runtime.schema.bundle_manifest import Digest, OutOfProfilePolicy

KeyId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""SHA-256 of a SubjectPublicKeyInfo in DER, hex."""

SourceDigest = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9]{1,32}:[0-9a-f]{32,128}\Z")]
"""A digest as provenance names them: "sha256:…", "gitCommit:…"."""

Instant = Annotated[datetime, Meta(tz=True)]
"""An offset date-time; a time without an offset means another moment on every machine."""

Text = Annotated[str, Meta(min_length=1)]

RequiredMetric = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\.[A-Za-z_][A-Za-z0-9_.:]{0,255}\Z")
]
"""An entry point and its metric: "classify.top1"."""

AcceptedPrecision = Literal["float32", "bfloat16", "int8", "int4", "dynamic", "static"]
"""The fewest bits of weights that an executable takes; "float32" stands for more than 8."""

ChannelName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]

FALLBACK_UNSTATED = OutOfProfilePolicy.SPLIT
"""The default of `furthest_fallback`: nothing is compiled in production."""


class _Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every table of a policy: immutable, no unknown keys."""


class TrustedKey(_Table, frozen=True):
    """A public key (PEM, SubjectPublicKeyInfo; Ed25519 or ECDSA P-256) whose signatures count.

    They count from `not_before` to `not_after`, both included, by the clock of the checking host.
    `holder` owns the key; keys of one holder count once, and a key without one is a holder of its
    own. `builders` are ids of the builders whose builds it may describe; None for none, or for all
    of them in a policy where no key states any.
    """

    public_key: str = ""
    public_key_file: str = ""
    name: str = ""
    holder: str = ""
    builders: tuple[Text, ...] | None = None
    not_before: Instant | None = None
    not_after: Instant | None = None


class Identity(_Table, frozen=True):
    """A Sigstore identity that signs without a key of the policy.

    `trusted_root` is JSON text about the authority and the logs; `holder` and `builders` are as in
    a `TrustedKey`.
    """

    issuer: Text
    identity: Text
    name: str = ""
    holder: str = ""
    builders: tuple[Text, ...] | None = None
    trusted_root: str = ""
    trusted_root_file: str = ""


class TimestampAuthority(_Table, frozen=True):
    """An authority whose RFC 3161 timestamps prove signing times.

    `certificates` is PEM text: the root, and others that its responses need.
    """

    name: str = ""
    certificates: str = ""
    certificates_file: str = ""


class Revoked(_Table, frozen=True):
    """Keys, roots and blobs that are rejected whoever signed them.

    `keys` are ids that never count. `since` maps ids to the time from which their signatures, and
    those without a timestamp, do not count. `roots` and `blobs` are digests.
    """

    keys: tuple[KeyId, ...] = ()
    since: dict[KeyId, Instant] = {}
    roots: tuple[Digest, ...] = ()
    blobs: tuple[Digest, ...] = ()


class Accepts(_Table, frozen=True):
    """Lists of what is accepted; None accepts everything.

    `builders` are builder ids of the provenance, `sources` digests of the build manifest and of the
    resolved dependencies. `jaxlib` and `aotc_runtime` are versions that may run the bundle.
    """

    builders: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None
    sources: Annotated[tuple[SourceDigest, ...], Meta(min_length=1)] | None = None
    jaxlib: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None
    aotc_runtime: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None


class SizeLimits(_Table, frozen=True):
    """The largest sizes in a bundle, in bytes, and the largest number of blobs."""

    blob_bytes: Annotated[int, Meta(ge=1)] | None = None
    bundle_bytes: Annotated[int, Meta(ge=1)] | None = None
    blobs: Annotated[int, Meta(ge=1, le=limits.BLOBS_MAX)] | None = None


class MetricRule(_Table, frozen=True, kw_only=False):
    """The worst accepted value of a metric, `minimum` or `maximum`, over at least `samples`."""

    minimum: float | None = None
    maximum: float | None = None
    samples: Annotated[int, Meta(ge=1)] = 1


class Channel(_Table, frozen=True):
    """The deployment channel, for `aotc verify --channel`; a load does not read it.

    `source` is an http(s) URL, or a folder, `root_file` TUF root metadata, and `state` a folder for
    the rollback state of this host.
    """

    name: ChannelName
    source: Text
    root_file: Text
    state: Text


class TrustPolicy(_Table, frozen=True):
    """The trusted keys or identities, the number of signatures that are needed, and other rules.

    `certifiers` sign certificates that make a jaxlib acceptable which a bundle does not accept by
    itself; their signatures count for nothing else. `furthest_fallback` is the most that an entry
    point may declare for out-of-profile calls; None allows everything but compiling. `engines` are
    names of those whose code may run; None allows any. `numerics` "ieee" rejects entry points that
    state finite numbers, whose NaN and infinities nothing has compared; None allows them.
    `references` is the required form of a reference to a registry; None allows tags. If one of
    `timestamp_authorities` states when a signature was made, the signing key is checked at that
    time. `metrics` are the worst that a target may have been evaluated with. `precisions` are those
    of weights as the bundle holds them, and in which calls round other factors; None allows any.
    """

    schema: Annotated[int, Meta(ge=1, le=1)]
    name: Text
    keys: tuple[TrustedKey, ...] = ()
    threshold: Annotated[int, Meta(ge=1)] = 1
    minimum_version: str = ""
    minimum_build_time: Instant | None = None
    furthest_fallback: OutOfProfilePolicy | None = None
    engines: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None
    numerics: Literal["ieee"] | None = None
    references: Literal["digest"] | None = None
    certifiers: tuple[TrustedKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    timestamp_authorities: tuple[TimestampAuthority, ...] = ()
    revoked: Revoked = Revoked()
    accepts: Accepts = Accepts()
    limits: SizeLimits = SizeLimits()
    metrics: dict[RequiredMetric, float | MetricRule] = {}
    precisions: Annotated[tuple[AcceptedPrecision, ...], Meta(min_length=1)] | None = None
    channel: Channel | None = None

    def binds_builders(self) -> bool:
        """Return whether keys are bound to builders; else each may describe all."""
        return any(builders is not None for builders in self.speakers())

    def speakers(self) -> list[tuple[Text, ...] | None]:
        """Return the `builders` of every key and identity."""
        return [k.builders for k in self.keys] + [i.builders for i in self.identities]

    def asks_about_builds(self) -> bool:
        """Return whether a rule is about provenance."""
        accepts = self.accepts
        stated = (self.minimum_build_time, accepts.builders, accepts.sources)
        return stated != (None, None, None) or self.binds_builders()
