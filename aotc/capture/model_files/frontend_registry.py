"""Finds frontends by the Python entry-point group `aotc.frontends`."""

from pathlib import PurePath
from typing import cast

from aotc.base.entry_points import find_points, load
from aotc.base.errors import refusal
from aotc.capture.model_files.frontend_protocol import GROUP, Frontend, Model, ModelFile

_INSTEAD = {
    **dict.fromkeys((".pt", ".pth"), "export the model with `torch.export.save` to a .pt2 file"),
    **dict.fromkeys((".h5", ".hdf5"), 'save the model with `model.save("model.keras")`'),
    **dict.fromkeys((".safetensors", ".npz"), "name a function, and this file as its weights"),
    ".pb": "import the SavedModel with `aotc import-tensorflow`",
}
_WIDER = {
    ".pt2": "narrow the range, or export with `torch.export.Dim(min={}, max={})`",
    ".tfhlo": "narrow the range, or import with one `--profile` for each profile of the manifest",
}

RECORDABLE = (".onnx", ".pt2")
"""Suffixes of the files that `aotc record-expected` runs with their frameworks."""


def export_hint(path: str) -> str:
    """Return a hint how to get a model file in place of a file of another kind."""
    suffix = PurePath(path).suffix
    return _INSTEAD.get(suffix, "docs/reference/model-files.md says what writes model files")


def wider_hint(path: str, low: int, high: int) -> str:
    """Return a hint for sizes that a model file does not accept."""
    otherwise = "narrow the range, or export the model for {} to {}"
    return _WIDER.get(PurePath(path).suffix, otherwise).format(low, high)


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that installed frontends read, sorted, with the dot."""
    return tuple(sorted(f".{name}" for name in find_points(GROUP)))


def read_model(file: ModelFile, where: str) -> Model:
    """Read a model by the frontend for files of this name; `where` is for messages.

    Raises CaptureError: AOTC-E843 if there is no such frontend, or its library is not installed;
    UsageError as `load`, and the errors of `Frontend.read`.
    """
    suffix = PurePath(file.text).suffix
    if suffix not in suffixes():
        cause, expected = "unsupported-model-file-type", f"one of: {', '.join(suffixes())}"
        hint = export_hint(file.text)
        raise refusal("AOTC-E843", where, file.text, cause=cause, expected=expected, hint=hint)
    try:
        return cast(Frontend, load(find_points(GROUP)[suffix.removeprefix(".")])()).read(file)
    except ImportError as error:
        found, cause = str(error), "frontend-library-is-not-installed"
        expected = f"the library that reads {suffix} files"
        raise refusal("AOTC-E843", where, found, cause=cause, expected=expected) from error
