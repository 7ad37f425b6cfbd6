"""Every limit of the reader, each with its reason. All are checked before anything is allocated."""

from __future__ import annotations

INDEX_BYTES_MAX = 4 * 2**20
"""index.json and root index: a few hundred bytes per target or signature; 4 MiB is thousands."""

MANIFEST_BYTES_MAX = 64 * 2**20
"""An OCI image manifest or a bundle manifest: the largest of our examples measures about 0.1 MB."""

ENVELOPE_BYTES_MAX = 16 * 2**20
"""A DSSE envelope: provenance lists packages and source files, tens of kilobytes."""

POLICY_BYTES_MAX = 4 * 2**20
"""A trust policy is written by hand."""

BLOBS_MAX = 100_000
"""Blobs in one bundle: entry points x profiles x targets x 3, with room for two orders more."""

ATTESTATIONS_MAX = 256
"""Attestations of one bundle: signers times evidence."""

SIGNATURES_MAX = 64
"""Signatures in one envelope: one is the rule, and each may be tried with every key of a policy."""

TREE_DEPTH_MAX = 256
"""Levels of a tree of arguments or results: they are walked by recursion, which Python ends at 1000
frames."""

TENSOR_HEADER_BYTES_MAX = 100 * 2**20
"""A safetensors header; the same limit as the reference implementation."""

TENSOR_RANK_MAX = 64
"""Axes of a tensor: numpy's own limit."""
