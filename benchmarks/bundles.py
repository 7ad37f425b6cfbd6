"""The bundles that are measured, built once and signed with a throw-away key."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from benchmarks.measure import OUT, ROOT


class Measured(NamedTuple):
    """A bundle and the policy it loads with."""

    bundle: Path
    policy: Path


def digits() -> Measured:
    """A fresh build of the digits example."""
    OUT.mkdir(parents=True, exist_ok=True)
    measured = Measured(OUT / "digits.aotb", OUT / "digits.trust.toml")
    signer = LocalSigner.ephemeral()
    build(ROOT / "manifests" / "digits.toml", output=measured.bundle, signer=signer)
    measured.policy.write_text(policy_text("digits", [signer.public_pem()]))
    return measured
