"""Load a server's bundles, or the pinned one alone."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from aotc_runtime.base.errors import refusal
from aotc_runtime.loader.bundle_loader import load
from aotc_runtime.loader.verified import verify
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.oci_references import is_reference, parse
from aotc_serve.oci.registry_client import Repository, RetryLimits
from aotc_serve.oci.registry_listing import resolve
from aotc_serve.store.reference_loading import store_at
from aotc_serve.store.stored_bundles import Store

Trust = Path | TrustPolicy

TRIES = RetryLimits(patience=20.0)
"""A server waits no longer for one registry: its other bundles are loaded behind it."""


class Settings(Struct, frozen=True):
    """Options for loading bundles.

    `target`, `threads` and `store` are those of `aotc_runtime.load`; `digest` is the required root,
    or ""; `ca` has certificates of registries.
    """

    target: str | None = None
    threads: int | None = None
    store: Path | None = None
    digest: str = ""
    ca: Path | None = None


def is_tag(reference: str) -> bool:
    """Return whether a reference may name another bundle later."""
    return is_reference(reference) and not parse(reference).digest


def tag_digest(reference: str, settings: Settings) -> str:
    """Return the root digest that a tag names now. Raises RegistryError."""
    with Repository(parse(reference), HttpClient(settings.ca), tries=TRIES) as repository:
        return resolve(repository).digest


def load_bundle(reference: str, trust: Trust, settings: Settings) -> LoadedBundle:
    """Load a bundle; raises as `aotc_runtime.load`, and AOTC-E783.

    AOTC-E783 is raised for another bundle than the required one, before an engine starts.
    """
    target, threads = settings.target, settings.threads
    store: Store | Path | None = settings.store
    if is_reference(reference):
        store = store_at(store, settings.ca, TRIES)
    if not settings.digest:
        return load(reference, trust=trust, store=store, target=target, threads=threads)
    verified = verify(reference, trust=trust, store=store, target=target)
    if verified.root_digest != settings.digest:
        raise refusal("AOTC-E783", reference, verified.root_digest, expected=settings.digest)
    return verified.load(target=target, threads=threads)
