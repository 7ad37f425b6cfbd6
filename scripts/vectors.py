"""Write the test vectors of the bundle format: `python -m scripts.vectors FOLDER`.

Each is a bundle and a policy with one flaw, and how a reader has to reject them: the code and the
gate. `vectors.json` lists them. The flaws are those of tests/hostile/generator; the keys are made
of fixed seeds, so that every run writes the same files.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import FORMAT_VERSION
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.policy_reader import read_policy
from tests.hostile.archives import archive, entries_of
from tests.hostile.generator import CASES, Kit
from tests.hostile.tampering import (
    MemoryBundle,
    digest_of,
    host_for,
    in_memory,
    signed,
    swap_layer,
    take_apart,
    with_one_attestation,
)

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
NOW = 1_800_000_000
"""The time of checking, in seconds since the epoch."""
GATES = ("framing", "attestations", "signatures", "digests", "policy")
OF_A_CODE = 4
"""Bundles for each code."""
BYTES_MAX = 2**17
"""Larger archives, which exceed some limit of size, are left to tests/hostile."""


def signer(name: str) -> LocalSigner:
    """Return a signer whose key everybody can make: for tests alone."""
    return LocalSigner(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


def small_bundle() -> MemoryBundle:
    """Return the golden digits with two profiles, and few bytes in each layer."""
    documents = take_apart(with_one_attestation(in_memory(GOLDEN / "digits.aotb")))
    entry_point = documents.manifest["entry_points"]["predict"]
    del entry_point["profiles"][2:]
    weights = documents.manifest["weights"]["params"]["blobs"][0]
    kept = {
        "weights": weights,
        "evidence": documents.manifest["evidence"],
        **{
            f"{role} {number}": profile[role]
            for number, profile in enumerate(entry_point["profiles"])
            for role in ("module", "executable", "fixture")
        },
    }
    digests = {ref["digest"] for ref in kept.values()}
    documents.image["layers"] = [e for e in documents.image["layers"] if e["digest"] in digests]
    documents.layers = {d: data for d, data in documents.layers.items() if d in digests}
    for role, ref in kept.items():
        swap_layer(documents, ref["digest"], f"the {role} of a vector".encode())
    return signed(documents, signer("ours"))


def policy_text(**stated: Any) -> str:
    """Return a policy for `digits` that trusts the key `ours`, with these keys beside that."""
    keys = stated.pop("keys", [{"public_key": signer("ours").public_pem()}])
    tables = {k: v for k, v in stated.items() if isinstance(v, dict)}
    top = {"schema": 1, "name": "digits"} | {k: v for k, v in stated.items() if k not in tables}
    lines = [f"{name} = {json.dumps(value)}" for name, value in top.items()]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    for key in keys:
        lines += ["[[keys]]", *(f"{name} = {_toml(value)}" for name, value in key.items())]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    if isinstance(value, str) and value.startswith("20"):
        return value  # a date
    return json.dumps(value)


def policies(bundle: MemoryBundle) -> Iterator[tuple[str, str, str]]:
    """Yield a name, a policy that rejects the small bundle, and the code."""
    ours, other = ({"public_key": signer(name).public_pem()} for name in ("ours", "other"))
    root, key = json.loads(bundle.files["index.json"])["manifests"][0]["digest"], signer("ours")
    blob = digest_of(b"the module 0 of a vector")
    past, future = "2026-11-01T00:00:00Z", "2030-01-01T00:00:00Z"
    for name, code, stated in (
        ("accepted", "", {}),
        ("accepted by a glob", "", {"name": "dig*"}),
        ("accepted with a key beside", "", {"keys": [other, ours]}),
        ("accepted of this version", "", {"minimum_version": "1.0.0"}),
        ("accepted within limits", "", {"limits": {"blobs": 14}}),
        ("another name", "E306", {"name": "vision"}),
        ("a name in capitals", "E306", {"name": "Digits"}),
        ("a later version", "E307", {"minimum_version": "1.0.1"}),
        ("a later version with more digits", "E307", {"minimum_version": "1.10"}),
        ("another key", "E302", {"keys": [other]}),
        ("two holders", "E304", {"threshold": 2, "keys": [ours, other]}),
        ("an expired key", "E311", {"keys": [{**ours, "not_after": past}]}),
        ("a key that is not valid yet", "E311", {"keys": [{**ours, "not_before": future}]}),
        ("a revoked key", "E312", {"revoked": {"keys": [key.key_id]}}),
        ("a key revoked since", "E312", {"revoked.since": {key.key_id: past}}),
        ("a revoked root", "E313", {"revoked": {"roots": [root]}}),
        ("a revoked blob", "E314", {"revoked": {"blobs": [blob]}}),
        ("few blobs", "E320", {"limits": {"blobs": 13}}),
        ("small blobs", "E320", {"limits": {"blob_bytes": 100}}),
        ("a small bundle", "E320", {"limits": {"bundle_bytes": 1000}}),
    ):  # fmt: skip
        yield name, policy_text(**stated), code


def flaws(kit: Kit) -> Iterator[tuple[str, bytes, str]]:
    """Yield some of the generator's flaws for each code: name, small archive, code."""
    by_code: dict[str, list[tuple[str, bytes, str]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for case in (case for case in CASES if "archive" in case.forms):
            data = case.make(kit, Path(scratch), "archive").read_bytes()
            if len(data) <= BYTES_MAX:
                code = case.code.removeprefix("AOTC-")
                by_code.setdefault(code, []).append((case.name, data, code))
    for _, found in sorted(by_code.items()):
        number = min(len(found), OF_A_CODE)
        yield from (found[each * len(found) // number] for each in range(number))


def write_vectors(folder: Path) -> list[dict[str, str]]:
    """Write the vectors to a folder, and return what `vectors.json` says of them."""
    bundle = small_bundle()
    kit = Kit(bundle, signer("ours"), signer("other"))
    folder.mkdir(parents=True, exist_ok=True)
    good = archive(entries_of(bundle))
    made = [(name, good, text, code) for name, text, code in policies(bundle)]
    made += [(name, data, policy_text(), code) for name, data, code in flaws(kit)]
    listed = []
    for number, (name, data, text, code) in enumerate(made):
        files = {"bundle": f"{number:03}.aotb", "policy": f"{number:03}.toml"}
        (folder / files["bundle"]).write_bytes(data)
        (folder / files["policy"]).write_text(text)
        found, gate = verdict_of(folder / files["bundle"], folder / files["policy"], bundle)
        assert found == (code or "accepted"), f"{name}: {found}, not {code}"
        listed.append({"name": name, **files, "code": found, "gate": gate})
    document = {"format": FORMAT_VERSION, "now": NOW, "vectors": listed}
    (folder / "vectors.json").write_text(json.dumps(document, indent=1) + "\n")
    return listed


def verdict_of(path: Path, policy: Path, good: MemoryBundle) -> tuple[str, str]:
    """Return the verdict of `aotc_runtime`, but for what it says of the host."""
    try:
        source = open_bundle(path)
    except AotcError as error:
        return error.code.removeprefix("AOTC-"), GATES[0]
    verdict = examine(source, read_policy(policy), host_for(good), NOW)
    if not verdict.findings or len(verdict.gates) == len(GATES):
        return "accepted", ""
    return verdict.findings[0].code.removeprefix("AOTC-"), GATES[len(verdict.gates)]


if __name__ == "__main__":
    print(f"{len(write_vectors(Path(sys.argv[1])))} vectors in {sys.argv[1]}")
