"""A genuine bundle in memory, a host that can run it, and signers of our own.

Where another engine is installed (`make test-iree`, `test-onnx`, `test-openvino`), what starts from
that bundle runs for one of its own too; tests marked `xla` are about what XLA's bundles alone have.
"""

import shutil
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import MANIFESTS, Bundle, Once
from tests.engines.conftest import ENGINES as OTHERS

from .tampering import (
    Documents,
    MemoryBundle,
    host_for,
    in_memory,
    take_apart,
    with_one_attestation,
)
from .workbench import Workbench

ENGINES = [
    "xla",
    *(pytest.param(each.name, marks=each.marks()) for each in OTHERS if each.is_here()),
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests of XLA's bundles alone out for other engines."""
    others = [
        item
        for item in items
        if item.get_closest_marker("xla")
        and getattr(item, "callspec", None) is not None
        and item.callspec.params.get("engine", "xla") != "xla"  # type: ignore[attr-defined]
    ]
    config.hook.pytest_deselected(items=others)
    left = {id(item) for item in others}
    items[:] = [item for item in items if id(item) not in left]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine whose bundle is attacked."""
    return request.param


@pytest.fixture(scope="session")
def attacked(engine: str, once: Once, request: pytest.FixtureRequest) -> Bundle:
    """The digits classifier, compiled by the engine, and the policy that it loads with."""
    if engine == "xla":
        return request.getfixturevalue("digits_bundle")

    def fill(folder: Path) -> None:
        signer = LocalSigner.ephemeral()
        shutil.copytree(MANIFESTS / "digits", folder / "digits")
        text = (MANIFESTS / "digits.toml").read_text()
        text = text.replace("targets = ", f'engines = ["{engine}"]\ntargets = ')
        (folder / "digits.toml").write_text(text)
        build(folder / "digits.toml", folder / "digits.aotb", BuildOptions(signer=signer))
        (folder / "trust.toml").write_text(policy_text("digits", [signer.public_pem()]))

    folder = once(f"digits-{engine}", fill)
    return folder / "digits.aotb", folder / "trust.toml"


@pytest.fixture(scope="session")
def genuine(attacked: Bundle) -> MemoryBundle:
    return with_one_attestation(in_memory(attacked[0]))


@pytest.fixture(scope="session")
def policy(attacked: Bundle) -> TrustPolicy:
    return read_policy(attacked[1])


@pytest.fixture(scope="session")
def host(genuine: MemoryBundle) -> HostFacts:
    """A host made to measure, so that these tests mean the same everywhere."""
    return host_for(genuine)


@pytest.fixture
def documents(genuine: MemoryBundle) -> Documents:
    return take_apart(genuine)


@pytest.fixture(scope="session")
def ours() -> LocalSigner:
    """A signer that tests can sign with; policies made by `policy_for` trust it."""
    return LocalSigner.ephemeral()


@pytest.fixture(scope="session")
def stranger() -> LocalSigner:
    return LocalSigner.ephemeral()


@pytest.fixture
def bench(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> Workbench:
    return Workbench(documents, ours, stranger, LocalSigner.ephemeral(), host)
