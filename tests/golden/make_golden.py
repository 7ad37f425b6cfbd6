"""Build the golden bundles anew: `python -m tests.golden.make_golden`.

IREE's packages have to be installed for the bundle of several engines (`make test-iree`). One key
signs all bundles and is discarded; golden.pub is its public half.
"""

import shutil
import tempfile
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.pipeline.build import build
from tests.engines.mixing import make_mixed
from tests.engines.sums import write

GOLDEN = Path(__file__).parent
ROOT = GOLDEN.parents[1]
OTHER = "iree"
"""The engine beside XLA in `sums`."""


def main() -> None:
    """Replace every bundle of this folder, and the key."""
    signer = LocalSigner.ephemeral()
    for manifest in (ROOT / "manifests" / "digits.toml", *sorted(GOLDEN.glob("*.toml"))):
        build(manifest, output=GOLDEN / f"{manifest.stem}.aotb", signer=signer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_mixed(write(folder, f'"xla", "{OTHER}"'), folder, OTHER, signer)
        shutil.copyfile(folder / "mixed.aotb", GOLDEN / "sums.aotb")
    (GOLDEN / "golden.pub").write_text(signer.public_pem(), encoding="utf-8")


if __name__ == "__main__":
    main()
