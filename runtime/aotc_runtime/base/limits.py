"""Every limit of the reader, each with its reason. All are checked before anything is allocated."""

INDEX_BYTES_MAX = 4 * 2**20
"""index.json and root index: a few hundred bytes per target or signature; 4 MiB is thousands."""

INDEX_MARKS_MAX = 2**15
"""JSON marks of index.json and oci-layout, which nobody signs: 128 for each entry, with annotations
of other tools. Marks are commas, colons and opening brackets: they bound how many values a text
holds, each of which takes more memory and time than its bytes do."""

MANIFEST_BYTES_MAX = 64 * 2**20
"""An OCI image manifest or a bundle manifest: the largest of our examples measures about 0.1 MB."""

ATTESTATION_BYTES_MAX = 64 * 2**10
"""The image manifest of an attestation: ours have 600 bytes; other tools add annotations, with
certificates and entries of logs of some kilobytes."""

ENVELOPE_BYTES_MAX = 4 * 2**20
"""A DSSE envelope: those of our examples have 6 to 13 kB. A source file of provenance takes 150 to
350 bytes, a component of a bill of materials 470, a fixture of a certificate 600 to 800: 4 MiB are
9,000 components, or 5,000 fixtures."""

ATTESTATIONS_BYTES_MAX = 6 * 2**20
"""Manifests and envelopes of all attestations: 5,000 sources in provenance and in the bill of
materials take 4 MB, a certificate of 100 fixtures 80 kB. Whoever can change a bundle can add as
much as this, and all of it is read before any signature counts."""

ATTESTATION_MARKS_MAX = 2**11
"""JSON marks of an attestation's manifest, and of an envelope around its payload: ours have 60 and
13; 64 signatures with a certificate beside each have 500."""

MATERIAL_CHARACTERS_MAX = 2**16
"""Sigstore's material in base64: a certificate and an entry of a log have 4 to 8 kB."""

MATERIAL_MARKS_MAX = 2**9
"""JSON marks of Sigstore's material beside a signature: an entry of a log with the 30 hashes of its
inclusion proof has 90."""

STATEMENT_MARKS_MAX = 2**18
"""JSON marks of a statement: ours have one for 11 bytes or more, so that the largest that fits into
an envelope has as many."""

POLICY_BYTES_MAX = 4 * 2**20
"""A trust policy is written by hand."""

TOML_MARKS_MAX = 2**17
"""Newlines, dots, commas, equals signs and opening brackets of a TOML file, in strings or not: each
may make a table or a value, and Python parses 100,000 in a second. A policy of a thousand keys has
12,000."""

TOML_DOTS_MAX = 2**10
"""Dots in a line of a TOML file: a key of many parts takes the square of their number."""

BLOBS_MAX = 100_000
"""Blobs in one bundle: entry points x profiles x targets x 3, with room for two orders more."""

ATTESTATIONS_MAX = 256
"""Attestations of one bundle: signers times evidence."""

SIGNATURES_MAX = 64
"""Signatures in one envelope: one is the rule, and each may be tried with every key of a policy."""

TRIED_BYTES_MAX = 128 * 2**20
"""Bytes hashed to try the signatures of a bundle with the keys of a policy: a message is hashed
again for every key that a signature is tried with. 256 attestations by unknown keys, tried with 7
keys each, stay below this limit; hashing takes a quarter of a second."""

TRIAL_BYTES = 2**16
"""Cost of a trial beside its message: arithmetic on the curve takes as long as hashing this."""

TIMESTAMP_CHARACTERS_MAX = 2**16
"""The timestamp of a signature in base64: with a chain of certificates they have 4 to 8 kB."""

TREE_DEPTH_MAX = 256
"""Levels of a tree of arguments or results: they are walked by recursion, which Python ends at 1000
frames."""

TENSOR_HEADER_BYTES_MAX = 100 * 2**20
"""A safetensors header; the same limit as the reference implementation."""

TENSOR_RANK_MAX = 64
"""Axes of a tensor: numpy's own limit."""
