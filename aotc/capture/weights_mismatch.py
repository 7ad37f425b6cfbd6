"""What is wrong with a weights file: not safetensors, or other tensors than `init` describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aotc.base.errors import refusal
from aotc_runtime.base import limits
from aotc_runtime.base.errors import Finding

SHOWN_MAX = 8
"""Tensors that a message names before it says how many more there are."""

_OTHER_FORMATS = (
    (b"PK", "an empty zip archive"),
    (b"\x80", "a pickle"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "the pointer that git-lfs leaves in place of a file"),
)


def not_safetensors(start: bytes, refused: Finding) -> tuple[str, str]:
    """What a file is instead of safetensors, and what to do.

    start: its first bytes, nine at least.  refused: the finding of the safetensors reader.
    """
    # The first bytes of safetensors are a number, and may be those of another format.
    length, is_header = int.from_bytes(start[:8], "little"), start[8:9] == b"{"
    if is_header and length <= limits.TENSOR_HEADER_BYTES_MAX:
        _, _, tensor = refused.where.partition(" ")
        place = f" in {tensor}" if tensor else ""
        return f"damaged{place}: {refused.found}, not {refused.expected}", refused.hint
    known = next((what for magic, what in _OTHER_FORMATS if start.startswith(magic)), None)
    if known and "git-lfs" in known:
        return f"not a safetensors file but {known}", "fetch it: git lfs pull"
    hint = "write it with safetensors.numpy.save_file"
    if known:
        return f"not a safetensors file but {known}", hint
    return "not a safetensors file, or a damaged one", hint


def check(tensors: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Compare a file's tensors with the leaves that `init` describes, by path.

    Raises CaptureError (AOTC-E830) that lists every tensor that differs, shortened.
    """
    expected = f"the {len(wanted)} tensors that init describes, named by their paths"
    hint = "write the file from the tree that init returns, names joined by '/'"
    for name in sorted(tensors.keys() - wanted.keys()):
        # As torch writes it: dense.kernel instead of dense/kernel.
        if (path := name.replace(".", "/")) in wanted:
            hint = f"did you mean {path} by {name}? Names are paths joined by '/'"
            break
    require_none([*_differences(tensors, wanted)], where, expected, hint)


def require_none(problems: Sequence[str], where: str, expected: str, hint: str) -> None:
    """Raise CaptureError (AOTC-E830) for problems of tensors or files, shortened, if any."""
    shown = [*problems[:SHOWN_MAX]]
    if len(problems) > SHOWN_MAX:
        shown.append(f"… {len(problems) - SHOWN_MAX} more")
    if shown:
        raise refusal("AOTC-E830", where, "\n".join(shown), expected=expected, hint=hint)


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
