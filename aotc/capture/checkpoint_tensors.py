"""The tensors of a weights set that lies in files: prefixed, renamed and cast as the build manifest
says, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp

from aotc.base.errors import refusal
from aotc.capture import jax_trees, weights_mismatch
from aotc.capture.model_files.model_archive import Damaged
from aotc.capture.weight_files import StoredTensor, WeightsFile
from aotc.config.build_manifest import SourceFile
from aotc.config.checkpoint_files import (
    beside,
    is_file_name,
    is_index,
    is_orbax,
    main_file,
    read_index,
)
from aotc.config.manifest_specs import WeightsSpec
from aotc_runtime.base.errors import BundleFormatError

type Tensors = dict[str, StoredTensor]

INIT = 'or read it in a function and name that: init = "package.module:function"'

SHARDS = "an index that names every tensor of its files once, and files that hold them"


def open_weights(
    spec: WeightsSpec, where: str, scratch: Path | None = None
) -> tuple[tuple[WeightsFile, ...], Tensors]:
    """Every file of a weights set, and its tensors by the names that the program knows them by.

    where: for messages.  scratch: as of `aotc.capture.orbax_checkpoint.open_checkpoint`. Raises
    CaptureError (AOTC-E830) with everything that is wrong with names.
    """
    files: list[WeightsFile] = []
    tensors: Tensors = {}
    problems: list[str] = []
    for prefix, source in (spec.source or {}).items():
        opened, found = _open_one(main_file(source), where, scratch)
        files += opened
        for name, tensor in found.items():
            renamed = name
            for pattern, replacement in spec.rename.items():
                renamed = re.sub(pattern, replacement, renamed)
            known = jax_trees.join(prefix, renamed)
            if known in tensors:
                other = tensors[known]
                at = [f"{each.name} in {each.file.source.text}" for each in (other, tensor)]
                problems.append(f"{known}: {at[0]}, and {at[1]}")
            is_cast = spec.dtype is not None and jnp.issubdtype(tensor.stored, jnp.floating)
            tensors[known] = replace(tensor, dtype=jnp.dtype(spec.dtype)) if is_cast else tensor
    hint = "mend `rename`, or add prefixes"
    weights_mismatch.require_none(problems, where, "one tensor of each name", hint)
    return tuple(files), tensors


def _open_one(
    source: SourceFile, where: str, scratch: Path | None
) -> tuple[list[WeightsFile], Tensors]:
    """A file, what an index lists, or an Orbax checkpoint."""
    if is_orbax(source):
        from aotc.capture.orbax_checkpoint import open_checkpoint

        return open_checkpoint(source, where, scratch)
    if not is_index(source):
        file = WeightsFile(source, where)
        return [file], _tensors(file)
    try:
        listed = read_index(source).weight_map
    except BundleFormatError as error:
        found = f"{source.text}: {error.findings[0].found}"
        hint = "write it as `transformers` does: weight_map, tensor name to file name, each once"
        raise refusal("AOTC-E830", where, found, expected=SHARDS, hint=hint) from error
    files, tensors, problems = [WeightsFile(source, where)], dict[str, StoredTensor](), list[str]()
    for name in sorted({*listed.values()}):
        if not is_file_name(name):
            problems.append(f"{name}: a file that does not lie beside the index")
            continue
        try:
            file = WeightsFile(beside(source, name), where)
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
            continue
        files.append(file)
        found_there = _tensors(file)
        wanted = {tensor for tensor, of in listed.items() if of == name}
        for tensor in sorted(wanted - found_there.keys()):
            problems.append(f"{name}: no {tensor}, which the index has there")
        for tensor in sorted(found_there.keys() - wanted):
            problems.append(f"{name}: {tensor}, which the index does not have there")
        tensors |= {tensor: found_there[tensor] for tensor in wanted & found_there.keys()}
    hint = "fetch the checkpoint again, whole"
    told = [f"{source.text} {each}" for each in problems]
    weights_mismatch.require_none(told, where, SHARDS, hint)
    return files, tensors


def _tensors(file: WeightsFile) -> Tensors:
    """Raises CaptureError (AOTC-E830) for a file that is neither safetensors nor .npz."""
    try:
        return file.tensors()
    except Damaged as error:
        text = f"{file.source.text}: {error.found}"
        hint = "write it with numpy.savez or safetensors.numpy.save_file, " + INIT
        raise refusal(
            "AOTC-E830", file.where, text, expected=f"a file with {error.expected}", hint=hint
        ) from error
    except BundleFormatError as error:
        start = b"".join(file.read(0, min(256, file.size)))
        found, hint = weights_mismatch.not_safetensors(start, error.findings[0])
        text = f"{file.source.text}: {found}"
        raise refusal(
            "AOTC-E830", file.where, text, expected="a safetensors or .npz file", hint=hint
        ) from error
