"""Bundles over several devices, rightly signed, whose manifests do not say what they hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from tests.running import printed

from .archives import on_disk
from .tampering import in_memory, signed, take_apart

LOADING = """
import sys
import aotc_runtime

try:
    with aotc_runtime.load(sys.argv[1], trust=sys.argv[2]):
        print("accepted")
except aotc_runtime.AotcError as error:
    print(error.code, error.findings[0].expected)
"""


def outcome(
    bundle: Path, folder: Path, signer: LocalSigner, change: Callable[[dict[str, Any]], Any]
) -> str:
    """Of loading the changed bundle in a process of its own: XLA starts once with its devices."""
    documents = take_apart(in_memory(bundle))
    change(documents.manifest)
    path, policy = on_disk(signed(documents, signer), "archive", folder), folder / "trust.toml"
    policy.write_text(policy_text("parallel", [signer.public_pem()]))
    return printed(LOADING, path, policy).strip()


def cut_inputs(manifest: dict[str, Any]) -> None:
    """As many bytes on each device, of other places."""
    manifest["entry_points"]["encode"]["inputs"][0]["sharding"] = [[], ["model"], []]


def cut_outputs(manifest: dict[str, Any]) -> None:
    manifest["entry_points"]["encode"]["outputs"][0]["sharding"] = [[], [], ["data"]]


def cut_weights(manifest: dict[str, Any]) -> None:
    tensors = manifest["weights"]["params"]["tensors"]
    (tensor,) = [each for each in tensors if each["name"] == "feed_forward/up"]
    tensor["sharding"] = [["model"], []]


def turn_the_mesh(manifest: dict[str, Any]) -> None:
    manifest["mesh"]["axes"].reverse()


def other_devices(manifest: dict[str, Any]) -> None:
    manifest["mesh"]["devices"] = [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda manifest: None, "accepted"),
        (cut_inputs, "AOTC-E757 parameter"),
        (cut_weights, "AOTC-E757 parameter"),
        (turn_the_mesh, "AOTC-E757 parameter"),
        (cut_outputs, "AOTC-E757 result 0"),
        (other_devices, "AOTC-E118"),
    ],
    ids=["nothing", "inputs", "weights", "the mesh", "outputs", "devices"],
)
def test_executables_that_are_cut_in_another_way_than_the_manifest_says_are_refused(
    parallel_bundle: tuple[Path, Path],
    tmp_path: Path,
    ours: LocalSigner,
    change: Callable[[dict[str, Any]], Any],
    expected: str,
) -> None:
    assert outcome(parallel_bundle[0], tmp_path, ours, change).startswith(expected)
