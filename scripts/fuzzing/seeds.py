"""Write good inputs of every reader, from a good bundle and its policy.

`python -m scripts.fuzzing.seeds BUNDLE POLICY FOLDER`
"""

import base64
import io
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import read_unverified

from . import attribution, shipping, toolchain_seeds

CERTIFICATE = json.dumps(
    {
        "schema": 1,
        "target": "cpu-x86-64-v3",
        "jaxlib": "0.11.2",
        "outcome": "passed",
        "detail": "",
        "certifiedOn": "2026-11-21T12:00:00Z",
        "fixtures": [
            {
                "label": "predict[batch=8]",
                "executable": "sha256:" + "0" * 64,
                "fixture": "sha256:" + "1" * 64,
                "withinTolerance": True,
                "maxAbs": "8.9e-08",
                "maxRel": "3.8e-06",
                "ulpMax": 58,
                "elements": 80,
                "worst": "result",
                "seconds": "0.002",
            }
        ],
        "surroundings": {
            "cpu": "znver5",
            "isa": ["avx2"],
            "os": "linux",
            "libc": "glibc 2.36",
            "python": "3.13.0",
            "runtime": "0.1.0",
            "packages": {"jaxlib": "0.11.2"},
        },
    }
).encode()
"""What `aotc certify` writes."""


def seeds(bundle: Path, policy: Path) -> Mapping[str, list[bytes]]:
    """By the reader's name."""
    source = open_bundle(bundle)
    contents, envelopes = read_unverified(source)
    root = read_root(source)
    image = next(iter(contents.targets.values()))

    def blob(digest: str) -> bytes:
        return bytes(source.blob(digest) or b"")

    layers = [(layer.mediaType, blob(layer.digest)) for layer in image.layers]
    return {
        "tar": [_beginning(bundle.read_bytes()), bytes(1024)],
        "index": [bytes(source.file(oci_layout.INDEX_FILE) or b"")],
        "root": [blob(root.entry.digest)],
        "image": [blob(json.loads(blob(root.entry.digest))["manifests"][0]["digest"])],
        "attestation": [blob(entry.digest) for entry in root.attestations],
        "manifest": [blob(image.config.digest)],
        "envelope": list(envelopes),
        "statement": [base64.b64decode(json.loads(data)["payload"]) for data in envelopes],
        "certificate": [CERTIFICATE],
        "tensors": [data for kind, data in layers if kind == oci_layout.FIXTURE_TYPE][:3],
        "policy": [policy.read_bytes()],
        "key": [_between(policy.read_text("utf-8"), "-----BEGIN", "KEY-----\n")],
        "version": [b"1.0.0", b"1.2.3-rc1+cuda", b"1.0.post2"],
        **attribution.seeds(),
        **shipping.seeds(),
        **toolchain_seeds.seeds(bundle),
    }


def _beginning(archive: bytes) -> bytes:
    """The two small documents of an archive, and an end mark."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        third = file.getmembers()[2].offset
    return archive[:third] + bytes(1024)


def _between(text: str, first: str, last: str) -> bytes:
    begin = text.index(first)
    return text[begin : text.rindex(last) + len(last)].encode()


def main(bundle: str, policy: str, folder: str) -> None:
    for name, found in seeds(Path(bundle), Path(policy)).items():
        place = Path(folder, name)
        place.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(found):
            (place / f"seed-{number}").write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
