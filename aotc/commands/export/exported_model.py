"""Export an executable of a verified bundle as a model for the format's own runtime."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aotc.base.errors import refusal
from aotc.bundle.read.bundle_review import Review, ReviewedExecutable, chosen
from aotc.bundle.write.atomic_files import write_folder_atomically
from aotc.commands.export.model_formats import FORMATS, Model, NotRunError, Tensor
from aotc.config.precision_specs import FLOAT32
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.bundle_manifest import InputArgument, WeightArgument
from aotc_runtime.serving.readiness import compare, over_all

SIGNATURE_FILE, FIXTURE_FILE = "signature.json", "fixture.safetensors"


@dataclass(frozen=True, slots=True)
class Chosen:
    """An executable to export, with its bundle and the format's name."""

    review: Review
    executable: ReviewedExecutable
    format: str


def choose(
    review: Review,
    entry_point: str | None,
    format: str,
    sizes: Mapping[str, int] | None,
    target: str | None = None,
    precision: str | None = None,
) -> Chosen:
    """Return the only executable of these names that has this format.

    Raises UsageError (AOTC-E055) if there is none, or more than one.

    Args:
        review: A bundle that a policy accepts.
        entry_point: Its name; None for any.
        format: A key of `FORMATS`.
        sizes: Of the profile, as far as needed to tell it from others; None for any.
        target: Its target; None for any.
        precision: Its name in the build manifest; None for any.
    """
    found = chosen(review, entry_point, sizes, target)
    for option, wanted, of, cause in (
        ("--precision", precision, _precision, "precision-not-found"),
        ("--as", FORMATS[format].platform, partial(_platform, review), "format-not-found"),
    ):
        expected = f"one of: {', '.join(sorted({of(each) for each in found}))}"
        found = [each for each in found if wanted in (None, of(each))]
        if not found:
            raise refusal("AOTC-E055", option, str(wanted), cause=cause, expected=expected)
    if len(found) > 1:
        cause = "several-executables-match"
        found_text = ", ".join(f"{each.label} for {each.target}" for each in found)
        raise refusal("AOTC-E055", review.bundle, found_text, cause=cause)
    return Chosen(review, found[0], format)


def _platform(review: Review, executable: ReviewedExecutable) -> str:
    return executable.record.platform or review.targets[executable.target].manifest.target.platform


def _precision(executable: ReviewedExecutable) -> str:
    return str(getattr(executable.record.precision, "name", FLOAT32))


