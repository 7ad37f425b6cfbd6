"""The bundles that are measured, built once and signed with a throw-away key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from benchmarks.measure import OUT, ROOT


class Measured(NamedTuple):
    """A bundle and the policy it loads with."""

    bundle: Path
    policy: Path


def digits(engine: str = "xla") -> Measured:
    """Build the digits example anew, with one engine."""
    folder = OUT / "digits" / engine
    shutil.copytree(ROOT / "manifests" / "digits", folder / "digits", dirs_exist_ok=True)
    text = (ROOT / "manifests" / "digits.toml").read_text()
    (folder / "digits.toml").write_text(text.replace("\n\n", f'\nengines = ["{engine}"]\n\n', 1))
    measured = Measured(folder / "digits.aotb", folder / "digits.trust.toml")
    signer = LocalSigner.ephemeral()
    build(folder / "digits.toml", measured.bundle, BuildOptions(signer=signer))
    measured.policy.write_text(policy_text("digits", [signer.public_pem()]))
    return measured
