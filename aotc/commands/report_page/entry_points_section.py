"""The interface of a bundle: parameters, arrays, sizes, and what proves the policies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aotc.base.errors import shorten
from aotc.base.evidence import AppliedPrecision, ModelOrigin
from aotc.base.source_locations import EntryPointLines
from aotc.bundle.read.bundle_review import Review
from aotc.commands.report_page.page_parts import (
    Facts,
    Folded,
    Group,
    Part,
    Text,
    alike,
    comma_list,
    short,
    table,
)
from aotc.report.report_text import count, evaluation_text, precision_lines, source_text
from aotc.report.sizes_report import shapes_report
from aotc_runtime.base import ulps
from aotc_runtime.schema.bundle_manifest import BundleManifest, EntryPoint, TensorSpec
from aotc_runtime.schema.fallback_policies import masks_and_lengths
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.schema.pytrees import leaves
from aotc_runtime.schema.shard_layout import text
from aotc_runtime.schema.tensor_text import tensor_text


def entry_points(review: Review) -> Iterator[Part]:
    """Yield every entry point; targets that offer the same are told together."""
    names = dict.fromkeys(n for t in review.targets.values() for n in t.manifest.entry_points)
    limits = alike((n, _dimensions(t.manifest)) for n, t in review.targets.items())
    for targets, rows in limits:
        if rows:
            where = "" if len(limits) == 1 else f" of {comma_list(targets)}"
            yield table(
                f"Dimensions{where}", ("Dimension", ">Smallest", ">Largest", ">Multiple of"), rows
            )
    for targets, axes in alike((n, _mesh(t.manifest)) for n, t in review.targets.items()):
        if axes:
            yield Facts(((f"mesh of {comma_list(targets)}", axes),))
    lines = review.lines()
    for name in names:
        having = [
            (target, reviewed.manifest.entry_points[name])
            for target, reviewed in review.targets.items()
            if name in reviewed.manifest.entry_points
        ]
        groups = alike((having_one, _interface(having_one[1])) for having_one in having)
        for members, _ in groups:
            targets = [target for target, _ in members]
            title = (
                name if len(targets) == len(review.targets) else f"{name} for {comma_list(targets)}"
            )
            at = lines.get(name, EntryPointLines())
            reviewed = review.targets[targets[0]]
            known = reviewed.entry_points.get(name)
            parts = _entry_point(members, at, known.model if known else UNSET)
            yield Group(title, (*parts, *_precision(known.precision if known else UNSET)))


def _dimensions(manifest: BundleManifest) -> list[tuple[str, str, str, str]]:
    return [
        (name, str(d.minimum), str(d.maximum), str(d.multiple_of))
        for name, d in manifest.dimensions.items()
    ]


def _mesh(manifest: BundleManifest) -> str:
    if manifest.mesh is UNSET:
        return ""
    axes = " x ".join(f"{name} {length}" for name, length in manifest.mesh.sizes.items())
    return f"{axes}: {count(len(manifest.mesh.devices), 'device')}"


def _interface(entry_point: EntryPoint) -> Any:
    """Return the facts that targets must share to be shown together: all but measurements."""
    told = msgspec.to_builtins(entry_point)
    for name in ("profiles", "out_of_profile", "symbolic", "evaluations"):
        told.pop(name, None)
    return told, [profile.sizes for profile in entry_point.profiles]


def _entry_point(
    members: list[tuple[str, EntryPoint]], lines: EntryPointLines, model: ModelOrigin | UnsetType
) -> Iterator[Part]:
    _, first = members[0]
    numerics = "finite: NaN and infinities were not compared" if first.numerics else "-"
    tolerance = f"relative {first.tolerance.rtol}, absolute {first.tolerance.atol}"
    profiles = [sizes_text(profile.sizes) or "without sizes" for profile in first.profiles]
    facts = [
        ("function", first.function),
        ("profiles", "; ".join(profiles)),
        ("tolerance", tolerance),
        ("numerics", numerics),
        (
            "metrics",
            comma_list(
                f"{evaluation_text(msgspec.to_builtins(each))} for {target}"
                for target, entry_point in members
                for each in entry_point.evaluations or ()
            ),
        ),
        ("relations", comma_list(first.relations)),
        (
            "specialised",
            comma_list(
                f"{d}: {why}" + (f" ({lines.decisions[d]})" if d in lines.decisions else "")
                for d, why in first.specialized.items()
            ),
        ),
        (
            "closed-over arrays",
            comma_list(f"{c.tensor} {c.dtype.value}{list(c.shape)}" for c in first.lifted),
        ),
    ]
    yield Facts(tuple((name, value) for name, value in facts if value != "-"))
    if model is not UNSET:
        tone = "bad" if model.expected is UNSET else "plain"
        has_precision = any(profile.precision for profile in first.profiles)
        yield Text(source_text(msgspec.to_builtins(model), has_precision=has_precision), tone)
        if model.layers:
            yield Folded("Layers of the model", (_layers(model.layers, lines),))
    yield table("Parameters", ("Parameter", "Passed", "Arrays", "Donated"), _parameters(first))
    for title, specs in (("Inputs", first.inputs), ("Outputs", first.outputs)):
        yield from _tensors(title, specs)
    policies = [row for target, entry in members for row in _policies(target, entry)]
    if policies:
        columns = ("Dimension", "Target", "Policy", "How", ">Trials", "Ran", ">Max abs", ">ulp")
        yield table("Sizes that no profile has, and what proves it", columns, policies)


def _precision(precision: AppliedPrecision | UnsetType) -> Iterator[Part]:
    if precision is UNSET:
        return
    for line in precision_lines(msgspec.to_builtins(precision)):
        yield Text(line, "plain")
    yield table(
        "Quantized weights",
        ("Weight", "Was", "Stored as", ">Group", ">Largest error", ">Signal to noise"),
        [
            (
                f"{each.set} {each.tensor}",
                each.was,
                each.dtype,
                str(each.group or "-"),
                short(each.max_error),
                f"{each.snr_db} dB",
            )
            for each in precision.quantized
        ],
    )


def _layers(layers: Mapping[str, int], lines: EntryPointLines) -> Part:
    written = {name: at for told in lines.layers.values() for name, at in told.items()}
    rows = [(name, str(held), comma_list(written.get(name, ()))) for name, held in layers.items()]
    return table(
        "Which equations of the first profile are whose",
        ("Layer", ">Equations", "Written in"),
        rows,
    )


def _tensors(title: str, specs: Sequence[TensorSpec]) -> Iterator[Part]:
    """cut: for each axis the axes of the mesh; a column only where something is cut."""
    if not specs:
        return
    rows = [(spec.path or "result", tensor_text(spec)) for spec in specs]
    if any(spec.sharding for spec in specs):
        cuts = [text(spec.sharding) or "whole on every device" for spec in specs]
        cut_rows = [(*row, cut) for row, cut in zip(rows, cuts, strict=True)]
        yield table(title, ("Array", "Type", "Cut over the mesh"), cut_rows)
    else:
        yield table(title, ("Array", "Type"), rows)


def _parameters(entry_point: EntryPoint) -> Iterator[tuple[str, str, str, str]]:
    by_loader = masks_and_lengths(entry_point)
    for parameter in entry_point.parameters:
        arrays = [*leaves(parameter.tree)]
        by = "by the loader" if parameter.name in by_loader else parameter.kind.value
        paths = [entry_point.inputs[i].path for i in arrays if 0 <= i < len(entry_point.inputs)]
        yield parameter.name, by, shorten(paths, 4) or "-", "yes" if parameter.donated else "no"
    for name, weights in entry_point.bound.items():
        yield name, "bound at load", f"weights {weights}", "no"
    for name, value in entry_point.static.items():
        yield name, "fixed at build", value, "no"


def _policies(target: str, entry_point: EntryPoint) -> Iterator[tuple[str, ...]]:
    report = shapes_report(entry_point)
    for dimension, policy in report["out_of_profile"].items():
        told = report["policies"].get(dimension)
        yield dimension, target, policy, *_policy(told)


def _policy(told: dict[str, Any] | None) -> tuple[str, ...]:
    if told is None:
        return "refused", "0", "-", "-", "-"
    if told["policy"] == "compile":
        how = f"at most {told['most']}, {told['seconds']} s each"
        if not told["meanwhile"]:
            return f"{how}; refused until then", "0", "-", "-", "-"
        _, *proof = _policy(told["meanwhile"])
        return f"{how}; {told['meanwhile']['policy']} until then", *proof
    if told["policy"] == "range":
        return "one executable for all sizes", "0", "-", "-", "-"
    given = [f"{key} {told[key]}" for key in ("mask", "length") if told.get(key)]
    given += [f"{path} filled with {number}" for path, number in told.get("fill", {}).items()]
    proof = told["proof"]
    errors = (short(proof["max_abs"]), ulps(proof["ulp_max"])) if proof["trials"] else ("-", "-")
    return comma_list(given), str(proof["trials"]), comma_list(proof["ran"]), *errors
