"""Bundles that a trusted key signed and that still do not become ready: they compute something
else, or their parts do not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxlib import xla_client

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc_runtime.base.errors import AotcError
from aotc_runtime.engines.xla import xla_engine as xla
from aotc_runtime.formats.safetensors_reader import numpy_dtype, read_tensors
from tests.conftest import Bundle
from tests.refusals import error_of

from .archives import on_disk
from .tampering import Documents, policy_for, signed, swap_layer

Arrays = dict[str, np.ndarray[Any, Any]]
Attack = Callable[[Documents], Any]


def arrays_of(data: bytes) -> Arrays:
    return {
        name: np.frombuffer(data[info.start : info.end], numpy_dtype(info.dtype))
        .reshape(info.shape)
        .copy()
        for name, info in read_tensors(memoryview(data), where="x").items()
    }


def rewrite(documents: Documents, digest: str, change: Callable[[Arrays], Any]) -> None:
    arrays = arrays_of(documents.layers[digest])
    change(arrays)
    swap_layer(documents, digest, write_tensors(arrays, where="x"))


def weights(change: Callable[[Arrays], Any]) -> Attack:
    return lambda d: rewrite(d, d.manifest["weights"]["params"]["blobs"][0]["digest"], change)


def fixture(change: Callable[[Arrays], Any]) -> Attack:
    return lambda d: rewrite(d, d.profile["fixture"]["digest"], change)


def plus(name: str, at: Any, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][at] += value

    return change


def exchanged(documents: Documents) -> None:
    """The executable of another profile, whose arguments are larger."""
    first, *_, last = documents.manifest["entry_points"]["predict"]["profiles"]
    first["executable"], last["executable"] = last["executable"], first["executable"]


def instead(kind: str, data: bytes) -> Attack:
    return lambda d: swap_layer(d, d.profile[kind]["digest"], data)


IMAGE = "inputs/image"
ATTACKS: dict[str, tuple[Attack, str, int]] = {
    "another reference": (fixture(plus("outputs/probabilities", (0, 0), 0.01)), "AOTC-E701", 8),
    "another label": (fixture(plus("outputs/label", 0, 1)), "AOTC-E701", 8),
    "other weights": (weights(plus("output/bias", 3, 1)), "AOTC-E701", 8),
    "no output": (fixture(lambda arrays: arrays.pop("outputs/label")), "AOTC-E702", 8),
    "another shape": (
        fixture(lambda arrays: arrays.update({IMAGE: np.zeros((2, 64), np.float32)})),
        "AOTC-E702",
        8,
    ),
    "another dtype": (
        fixture(lambda arrays: arrays.update({IMAGE: arrays[IMAGE].view(np.int32)})),
        "AOTC-E702",
        8,
    ),
    "a tensor more": (
        weights(lambda arrays: arrays.update(extra=np.zeros(1, np.float32))),
        "AOTC-E117",
        5,
    ),
    "weights of another dtype": (
        lambda d: d.manifest["weights"]["params"]["tensors"][0].update(dtype="int32"),
        "AOTC-E117",
        5,
    ),
    "another executable": (exchanged, "AOTC-E755", 7),
    "no executable": (instead("executable", b"no machine code"), "AOTC-E753", 7),
    "a broken fixture": (instead("fixture", b"no tensors"), "AOTC-E131", 5),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_does_not_match_its_fixtures_never_becomes_ready(
    name: str, engine: str, documents: Documents, ours: LocalSigner, tmp_path: Path
) -> None:
    attack, code, exit_code = ATTACKS[name]
    if attack is exchanged and engine != "xla":
        code = "AOTC-E753"  # which says what it gives, and is asked before it runs
    attack(documents)
    path = on_disk(signed(documents, ours), "archive", tmp_path)
    refused = error_of(AotcError, aotc_runtime.load, path, trust=policy_for(ours))
    assert refused.code == code and refused.exit_code == exit_code


def test_unchanged_bundle_is_ready(documents: Documents, ours: LocalSigner, tmp_path: Path) -> None:
    path = on_disk(signed(documents, ours), "archive", tmp_path)
    with aotc_runtime.load(path, trust=policy_for(ours)) as bundle:
        assert bundle.signers == (ours.key_id,)


def test_a_load_that_failed_half_way_stands_in_nobodys_way(
    documents: Documents, ours: LocalSigner, digits_bundle: Bundle, tmp_path: Path
) -> None:
    """Whoever keeps its error keeps the executables alive that had been loaded by then."""
    *_, last = documents.manifest["entry_points"]["predict"]["profiles"]
    swap_layer(documents, last["executable"]["digest"], b"no machine code")
    path = on_disk(signed(documents, ours), "archive", tmp_path)
    assert error_of(AotcError, aotc_runtime.load, path, trust=policy_for(ours)).code == "AOTC-E753"
    bundle, policy = digits_bundle
    with aotc_runtime.load(bundle, trust=policy) as loaded:
        assert loaded.report()["compilations"] == 0


def test_process_that_compiled_is_not_ready(digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    with aotc_runtime.load(bundle, trust=policy):
        device = xla.processor()
        module = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
        compiled = device._client.compile_and_load(
            module, xla_client.DeviceList((device._device,)), xla_client.CompileOptions()
        )
        refused = error_of(AotcError, aotc_runtime.load, bundle, trust=policy)
        assert (refused.code, refused.exit_code) == ("AOTC-E703", 8)
        del compiled
        aotc_runtime.load(bundle, trust=policy).close()
