"""Build the golden bundles anew: `python -m tests.golden.make_golden`.

IREE's packages have to be installed for the bundle of several engines (`make test-iree`). One key
signs all bundles of a version and is discarded; golden.pub, and assets.pub for format 1.1, is its
public half. With names of manifests, it builds these alone, under a key named for the first.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from tests.engines.mixing import make_mixed
from tests.engines.sums import write

GOLDEN = Path(__file__).parent
ROOT = GOLDEN.parents[1]
OTHER = "iree"
"""The engine beside XLA in `sums`."""


def make(names: Sequence[str], signer: LocalSigner) -> None:
    """Build bundles of these manifests of this folder."""
    for name in names:
        build(GOLDEN / f"{name}.toml", GOLDEN / f"{name}.aotb", BuildOptions(signer=signer))


def main() -> None:
    """Replace every bundle of format 1.0, and the key; or those of the named manifests."""
    signer = LocalSigner.ephemeral()
    if names := sys.argv[1:]:
        make(names, signer)
        (GOLDEN / f"{names[0]}.pub").write_text(signer.public_pem(), encoding="utf-8")
        return
    build(ROOT / "manifests" / "digits.toml", GOLDEN / "digits.aotb", BuildOptions(signer=signer))
    make(("finite", "layers", "sizes", "trees"), signer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_mixed(write(folder, f'"xla", "{OTHER}"'), folder, OTHER, signer)
        shutil.copyfile(folder / "mixed.aotb", GOLDEN / "sums.aotb")
    (GOLDEN / "golden.pub").write_text(signer.public_pem(), encoding="utf-8")


if __name__ == "__main__":
    main()
