"""Hosts as `aotc-runtime host-info` describes them, and which target of a bundle each runs."""

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.errors import finding, raise_if
from aotc.bundle.read.opened_bundle import Opened
from aotc.bundle.sign.attestation import certificates_in
from aotc.commands.compat.compat_matrix import NO_POLICY, Claim, PolicyChecks, Row, matrix
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.host_facts_json import KIND, SCHEMA, HostDocument
from aotc_runtime.schema.bundle_manifest import BundleManifest, Target
from aotc_runtime.schema.certified_releases import Release, Ruling
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.verification import certificate_rules, policy_rules


def match_hosts(
    read: Opened,
    hosts: Mapping[str, HostFacts],
    jaxlibs: Sequence[str],
    known: Sequence[Target],
    policy: TrustPolicy | None,
    now: float,
) -> tuple[Row, ...]:
    """Return the compatibility matrix of a bundle.

    `jaxlibs` are assumed on each host instead of its own, if any; `known` are all targets that
    could be built for. `policy` is the deployment's, whose certifiers count; None accepts no
    certificate. `now` is in seconds since the epoch.
    """
    claims = [_claim(*found) for found in certificates_in(read.envelopes)]
    checks = NO_POLICY if policy is None else _policy_checks(policy, read, now)
    return matrix(read.contents.manifests, hosts, jaxlibs, known, claims, checks)


def _policy_checks(policy: TrustPolicy, read: Opened, now: float) -> PolicyChecks:
    def ask(manifest: BundleManifest, release: Release) -> Ruling:
        return certificate_rules.ruling(
            manifest, release, read.envelopes, read.root_digest, policy, read.bundle, now
        )

    # The rule on aotc-runtime would look at the version that runs here, not at the hosts'.
    accepts = msgspec.structs.replace(policy.accepts, aotc_runtime=None)

    def check_runtime(facts: HostFacts, engines: Set[str]) -> Iterable[Finding]:
        return policy_rules.check_runtime(facts, accepts, engines)

    return PolicyChecks(ask if policy.certifiers else None, check_runtime)


def _claim(certificate: Certificate, keys: tuple[str, ...]) -> Claim:
    return Claim(
        target=certificate.target,
        package=certificate.release.package,
        version=certificate.release.version,
        outcome=certificate.outcome,
        certified_on=certificate.certifiedOn.isoformat().replace("+00:00", "Z"),
        cpu=certificate.surroundings.cpu,
        keys=keys,
        ulp_max=max((run.ulpMax for run in certificate.fixtures), default=0),
    )


SIZE_BYTES_MAX = 2**20
"""The document of a machine with eight GPUs has about 3 KB."""


class _Head(Struct):
    """The beginning of the document of every schema."""

    kind: str = ""
    schema: int = 0


def read_hosts(paths: Sequence[Path]) -> dict[str, HostFacts]:
    """Return the hosts by name, which is the file's without its suffix, in the order given.

    Raises UsageError (AOTC-E053): every file that cannot be read, is no description of a host, of
    another schema, or has the name of another one.
    """
    hosts: dict[str, HostFacts] = {}
    findings: list[Finding] = []
    for path in paths:
        read = _read(path)
        if isinstance(read, Finding):
            findings.append(read)
        elif path.stem in hosts:
            findings.append(_finding(path, "a name of its own", f"a second {path.stem}"))
        else:
            hosts[path.stem] = read
    raise_if(findings)
    return hosts


def _read(path: Path) -> HostFacts | Finding:
    try:
        data = read_file(path, SIZE_BYTES_MAX)
        if len(data) > SIZE_BYTES_MAX:
            return _finding(path, f"at most {SIZE_BYTES_MAX} bytes", "a larger file")
        head = msgspec.json.decode(data, type=_Head)
        if (head.kind, head.schema) != (KIND, SCHEMA):
            found = f"kind {head.kind or 'none'}, schema {head.schema}"
            return _finding(path, f"kind {KIND}, schema {SCHEMA}", found)
        return msgspec.json.decode(data, type=HostDocument).facts
    except OSError as error:
        return _finding(path, "a readable file", error.strerror or str(error))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return _finding(path, "the JSON document that host-info prints", str(error))


def _finding(path: Path, expected: str, found: str) -> Finding:
    return finding("AOTC-E053", str(path), found, expected=expected)
