"""Starting points of attacks on signatures and policies, and their verification."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.bundle_examination import verify

from .provenances import NOW, a_build, attested, key_of
from .tampering import Documents, MemoryBundle, signed


@dataclass(slots=True)
class Workbench:
    """A good bundle's documents, which a test may change, three keys, and a host to run it."""

    documents: Documents
    ours: LocalSigner
    stranger: LocalSigner
    third: LocalSigner
    host: HostFacts

    def signed(self, *signers: LocalSigner) -> MemoryBundle:
        """The documents as they are, signed by these keys; by `ours` without any."""
        return signed(self.documents, *(signers or (self.ours,)))

    def attested(self, *said: tuple[LocalSigner, Any], **more: str) -> MemoryBundle:
        """The documents as they are, with what keys say of their build."""
        return attested(self.documents, *(said or ((self.ours, a_build()),)), **more)

    def policy(self, *keys: TrustedKey, **stated: Any) -> TrustPolicy:
        """A policy with these keys; with `ours` without any."""
        listed = keys or (key_of(self.ours),)
        return TrustPolicy(**{"schema": 1, "name": "digits", "keys": listed, **stated})

    def findings(
        self, bundle: MemoryBundle, policy: TrustPolicy, now: datetime = NOW
    ) -> list[Finding]:
        """Return why the bundle is refused."""
        try:
            verify(bundle, policy, self.host, now.timestamp())
        except AotcError as error:
            return list(error.findings)
        return []

    def codes(self, bundle: MemoryBundle, policy: TrustPolicy, now: datetime = NOW) -> list[str]:
        """The codes of the findings."""
        return [finding.code for finding in self.findings(bundle, policy, now)]
