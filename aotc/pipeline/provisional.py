"""A bundle for the build itself: written before parity, so that the runtime runs what it holds.

The final bundle is packed anew, once parity is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.errors import UsageError
from aotc.packing.bundle import Form, TargetParts, assemble, pack
from aotc.pipeline.scratch import no_scratch
from aotc.signing.attest import attest
from aotc.signing.provenance import endorsement
from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from aotc.temporaries import remove_folder

BUNDLE = "provisional"
"""A layout folder, which shares the files of the weights with the build's scratch folder."""


@dataclass(frozen=True, slots=True)
class ProvisionalBundle:
    """policy: a trust policy that accepts this bundle. The key behind it was discarded after one
    signature.
    """

    bundle: Path
    policy: Path

    def remove(self) -> None:
        """Give back its room."""
        remove_folder(self.bundle)


def pack_provisional(parts: Sequence[TargetParts], folder: Path) -> ProvisionalBundle:
    """Write a bundle into a folder, signed with a key that is discarded when this returns."""
    signer = LocalSigner.ephemeral()
    provisional = ProvisionalBundle(folder / BUNDLE, folder / "trust.toml")
    assembled = assemble(parts)
    endorsed = attest(assembled.root.digest, "provisional", endorsement(), signer)
    try:
        pack(provisional.bundle, Form.LAYOUT, assembled, [endorsed.envelope])
    except UsageError as error:
        if isinstance(error.__cause__, OSError):
            # Nobody has asked for this file: what has no room is the folder.
            raise no_scratch(error.__cause__) from error
        raise
    policy = policy_text(parts[0].manifest.name, [signer.public_pem()])
    # What may be compiled is for the policy of the deployment to say; nothing is, in a build.
    provisional.policy.write_text(f'furthest_fallback = "compile"\n{policy}', "utf-8")
    return provisional
