"""Parts of a build as a bundle that the runtime loads, before anything is proven or signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.packing.bundle import Form, TargetParts, assemble, pack
from aotc.signing.attest import attest
from aotc.signing.provenance import endorsement
from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text

BUNDLE = "staged.aotb"


@dataclass(frozen=True, slots=True)
class StagedBundle:
    """policy: trusts the key that the bundle was signed with, which nobody has any more."""

    bundle: Path
    policy: Path


def stage(parts: Sequence[TargetParts], folder: Path) -> StagedBundle:
    """Write a bundle into a folder, signed with a key that lives for this call only."""
    signer = LocalSigner.ephemeral()
    staged = StagedBundle(folder / BUNDLE, folder / "trust.toml")
    assembled = assemble(parts)
    endorsed = attest(assembled.root.digest, "staged", endorsement(), signer)
    pack(staged.bundle, Form.ARCHIVE, assembled, [endorsed.envelope])
    policy = policy_text(parts[0].manifest.name, [signer.public_pem()])
    # What may be compiled is for the policy of the deployment to say; nothing is, in a build.
    staged.policy.write_text(f'furthest_fallback = "compile"\n{policy}')
    return staged
