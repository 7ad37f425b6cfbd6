"""Tensors of a weights set in files, prefixed, renamed and cast as the build manifest states."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from aotc.base.errors import refusal, shorten
from aotc.capture import jax_trees
from aotc.capture.model_files.model_archive import Damaged
from aotc.capture.weight_files import StoredTensor, WeightsFile
from aotc.config import checkpoint_files
from aotc.config.build_manifest import SourceFile
from aotc.config.manifest_specs import WeightsSpec
from aotc_runtime.base import limits
from aotc_runtime.base.errors import BundleFormatError, Finding

type Tensors = dict[str, StoredTensor]

INIT = 'or read it in a function and name that: init = "package.module:function"'

SHARDS = "an index that names every tensor of its files once, and files that hold them"

_OTHER_FORMATS = (
    (b"PK", "an empty zip archive"),
    (b"\x80", "a pickle"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "the pointer that git-lfs leaves in place of a file"),
)


def open_weights(spec: WeightsSpec, where: str) -> tuple[tuple[WeightsFile, ...], Tensors]:
    """Return every file of a weights set, and its tensors by the names in the program.

    `where` names the set in messages. Raises CaptureError (AOTC-E830) listing all wrong names.
    """
    files: list[WeightsFile] = []
    tensors: Tensors = {}
    problems: list[str] = []
    for prefix, source in (spec.source or {}).items():
        opened, found = _open_one(checkpoint_files.main_file(source), where)
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
    hint = "correct `rename`, or add prefixes"
    require_none(problems, where, "one tensor of each name", hint)
    return tuple(files), tensors


def _open_one(source: SourceFile, where: str) -> tuple[list[WeightsFile], Tensors]:
    """Open a file, or what an index lists."""
    if not checkpoint_files.is_index(source):
        file = WeightsFile(source, where)
        return [file], _tensors(file)
    try:
        listed = checkpoint_files.read_index(source).weight_map
    except BundleFormatError as error:
        found = f"{source.text}: {error.findings[0].found}"
        hint = "write it as `transformers` does: weight_map, tensor name to file name, each once"
        cause = "weights-file-is-invalid"
        raise refusal("AOTC-E830", where, found, cause=cause, expected=SHARDS, hint=hint) from error
    files, tensors, problems = [WeightsFile(source, where)], dict[str, StoredTensor](), list[str]()
    for name in sorted({*listed.values()}):
        if not checkpoint_files.is_file_name(name):
            problems.append(f"{name}: a file that is not in the directory of the index")
            continue
        try:
            file = WeightsFile(checkpoint_files.sibling_file(source, name), where)
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
    named = [f"{source.text} {each}" for each in problems]
    require_none(named, where, SHARDS, hint)
    return files, tensors


def _tensors(file: WeightsFile) -> Tensors:
    """Raises CaptureError (AOTC-E830) for a file that is neither safetensors nor .npz."""
    try:
        return file.tensors()
    except (Damaged, BundleFormatError) as error:
        if isinstance(error, Damaged):
            found, expected = error.found, f"a file with {error.expected}"
            hint = "write it with numpy.savez or safetensors.numpy.save_file, " + INIT
        else:
            expected, start = "a safetensors or .npz file", file.read(0, min(256, file.size))
            found, hint = not_safetensors(b"".join(start), error.findings[0])
        found, cause = f"{file.source.text}: {found}", "weights-file-is-invalid"
        raise refusal(
            "AOTC-E830", file.where, found, cause=cause, expected=expected, hint=hint
        ) from error


def not_safetensors(start: bytes, refused: Finding) -> tuple[str, str]:
    """Return what a file is instead of safetensors, and a hint.

    `start` has its first bytes, nine at least; `refused` is the safetensors reader's finding.
    """
    # The first bytes of safetensors are a number, and may be those of another format.
    length, is_header = int.from_bytes(start[:8], "little"), start[8:9] == b"{"
    if is_header and length <= limits.TENSOR_HEADER_BYTES_MAX:
        _, _, tensor = refused.where.partition(" ")
        place = f" in {tensor}" if tensor else ""
        wanted = f", not {refused.expected}" if refused.expected else ""
        return f"damaged{place}: {refused.found}{wanted}", refused.hint
    known = next((what for magic, what in _OTHER_FORMATS if start.startswith(magic)), None)
    if known and "git-lfs" in known:
        return f"not a safetensors file but {known}", "fetch it: git lfs pull"
    hint = "write it with safetensors.numpy.save_file"
    if known:
        return f"not a safetensors file but {known}", hint
    return "not a safetensors file, or a damaged one", hint


AT_DOTS = r"state `rename = { '\.' = '/' }` with the weights"
"""A hint for names as torch writes them: dense.kernel instead of dense/kernel."""


def require_wanted(tensors: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Compare a file's tensors with the leaves that `init` describes, by path.

    Raises CaptureError (AOTC-E830) that lists every tensor that differs, shortened.
    """
    expected = f"the {len(wanted)} tensors that init describes, named by their paths"
    hint = "write the file from the tree that init returns, names joined by '/'"
    for name in sorted(tensors.keys() - wanted.keys()):
        if (path := name.replace(".", "/")) in wanted:
            hint = f"{AT_DOTS}: did you mean `{path}`?"
            break
    require_none([*_differences(tensors, wanted)], where, expected, hint)


def require_none(problems: Sequence[str], where: str, expected: str, hint: str) -> None:
    """Raise CaptureError (AOTC-E830) for problems of tensors or files, shortened, if any."""
    if problems:
        found = shorten(problems, between="\n")
        raise refusal("AOTC-E830", where, found, expected=expected, hint=hint)


def _differences(tensors: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for path in sorted(tensors.keys() | wanted.keys()):
        if path not in tensors:
            yield f"{path}: no such tensor; init has {_text(wanted[path])}"
        elif path not in wanted:
            yield f"{path}: {_text(tensors[path])}, which init does not have"
        elif _text(tensors[path]) != _text(wanted[path]):
            yield f"{path}: {_text(tensors[path])}; init has {_text(wanted[path])}"


def _text(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
