"""A local store of bundles: a folder of blobs under their digests, which processes share.

`Store(folder)` is one. What is in it is believed no more than any file: whoever loads from it
hashes what is mapped. It imports nothing of an engine.
"""

from aotc_serve.store.store_pull import pull
from aotc_serve.store.stored_bundles import Store, StoredBundle

__all__ = ["Store", "StoredBundle", "pull"]
