"""The folder that docs/guides/signing.md speaks of, and the tools it needs."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.documented import run_section

from .softhsm import SoftHsm, find

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "signing.md"
TOOLS = ("base64", "jq", "openssl", "sha256sum", "tar")


def skip(reason: str) -> None:
    """But under `make test-interop`, which installs everything, what cannot run has failed."""
    if os.environ.get("AOTC_INTEROP"):
        pytest.fail(reason)
    pytest.skip(reason)


def require(heading: str, folder: Path, **variables: str) -> None:
    """Run the blocks of a section of the page, each of which has to succeed."""
    done = run_section(PAGE, heading, folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def tools() -> None:
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        skip(f"needs {', '.join(missing)}")


@pytest.fixture(scope="session")
def model_signing() -> None:
    if find_spec("model_signing") is None:
        skip("needs the extra interop, model-signing: make test-interop")


@pytest.fixture(scope="session")
def _signed(
    tools: None, digits_bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("page")
    shutil.copy(digits_bundle[0], folder / "digits.aotb")
    for heading in ("Keys", "Signing", "Verifying without aotc"):
        require(heading, folder)
    return folder


@pytest.fixture
def signed(_signed: Path, tmp_path: Path) -> Path:
    """A copy of the page's folder: digits.aotb and digits, signed with ci.key and release.key."""
    return Path(shutil.copytree(_signed, tmp_path / "page"))


@pytest.fixture(scope="session")
def _unpacked(_signed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(_signed, tmp_path_factory.mktemp("unpacked") / "page"))
    for heading in ("Digests, with sha256sum", "Signatures, with openssl"):
        require(heading, folder)
    return folder


@pytest.fixture(scope="session")
def _built_by_ci(_signed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "page"
    folder.mkdir()
    for name in ("ci.key", "ci.pub", "release.key", "release.pub"):
        shutil.copy(_signed / name, folder)
    aotc = str(Path(sys.executable).parent / "aotc")
    for command in (
        ["build", str(ROOT / "manifests" / "digits.toml"), "--key", "ci.key", "-o", "digits.aotb"],
        ["sign", "digits.aotb", "--key", "release.key"],
        ["sign", "digits.aotb", "--key", "ci.key"],
    ):
        subprocess.run([aotc, *command], cwd=folder, check=True, capture_output=True)
    require("Verifying without aotc", folder)
    return folder


@pytest.fixture
def built_by_ci(_built_by_ci: Path, tmp_path: Path) -> Path:
    """The page's folder with a bundle that ci.key built: it signed a provenance, a bill of
    materials and an endorsement; and that release.key signed.
    """
    return Path(shutil.copytree(_built_by_ci, tmp_path / "page"))


@pytest.fixture
def unpacked(_unpacked: Path, tmp_path: Path) -> Path:
    """The same with the envelopes ci.json and release.json and the root digest in files."""
    return Path(shutil.copytree(_unpacked, tmp_path / "page"))


@pytest.fixture(scope="session")
def softhsm(tmp_path_factory: pytest.TempPathFactory) -> SoftHsm:
    """A software token of its own: nothing outside of its folder is touched."""
    installed = find([Path("/"), ROOT / "out" / "interop" / "softhsm"])
    if installed is None:
        skip("needs softhsm2: make test-interop, or apt-get install softhsm2")
    assert installed is not None
    return SoftHsm.in_folder(tmp_path_factory.mktemp("softhsm"), installed)
