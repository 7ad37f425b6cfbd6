"""Programs of a few lines, built and signed for one test module."""

from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions


def build_signed(folder: Path, name: str, program: str, manifest: str) -> tuple[Path, Path]:
    """The bundle of `program.py` and the policy it loads with. name: as the manifest has it."""
    (folder / "program.py").write_text(program)
    (folder / "manifest.toml").write_text(manifest)
    bundle, policy = folder / f"{name}.aotb", folder / "trust.toml"
    signer = LocalSigner.ephemeral()
    build(folder / "manifest.toml", bundle, BuildOptions(signer=signer))
    policy.write_text(policy_text(name, [signer.public_pem()]))
    return bundle, policy
