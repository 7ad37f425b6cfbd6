"""Programs of a few lines, built and signed for one test module."""

from pathlib import Path
from typing import Any

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions


def build_trusted(manifest: Path, output: Path, **options: Any) -> Built:
    """Build a bundle with a new signer, whom `trust.toml` beside it trusts."""
    signer = LocalSigner.ephemeral()
    built = build(manifest, output, BuildOptions(signer=signer, **options))
    (name,) = {each.name for each in built.bundle.manifests.values()}
    output.with_name("trust.toml").write_text(policy_text(name, [signer.public_pem()]))
    return built


def build_signed(folder: Path, name: str, program: str, manifest: str) -> tuple[Path, Path]:
    """The bundle of `program.py` and the policy it loads with. name: as the manifest has it."""
    (folder / "program.py").write_text(program)
    (folder / "manifest.toml").write_text(manifest)
    bundle = folder / f"{name}.aotb"
    build_trusted(folder / "manifest.toml", bundle)
    return bundle, folder / "trust.toml"
