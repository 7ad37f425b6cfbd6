"""Every bad bundle of the generator, at every door: the code and exit code that it is made for."""

import hashlib
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text

from .archives import on_disk
from .doors import READY, Capture, at_every_door, loaded
from .generator import CASES, Case, Kit
from .tampering import MemoryBundle, signed, take_apart

IN_EVERY_FORM = [(case, form) for case in CASES for form in case.forms]
EVERY_FORM = pytest.mark.parametrize(
    ("case", "form"), IN_EVERY_FORM, ids=[f"{case.name}, {form}" for case, form in IN_EVERY_FORM]
)


@pytest.fixture(scope="session")
def kit(genuine: MemoryBundle, ours: LocalSigner, stranger: LocalSigner) -> Kit:
    return Kit(signed(take_apart(genuine), ours), ours, stranger)


@pytest.fixture(scope="session")
def trust(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "trust.toml"
    path.write_text(policy_text("digits", [kit.ours.public_pem()]))
    return path


@EVERY_FORM
def test_a_bad_bundle_is_refused_at_every_door(
    case: Case, form: str, kit: Kit, trust: Path, tmp_path: Path, capfd: Capture
) -> None:
    path = case.make(kit, tmp_path, form)
    wanted = (case.code, case.exit_code)
    assert at_every_door(path, trust, capfd) == [wanted] * 3


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_unmodified_bundle_becomes_ready(form: str, kit: Kit, trust: Path, tmp_path: Path) -> None:
    assert loaded(on_disk(kit.bundle, form, tmp_path), trust) == READY


@pytest.mark.xla  # Of another engine's, a device of XLA's is wrong for one reason.
def test_no_two_of_them_are_the_same(kit: Kit, tmp_path: Path) -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 120
    digests: dict[bytes, str] = {}
    for number, case in enumerate(CASES):
        if "archive" in case.forms:
            folder = tmp_path / str(number)
            folder.mkdir()
            data = case.make(kit, folder, "archive").read_bytes()
            other = digests.setdefault(hashlib.sha256(data).digest(), case.name)
            assert other == case.name, f"{other} is {case.name}"
            (folder / "bundle.aotb").unlink()