def write(chosen: Chosen, folder: Path) -> dict[str, Any]:
    """Write a new folder with a model, its signature and its fixture; return the signature.

    The model is called on the fixture, by the format's own runtime. Raises UsageError: AOTC-E003,
    E004 for the folder; E059 if a package is missing, if the format cannot hold the model, or if
    the results differ from the fixture's by more than the entry point's tolerance.
    """
    if folder.exists():
        raise refusal("AOTC-E004", str(folder), "a file or folder", expected="a new folder")
    executable, form = chosen.executable, FORMATS[chosen.format]
    blobs = chosen.review.contents.blobs
    model = _model_of(chosen)
    fixture = blobs[executable.record.fixture.digest]
    with tempfile.TemporaryDirectory() as scratch:
        temporary = Path(scratch)
        try:
            form.write(model, temporary)
            check = _check(chosen, model, temporary, fixture)
        except ImportError as error:
            raise refusal("AOTC-E059", f"--as {chosen.format}", str(error)) from error
        files = {file.name: file.read_bytes() for file in sorted(temporary.iterdir())}
        files[FIXTURE_FILE] = bytes(fixture)
        document = {
            "schema": 1,
            "format": chosen.format,
            "bundle": {
                "name": chosen.review.name,
                "version": chosen.review.version,
                "root_digest": chosen.review.root_digest,
                "signers": list(chosen.review.signers),
            },
            "entry_point": executable.entry_point,
            "target": executable.target,
            "sizes": dict(executable.record.sizes),
            "precision": _precision(executable),
            "inputs": [_describe(tensor, form.passed) for tensor in model.inputs],
            "outputs": [_describe(tensor, form.passed) for tensor in model.outputs],
            "files": {name: sha256(data) for name, data in files.items()},
            "runtime": {
                "package": form.runtime,
                "version": version(form.runtime),
                "options": dict(form.options),
            },
            "check": check,
        }
        files[SIGNATURE_FILE] = (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
        write_folder_atomically(folder, files.items())
    return document


def _model_of(chosen: Chosen) -> Model:
    """Return the executable with its weights and named inputs and outputs."""
    executable, record = chosen.executable, chosen.executable.record
    manifest = chosen.review.targets[executable.target].manifest
    blobs, described = chosen.review.contents.blobs, executable.description
    sets = {argument.set for argument in record.arguments if isinstance(argument, WeightArgument)}
    tensors = {
        (name, tensor): array
        for name in sets
        for blob in manifest.weights[name].blobs
        for tensor, (array, _) in tensor_views(blobs[blob.digest], name).items()
    }
    weights, inputs, taken = {}, [], set[str]()
    for place, argument in enumerate(record.arguments):
        if isinstance(argument, InputArgument):
            spec, shape = described.inputs[argument.leaf], record.input_shapes[argument.leaf]
            name = _free_name(spec.path, taken)
            inputs.append(Tensor(place, name, spec.path, spec.dtype.value, shape))
        else:
            weights[place] = tensors[argument.set, argument.tensor]
    outputs = [
        Tensor(place, _free_name(spec.path or "output", taken), spec.path, spec.dtype.value, shape)
        for place, (spec, shape) in enumerate(
            zip(described.outputs, record.output_shapes, strict=True)
        )
    ]
    return Model(
        bytes(blobs[record.executable.digest]),
        bytes(blobs[record.module.digest]),
        manifest.requires,
        weights,
        tuple(inputs),
        tuple(outputs),
        float(record.cost.flops),
    )


def _free_name(path: str, taken: set[str]) -> str:
    """Return a path as a name that no other value of a graph has, those inside of it included."""
    name = f"{path}_" if path[:1].isalpha() and path[1:].isdecimal() else path
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _describe(tensor: Tensor, passed: Mapping[str, str]) -> dict[str, Any]:
    described = {name: value for name, value in asdict(tensor).items() if name != "place"}
    return {**described, "model_dtype": passed.get(tensor.dtype, tensor.dtype)}


def _check(chosen: Chosen, model: Model, folder: Path, fixture: memoryview) -> dict[str, Any]:
    """Call the files of a model on a fixture; raise UsageError (AOTC-E059) if it does not match."""
    views = {name: view for name, (view, _) in tensor_views(fixture, FIXTURE_FILE).items()}
    arrays = [views[f"inputs/{tensor.path}"] for tensor in model.inputs]
    try:
        results = FORMATS[chosen.format].call(model, folder, arrays)
    except NotRunError as error:
        return {"status": "not-run", "reason": str(error)}
    tolerance = chosen.executable.description.tolerance
    bounds = float(tolerance.rtol), float(tolerance.atol)
    difference = over_all(
        [
            # Runtimes give the bits of some types as another type of the same size.
            (tensor.path, compare(made.view(wanted.dtype).reshape(wanted.shape), wanted, *bounds))
            for tensor, made in zip(model.outputs, results, strict=True)
            for wanted in (views[f"outputs/{tensor.path}"],)
        ]
    )
    if not difference.within:
        where = f"{chosen.executable.label} as {chosen.format}"
        raise refusal("AOTC-E059", where, str(difference), cause="exported-model-differs")
    return {
        "status": "matched",
        "max_abs": difference.max_abs,
        "max_rel": difference.max_rel,
        "ulp_max": difference.ulp_max,
    }


def export_lines(document: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield the lines that the command prints."""
    yield f"{folder}: {', '.join([*sorted(document['files']), SIGNATURE_FILE])}"
    runtime, check = document["runtime"], document["check"]
    named = f"{runtime['package']} {runtime['version']}"
    if check["status"] == "matched":
        yield f"matches its fixture in {named}: max abs error {check['max_abs']:.3g}"
    else:
        yield f"not called in {named}: {check['reason']}"
