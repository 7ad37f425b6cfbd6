"""Contradictions in rare parts of manifests.

These are engines beside XLA, or several; meshes; random keys; metrics; precisions; assets; trees of
named tuples, records and dicts with integer keys; ranges. Imported for a manifest that has some.
"""

import keyword
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from math import prod

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import (
    FIRST_VERSION,
    SECOND_VERSION,
    XLA,
    XLA_PLATFORMS,
    BundleManifest,
    DType,
    EntryPoint,
    Evaluation,
    EvaluationRan,
    ProfileRecord,
    Sharding,
    WeightArgument,
    WeightSet,
    engine_name,
    engine_of,
)
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.schema.pytrees import IntDictNode, NamedTupleNode, RecordNode, Tree, children
from aotc_runtime.schema.shard_layout import misfits, text, uneven_axis
from aotc_runtime.schema.tensor_text import data_text, key_words

type Sharded = tuple[str, Sharding, Sequence[Sequence[int]]]
"""A tensor: where it stands, how it is cut, the shapes that it has."""

RANGED = ("onnxruntime",)
"""Platforms whose executables may serve a range of sizes."""


def check_engine(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Check the device requirements of an engine other than XLA.

    Such a platform has no `target.device`; `requires.device` states what a host must have.
    """
    target, requires = manifest.target, manifest.requires
    if target.platform != requires.platform:
        found = f"{target.platform} and {requires.platform}"
        yield _finding(f"{where} target", "one platform", found)
    if target.device is not UNSET:
        yield _finding(f"{where} target", "no device", target.platform)
    if requires.device is UNSET:
        expected = f"requirements of the engine for {target.platform}"
        yield _finding(f"{where} requires", expected, "none")


def check_mixed(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Yield every contradiction about the engines of its executables (AOTC-E118)."""

    def wrong(place: str, expected: str, found: str) -> Finding:
        return _finding(f"{where} {place}", expected, found)

    target, others = manifest.target, manifest.requires.engines or {}
    if target.device is not UNSET or target.devices > 1 or manifest.mesh is not UNSET:
        yield wrong("target", "one processor, where engines are several", "other devices")
    if engine_name(target) == XLA and target.platform != "cpu":
        yield wrong("target", "a processor, where engines are several", target.platform)
    engines = [engine_of(platform) for platform in manifest.platforms]
    if len({*engines}) < len(engines):
        yield wrong("requires engines", "each engine once", ", ".join(engines))
    if not others:
        yield wrong("requires engines", "another engine than the target's", "none")
    for platform in sorted({*others} & {*XLA_PLATFORMS}):
        yield wrong("requires engines", "XLA as the target's own engine", platform)
    stated = {
        f"{name} profile {number}": profile
        for name, entry_point in manifest.entry_points.items()
        for number, profile in enumerate(entry_point.profiles)
    }
    for place, profile in stated.items():
        if profile.platform is not UNSET and profile.platform not in others:
            expected = f"one of {', '.join(others) or 'no other platforms'}, of requires.engines"
            yield wrong(place, expected, profile.platform)
        if profile.platform is not UNSET and profile.custom_call_targets:
            found = ", ".join(profile.custom_call_targets)
            yield wrong(place, f"no custom calls, which {profile.platform} lacks", found)
    used = {manifest.platform_of(profile) for profile in stated.values()}
    for platform in manifest.platforms:
        if platform not in used:
            yield wrong("requires", f"an executable for {platform}", "none")


def check_mesh(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Yield every contradiction of meshes and shardings (AOTC-E118)."""
    if manifest.mesh is UNSET:
        for place, sharding, _ in _tensors(manifest, where):
            if sharding:
                yield _finding(place, "no sharding without a mesh", text(sharding))
        return
    mesh = manifest.mesh
    sizes = mesh.sizes
    if not mesh.axes or len(sizes) < len(mesh.axes):
        found = ", ".join(axis.name for axis in mesh.axes) or "none"
        yield _finding(f"{where} mesh", "distinct named axes", found)
        return
    count = prod(sizes.values())
    if sorted(mesh.devices) != list(range(len(mesh.devices))) or count != len(mesh.devices):
        found = ", ".join(map(str, mesh.devices[:16])) or "none"
        yield _finding(f"{where} mesh devices", f"each of 0 to {count - 1} once", found)
        return
    if manifest.requires.device is UNSET and list(mesh.devices) != sorted(mesh.devices):
        # XLA's collectives on a processor would wait for each other until they end the process.
        found = ", ".join(map(str, mesh.devices[:16]))
        yield _finding(f"{where} mesh devices", "ascending devices of a processor", found)
    if not count == manifest.requires.devices == manifest.target.devices:
        found = f"{count}, {manifest.requires.devices} and {manifest.target.devices}"
        yield _finding(f"{where} mesh", "the number of devices of target and requires", found)
    for place, sharding, shapes in _tensors(manifest, where):
        yield from _check_sharding(place, sharding, shapes, sizes)
    for name, entry_point in manifest.entry_points.items():
        if entry_point.symbolic is not UNSET:
            expected = "no symbolic module in a bundle with a mesh"
            yield _finding(f"{where} {name}", expected, "a symbolic module")


def _check_sharding(
    where: str, sharding: Sharding, shapes: Sequence[Sequence[int]], sizes: dict[str, int]
) -> Iterator[Finding]:
    if not sharding:
        return
    if not any(sharding):
        yield _finding(where, "no sharding for an unsharded tensor", text(sharding))
        return
    wrong = [*misfits(sizes, sharding)]
    for index, problem in wrong:
        yield _finding(where, "axes of the mesh, each once", f"axis {index}: {problem}")
    for shape in () if wrong else shapes:
        if len(shape) != len(sharding):
            yield _finding(where, f"a sharding for {len(shape)} axes", text(sharding))
        elif (axis := uneven_axis(sizes, sharding, shape)) is not None:
            into = prod(sizes[name] for name in sharding[axis])
            yield _finding(where, f"an axis divisible by {into}", f"{list(shape)}")


def _tensors(manifest: BundleManifest, where: str) -> Iterator[Sharded]:
    for name, set_ in manifest.weights.items():
        for tensor in set_.tensors:
            yield f"{where} {name} {tensor.name}", tensor.sharding, [tensor.shape]
    for name, entry_point in manifest.entry_points.items():
        profiles = entry_point.profiles
        for index, spec in enumerate(entry_point.inputs):
            shapes = [p.input_shapes[index] for p in profiles if index < len(p.input_shapes)]
            yield f"{where} {name} {spec.path}", spec.sharding, shapes
        for index, spec in enumerate(entry_point.outputs):
            shapes = [p.output_shapes[index] for p in profiles if index < len(p.output_shapes)]
            yield f"{where} {name} {spec.path or 'result'}", spec.sharding, shapes


def check_keys(entry_point: EntryPoint, where: str) -> Iterator[Finding]:
    """Random keys are described by their data: uint32, with the key's words in the last axis."""
    profiles = entry_point.profiles
    inputs = zip(*(profile.input_shapes for profile in profiles), strict=False)
    outputs = zip(*(profile.output_shapes for profile in profiles), strict=False)
    for spec, shapes in (
        *zip(entry_point.inputs, inputs, strict=False),
        *zip(entry_point.outputs, outputs, strict=False),
    ):
        if spec.key_impl is None:
            continue
        words = (key_words(spec.key_impl),)
        if spec.dtype is not DType.UINT32 or any(s[-1:] != words for s in (spec.shape, *shapes)):
            expected = f"key data: uint32 with a last axis of {words[0]}"
            yield _finding(f"{where} {spec.path}".rstrip(), expected, data_text(spec))


LOWER_IS_BETTER = ("rmse", "mae", "perplexity")
"""Built-in metrics that are errors; of other built-in ones the larger value is better."""


def check_evaluations(evaluations: Sequence[Evaluation], where: str) -> Iterator[Finding]:
    """Yield every contradiction about the metrics of an entry point (AOTC-E118).

    Each metric is recorded once. A built-in metric has its own direction and no code, so that no
    builder can turn a rule of a trust policy around, and a value lies within its interval.
    """
    if not evaluations or len({each.metric for each in evaluations}) < len(evaluations):
        found = ", ".join(each.metric for each in evaluations) or "none"
        yield _finding(where, "one or more metrics, each once", found)
    for each in evaluations:
        place, is_built_in = f"{where} {each.metric}", ":" not in each.metric
        better = "lower" if each.metric in LOWER_IS_BETTER else "higher"
        if is_built_in and each.better != better:
            yield _finding(place, f"better = {better}", f"better = {each.better}")
        if is_built_in != (each.code is UNSET):
            expected = "no digest of code" if is_built_in else "the digest of its code"
            yield _finding(place, expected, "none" if each.code is UNSET else "a digest")
        if isinstance(each.result, EvaluationRan):
            numbers = (each.result.low, each.result.value, each.result.high)
            if not float(numbers[0]) <= float(numbers[1]) <= float(numbers[2]):
                yield _finding(place, "a value within its interval", " ".join(numbers))


FEW_BITS = ("int8", "uint8", "int4", "uint4")


def precisions_of(profile: ProfileRecord, manifest: BundleManifest) -> Set[str]:
    """Return the precisions of an executable's weights with two or more axes, and of activations.

    Weights count wherever they were quantized: by the build, or before it.
    """
    captured = () if profile.tuned is UNSET else profile.tuned.captured
    taken = [
        (a.set, a.tensor) for a in (*profile.arguments, *captured) if isinstance(a, WeightArgument)
    ]
    found = {
        (tensor.packed or tensor.dtype).removeprefix("u")
        for name, weights in manifest.weights.items()
        for tensor in weights.tensors
        if (name, tensor.name) in taken and len(tensor.shape) > 1 and tensor.dtype in FEW_BITS
    }
    stated = profile.precision
    activations = {str(stated.activations)} if stated and stated.activations else set()
    return found | activations or {"float32"}


def check_precisions(
    profiles: Sequence[ProfileRecord], manifest: BundleManifest, where: str
) -> Iterator[Finding]:
    """Yield AOTC-E118 for each profile that states a precision in which it takes no weights.

    Rounded activations are of a later format version than the first.
    """
    for index, profile in enumerate(profiles):
        stated, place = profile.precision, f"{where} profile {index}"
        if stated is not UNSET and stated.weights not in precisions_of(profile, manifest):
            yield _finding(place, f"weights in {stated.weights}", "none")
        if stated and stated.activations and manifest.format_version == FIRST_VERSION:
            expected = f"none before format version {SECOND_VERSION}"
            yield _finding(place, expected, f"{stated.activations} activations")


def check_range(entry_point: EntryPoint, manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Yield AOTC-E118 for each contradiction about an executable for a range of sizes."""
    (name, *others), profiles = entry_point.out_of_profile, entry_point.profiles
    accepted, alike = manifest.dimensions.get(name), dict[str, list[ProfileRecord]]()
    for profile in profiles:
        alike.setdefault(sizes_text({**profile.sizes, name: 0}), []).append(profile)
    sizes = [{profile.sizes.get(name) for profile in each} for each in alike.values()]
    made = [{(each.executable, each.arguments) for each in known} for known in alike.values()]
    for expected, is_wrong in (
        (f"format version {SECOND_VERSION}", manifest.format_version == FIRST_VERSION),
        ("no other policy", bool(others)),
        (
            f"an engine of {', '.join(RANGED)}",
            not {*map(manifest.platform_of, profiles)} <= {*RANGED},
        ),
        ("one executable", any(len(each) > 1 for each in made)),
        (
            "profiles of its smallest and its largest size",
            accepted is not None
            and not all({accepted.smallest, accepted.largest} <= each for each in sizes),
        ),
    ):
        if is_wrong:
            yield _finding(f"{where} {name}", f"a range with {expected}", "another")


def check_packed(weights: WeightSet, version: str, where: str) -> Iterator[Finding]:
    """Yield AOTC-E118 for packed weights that are no bytes, or older than their format version."""
    for tensor in weights.tensors:
        if tensor.packed and (tensor.dtype is not DType.UINT8 or version == FIRST_VERSION):
            expected = f"uint8, from format version {SECOND_VERSION} on"
            yield _finding(f"{where} {tensor.name}", expected, f"{tensor.dtype} in {version}")


def check_assets(manifest: BundleManifest, where: str) -> Iterator[Finding]:
    """Yield every contradiction about the assets of a manifest (AOTC-E118)."""
    assets = manifest.assets or {}
    if manifest.format_version == FIRST_VERSION or not assets:
        expected = f"at least one, from format version {SECOND_VERSION} on"
        found = f"{len(assets)} in {manifest.format_version}"
        yield _finding(f"{where} assets", expected, found)
    # These stay mapped, while assets are copied before they are hashed.
    weights = {ref.digest for set_ in manifest.weights.values() for ref in set_.blobs}
    for name, asset in assets.items():
        place, paths = f"{where} asset {name}", asset.files
        if not paths or (asset.kind == "file" and (len(paths) > 1 or "/" in "".join(paths))):
            yield _finding(place, f"a {asset.kind}", ", ".join(paths) or "no files")
        if any(ref.digest in weights for ref in paths.values()):
            yield _finding(place, "no file of the weights", "one")
        if alike := colliding(paths):
            yield _finding(place, "names that differ by more than case", ", ".join(alike))


def colliding(paths: Collection[str]) -> list[str]:
    """Return the files and folders of these paths that have a name twice, but for its case."""
    folders = {path[:end] for path in paths for end, mark in enumerate(path) if mark == "/"}
    count = Counter(each.lower() for each in (*paths, *folders))
    return sorted(each for each in (*paths, *folders) if count[each.lower()] > 1)


def check_fields(tree: Tree, where: str) -> Iterator[Finding]:
    """Require a valid Python name, or a number, for each child."""
    if isinstance(tree, NamedTupleNode | RecordNode):
        names = (*tree.fields, tree.type) if isinstance(tree, NamedTupleNode) else ()
        good = all(map(_is_name, names)) and not any(n.startswith("_") for n in names[:-1])
        if not good or not len({*tree.fields}) == len(tree.fields) == len(tree.items):
            found = f"{tree.type}({', '.join(tree.fields)}) with {len(tree.items)} items"
            yield _finding(where, "one Python name for each item", found)
    if isinstance(tree, IntDictNode) and (
        len(tree.keys) != len(tree.items) or [*tree.keys] != sorted({*tree.keys}) or not tree.keys
    ):
        found = f"keys {', '.join(map(str, tree.keys))} with {len(tree.items)} items"
        yield _finding(where, "one integer key for each item, in ascending order", found)
    for child in children(tree):
        yield from check_fields(child, where)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _finding(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E118", where, found, expected=expected)
