"""The command line, and bundles of one program for different targets, made from one built."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.archives import on_disk
from hostile.tampering import Documents, in_memory, second_target, signed, take_apart
from unit.cli.conftest import aotc, refused

from aotc.bundle.sign.signer import LocalSigner

__all__ = ["aotc", "refused"]

Change = Callable[[Documents], object]
Made = Callable[..., Path]


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.ephemeral()


@pytest.fixture
def made(digits_bundle: tuple[Path, Path], signer: LocalSigner, tmp_path: Path) -> Made:
    """Write the digits bundle for a target of this name, changed as asked and signed."""
    genuine = in_memory(digits_bundle[0])

    def make(name: str, target: str, change: Change = lambda d: None) -> Path:
        documents = take_apart(genuine)
        if target != documents.manifest["target"]["name"]:
            second_target(documents, target)
            del documents.targets[0], documents.root["manifests"][0]
            kept = {layer["digest"] for layer in documents.image["layers"]}
            documents.layers = {d: b for d, b in documents.layers.items() if d in kept}
        change(documents)
        folder = tmp_path / name
        folder.mkdir()
        path = on_disk(signed(documents, signer), "archive", folder)
        return path.rename(folder / f"{name}.aotb")

    return make
