"""`python with_oras.py pull|push HOST/REPOSITORY FOLDER`, in a Python that has oras.

pull: each manifest and its blobs into an OCI layout, from the root that the tag 1.0.0 names and the
index of referrers.  push: every file of such a layout.
"""

import hashlib
import json
import sys
from pathlib import Path

from oras.client import OrasClient

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ATTESTATION = "application/vnd.in-toto+json"


def canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


what, place, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
client = OrasClient(hostname=place.partition("/")[0], insecure=True, auth_backend="basic")
blobs = folder / "blobs" / "sha256"


def pull() -> None:
    blobs.mkdir(parents=True)
    found = []

    def keep(name: str, kind: str) -> dict:
        document = client.get_manifest(f"{place}{name}", allowed_media_type=[kind])
        data = canonical(document)
        (blobs / sha256(data)[7:]).write_bytes(data)
        for part in (*document.get("layers", []), *filter(None, [document.get("config")])):
            client.download_blob(place, part["digest"], str(blobs / part["digest"][7:]))
        found.append({"mediaType": kind, "digest": sha256(data), "size": len(data)})
        return document

    for each in keep(":1.0.0", INDEX)["manifests"]:
        keep(f"@{each['digest']}", MANIFEST)
    referrers_tag = f"{place}:{found[0]['digest'].replace(':', '-')}"
    attached = client.get_manifest(referrers_tag, allowed_media_type=[INDEX])["manifests"]
    del found[1:]
    for each in (each for each in attached if each["artifactType"] == ATTESTATION):
        keep(f"@{each['digest']}", MANIFEST)
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_bytes(canonical({"schemaVersion": 2, "manifests": found}))


def push() -> None:
    entries = json.loads((folder / "index.json").read_bytes())["manifests"]
    root = next(each for each in entries if each["mediaType"] == INDEX)
    images = json.loads((blobs / root["digest"][7:]).read_bytes())["manifests"]
    attached = [each for each in entries if each is not root]
    for each in (*images, *attached):
        document = json.loads((blobs / each["digest"][7:]).read_bytes())
        for number, part in enumerate((document["config"], *document["layers"])):
            path = str(blobs / part["digest"][7:])
            chunked = bool(number % 2)
            client.upload_blob(path, place, part, do_chunked=chunked, chunk_size=5000)
    names = [each["digest"] for each in images]
    names += [f"{root['digest'].replace(':', '-')}.{each['digest'][7:23]}" for each in attached]
    for each, name in zip((*images, *attached, root), (*names, "1.0.0"), strict=True):
        data = (blobs / each["digest"][7:]).read_bytes()
        container = client.get_container(f"{place}:x")
        url = f"{client.prefix}://{container.manifest_url()}".rpartition("/")[0] + f"/{name}"
        done = client.do_request(url, "PUT", data=data, headers={"Content-Type": each["mediaType"]})
        assert done.status_code == 201, done.text


{"pull": pull, "push": push}[what]()
