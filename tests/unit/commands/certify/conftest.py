"""Bundles of a jaxlib that is not the one here."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.archives import on_disk
from hostile.tampering import Documents, in_memory, signed, take_apart
from unit.cli.conftest import aotc

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.engines.xla import xla_engine
from tests.conftest import Bundle

__all__ = ["aotc"]

Made = Callable[..., Bundle]
ELSEWHERE = "0.12.98"
"""A version of jaxlib that nobody runs."""


@pytest.fixture(scope="session")
def builder() -> LocalSigner:
    return LocalSigner.ephemeral()


@pytest.fixture
def built_elsewhere(digits_bundle: Bundle, builder: LocalSigner, tmp_path: Path) -> Made:
    """Write the digits bundle as another jaxlib's, with a policy that trusts it."""
    genuine = in_memory(digits_bundle[0])

    def make(
        change: Callable[[Documents], object] = lambda documents: None,
        form: str = "archive",
        more: str = "",
    ) -> Bundle:
        documents = take_apart(genuine)
        documents.manifest["accepts_jaxlib"] = [ELSEWHERE]
        documents.manifest["built_with"]["jaxlib"] = ELSEWHERE
        change(documents)
        folder = tmp_path / f"made{len([*tmp_path.iterdir()])}"
        folder.mkdir()
        policy = folder / "trust.toml"
        policy.write_text(policy_text("digits", [builder.public_pem()]) + more)
        return on_disk(signed(documents, builder), form, folder), policy

    return make


@pytest.fixture(scope="session")
def running_jaxlib() -> str:
    return xla_engine.processor().jaxlib
