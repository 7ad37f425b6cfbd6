"""Survivors that no input can tell."""

from __future__ import annotations

UNREACHABLE: dict[tuple[str, str], str] = {
    (
        "channel_status.py",
        "(end := current.roles[name].expires) < datetime.now(UTC) + SOON -> "
        "((end := current.roles[name].expires) <= datetime.now(UTC) + SOON)",
    ): "no clock shows exactly that",
    (
        "tar_archive.py",
        'raise refusal("AOTC-E103", where, "a truncated file")',
    ): "a part of a header has a wrong sum, and none at all is no end mark (E103)",
    (
        "tar_archive.py",
        'raise refusal("AOTC-E103", f"{where} {member.name}", found, expected=expected)',
    ): "behind the end of the file there is no header (E103)",
    (
        "tar_archive.py",
        "member.offset + padded > len(data) -> (member.offset + padded >= len(data))",
    ): "what ends with its last member is a truncated file in any case (E103)",
    (
        "safetensors_reader.py",
        "len(data) < 8 -> (len(data) <= 8)",
    ): "so short a header is no JSON object",
    (
        "safetensors_reader.py",
        'raise refusal("AOTC-E131", where, f"{len(data)} bytes", expected="at least 8 bytes")',
    ): "so short a header is no JSON object (E131)",
    (
        "trust_edit.py",
        'raise _not_in_place("a policy that would say something else afterwards")',
    ): "tomlkit writes what it was told to; nobody knows when it does not",
    ("held_maps.py", "raise"): "asked again, the system refuses a descriptor alike",
    ("layout_folder.py", "raise"): "read again, the folder is refused alike; it only takes longer",
    (
        "store_pull.py",
        "len(data) != size -> False",
    ): "what has another size has another digest; it only takes longer",
    (
        "digest.py",
        "sum(sizes) < PARALLEL_BYTES_MIN -> (sum(sizes) <= PARALLEL_BYTES_MIN)",
    ): "threads or none, the digests are the same; it only takes longer",
    (
        "streamed_bundle.py",
        "len(view) -> True",
    ): "of no bytes none are read, wherever they would begin",
    ("cache_seal.py", "end < 0"): "what is left of such an entry is no envelope of its data",
    (
        "bundle_diff.py",
        "before.root_digest == after.root_digest",
    ): "what is the same has no differences; it only takes longer to see",
    ("gates.py", "not any(gates.stated())"): "no gate finds nothing; it only takes longer",
    ("padded_arrays.py", "isinstance(name, str)"): "a number is no name of a dimension",
    (
        "served_call.py",
        "isinstance(result, Leaf)",
    ): "one array is read as a tree of one; slower",
    (
        "executable_calls.py",
        "raise",
    ): "in `claim`, whoever reads the used-up array next refuses it, too",
    ("resident_bundle.py", "not in_order"): "a buffer is no number of an input, but for jax",
    (
        "routed_calls.py",
        "type(result) is np.ndarray -> False",
    ): "an array of numpy becomes one once more; it only takes longer",
    (
        "executable_records.py",
        "self._left < 0 -> (self._left <= 0)",
    ): "a file would have to come to exactly its limit",
    ("elf.py", "left < 0 -> (left <= 0)"): "a file would have to come to exactly its limit",
    (
        "merged_bundle.py",
        "require_place(output, form)",
    ): "writing refuses it, too, after all was read",
    (
        "capture_worker.py",
        "raise_if(plain_jax.misrecorded(weights[name].made, written, where))",
    ): "weights are misrecorded by a mistake of ours alone (test_mistakes_are_noticed makes it)",
    ("background_compiler.py", "self._compile is not None -> True"): "the thread ends at once",
    (
        "background_compiler.py",
        "self._compile is None -> False",
    ): "what was closed has nothing that waits",
    ("background_compiler.py", "is_ending -> False"): "only while Python itself ends",
    (
        "background_compiler.py",
        "now - began > self._seconds -> (now - began >= self._seconds)",
    ): "no clock is read at that very moment",
    (
        "fallback_calls.py",
        "type(result) is np.ndarray -> True",
    ): "what is on the device is put there once more; it only takes longer",
    (
        "jax_trees.py",
        "isinstance(leaf, jax.ShapeDtypeStruct) -> False",
    ): "jax.typeof says the same of a shape; older releases of jax do not take one",
    ("routed_calls.py", "shape != whole -> True"): "a copy of all of it is the same",
    (
        "device_arrays.py",
        "not self.device.is_deleted(self._buffer) -> True",
    ): "what XLA has deleted is deleted once more, which does nothing",
    (
        "flattened_arguments.py",
        "all(hasattr(value, field) for field in fields) -> True",
    ): "what lacks a field is refused by that field's name",
    ("call_sizes.py", "shape in compiled -> False"): "what was compiled fits; it only takes longer",
    (
        "model_archive.py",
        "locator >= 0 -> (locator > 0)",
    ): "where the file begins, its mark is another",
    (
        "model_archive.py",
        "at + _ENTRY.size > end -> (at + _ENTRY.size >= end)",
    ): "an entry that ends there has no name, which is refused",
    (
        "model_archive.py",
        "offset + _LOCAL.size > limit -> (offset + _LOCAL.size >= limit)",
    ): "what ends there does not have the member's name",
    (
        "bounded_calls.py",
        "silent <= self._seconds + unseen -> (silent < self._seconds + unseen)",
    ): "no clock shows exactly that",
    ("registry_client.py", "waited > self.tries.patience -> (waited >= self.tries.patience)"): (
        "chance is part of each pause"
    ),
    (
        "bundle_writer.py",
        "name in self.files -> True",
    ): "what is about to be written has both files",
    (
        "bundle_writer.py",
        "digest in self.blobs -> True",
    ): "what its index names was read, or made, before",
    (
        "stored_bundles.py",
        "not image -> False",
    ): "where there is no image manifest, it names no config",
    (
        "files.py",
        "time.monotonic() > end -> (time.monotonic() >= end)",
    ): "no clock is read at that very moment",
    (
        "reference_loading.py",
        'raise refusal("AOTC-E560", str(store.folder), "another process removes what is fetched")',
    ): "a race: another process has to remove blobs just then, several times",
    (
        "oci_source.py",
        'raise refusal("AOTC-E560", str(folder), "another process removes what is fetched")',
    ): "a race: another process has to remove from a folder of this one's",
    (
        "reference_loading.py",
        "not found.targets -> False",
    ): "what is not there is not chosen, either",
    (
        "reference_loading.py",
        "source is not None -> True",
    ): "a race: the bundle has just been put there",
    ("reference_loading.py", "needed -> True"): "what is fetched has its root at least",
    (
        "reference_loading.py",
        "needed <= source.digests() -> True",
    ): "a race: blobs have just been there",
    ("reference_loading.py", "there is None -> False"): "what is not there has no target, either",
    (
        "reference_loading.py",
        "source is None -> False",
    ): "a race: the bundle has just been found there",
}
"""Survivors that no input can tell, by file and text, with what stood there if the other way round
it is told, each with the reason.
"""
