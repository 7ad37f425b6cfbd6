"""References to documents of an OCI layout, from their bytes."""

from __future__ import annotations

from typing import Any

from aotc_runtime.digest import sha256
from aotc_runtime.formats import oci


def descriptor(data: bytes, media_type: str, **extra: Any) -> oci.Descriptor:
    """A reference to these bytes."""
    return oci.Descriptor(mediaType=media_type, digest=sha256(data), size=len(data), **extra)


def image_descriptor(data: bytes, **extra: Any) -> oci.ImageDescriptor:
    """A reference to the image manifest of a target."""
    return oci.ImageDescriptor(
        mediaType=oci.MANIFEST_TYPE, digest=sha256(data), size=len(data), **extra
    )


def config_descriptor(data: bytes) -> oci.ConfigDescriptor:
    """A reference to a bundle manifest."""
    return oci.ConfigDescriptor(mediaType=oci.CONFIG_TYPE, digest=sha256(data), size=len(data))


def envelope_descriptor(data: bytes) -> oci.EnvelopeDescriptor:
    """A reference to a DSSE envelope."""
    return oci.EnvelopeDescriptor(
        mediaType=oci.ATTESTATION_TYPE, digest=sha256(data), size=len(data)
    )
