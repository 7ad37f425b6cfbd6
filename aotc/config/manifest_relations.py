"""Checks of a build manifest that compare several of its keys.

Each key of the manifest is valid by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from aotc.config.input_specs import InputLeaf, check_input
from aotc.config.manifest_problem import Problem, spell, unknown_reference
from aotc.config.manifest_specs import EntryPointSpec, ManifestKeys, Tune
from aotc.config.precision_specs import FLOAT32, check_precision
from aotc.config.profile_relations import (
    check_dimensions,
    check_entry_profiles,
    check_ranges,
    check_targets_profiles,
)
from aotc.config.routing_policies import check_policies
from aotc.config.sharding_specs import Shardings, check_sharding
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import CompileHere, DType, KeyImpl


def check_inputs(manifest: ManifestKeys, entry: EntryPointSpec, at: KeyPath) -> Iterator[Problem]:
    """Require declared dimensions, and dtypes that jax keeps."""
    for parameter, tree in entry.inputs.items():
        yield from check_input(
            tree,
            (*at, "inputs", parameter),
            manifest.dimensions,
            enable_x64=manifest.enable_x64,
            of_file=entry.source is not None,
        )


def check_parameters(
    manifest: ManifestKeys, entry: EntryPointSpec, at: KeyPath
) -> Iterator[Problem]:
    """Require every parameter in one of bind, inputs and static, and declared weights in bind."""
    for parameter, owner in entry.bind.items():
        if owner not in manifest.weights:
            path, hint = (*at, "bind", parameter), f"declare [weights.{owner}]"
            yield unknown_reference(path, "weights set", owner, manifest.weights, hint)
    owners: dict[str, str] = {}
    kinds = {"bind": entry.bind, "inputs": entry.inputs, "static": entry.static}
    for kind, parameters in kinds.items():
        for parameter in parameters:
            if parameter in owners:
                found, cause = f"{owners[parameter]}.{parameter}", "parameter-is-declared-twice"
                path, hint = (*at, kind, parameter), "remove one of the two"
                yield Problem("AOTC-E807", path, hint, found=found, cause=cause)
            owners.setdefault(parameter, kind)


def check_donations(_: ManifestKeys, entry: EntryPointSpec, at: KeyPath) -> Iterator[Problem]:
    """Require that only inputs are donated."""
    for index, parameter in enumerate(entry.donate):
        # Of a model file it is known only when the file has been read:
        # `aotc.capture.model_entry_points`.
        if parameter not in entry.inputs and entry.source is None:
            hint = f"add inputs.{parameter}, or donate an input"
            if parameter in entry.bind:
                hint = "donate inputs only: bound weights serve every call"
            path = (*at, "donate", index)
            yield unknown_reference(path, "input", parameter, entry.inputs, hint)


def check_out_of_profile(
    manifest: ManifestKeys, entry: EntryPointSpec, at: KeyPath
) -> Iterator[Problem]:
    """Check policies against the entry point's dimensions and inputs.

    Nothing may be compiled for a mesh while it serves.
    """
    path: KeyPath = (*at, "out_of_profile")
    used, hint = entry.dimensions, "add profiles, or choose another policy"
    for dimension, policy in entry.policies.items():
        if manifest.mesh and isinstance(policy, CompileHere):
            expected, found = "fail, pad, split", "compile, with a mesh"
            yield Problem("AOTC-E807", (*path, dimension), hint, expected=expected, found=found)
        if dimension not in used:
            known = "name a dimension of the entry point's inputs"
            yield unknown_reference((*path, dimension), "dimension", dimension, used, known)
    policies = {at: policy for at, policy in entry.policies.items() if at in used}
    yield from check_policies(policies, path, entry.inputs, entry.donate)


def check_shardings(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require that every sharding is over axes of the mesh."""
    tables: dict[KeyPath, Shardings] = {
        ("weights", name, "shardings"): weights.shardings
        for name, weights in manifest.weights.items()
    }
    for name, entry in manifest.entry_points.items():
        tables["entry_points", name, "shardings", "inputs"] = entry.shardings.inputs
        tables["entry_points", name, "shardings", "outputs"] = entry.shardings.outputs
    for path, shardings in tables.items():
        for pattern, sharding in shardings.items():
            yield from check_sharding(sharding, (*path, pattern), manifest.mesh)


def check_fixtures(_: ManifestKeys, entry: EntryPointSpec, at: KeyPath) -> Iterator[Problem]:
    """Require ranges for existing leaves, and no policies with recorded results.

    An entry point of a model file is checked again once its inputs are known. The program's
    parameters and leaves of a `like` input are not known yet; tests of policies have to run it.
    """
    leaves = {path: leaf for path, leaf in entry.leaves.items() if isinstance(leaf, InputLeaf)}
    made = entry.leaves.keys() - leaves.keys()
    for leaf, ends in entry.fixtures.ranges.items():
        path = (*at, "fixtures", "ranges", leaf)
        is_below = any(leaf == owner or leaf.startswith(f"{owner}/") for owner in made)
        if leaf.split("/")[0] in entry.inputs and not (leaf in leaves or is_below):
            hint = "name an array by its path"
            yield unknown_reference(path, "input array", leaf, leaves, hint)
        yield from _check_range(path, ends, leaves[leaf].stated if leaf in leaves else None)
    for dimension, policy in [*entry.out_of_profile.items()][:1]:
        if entry.fixtures.results is not None:
            yield Problem(
                "AOTC-E807",
                (*at, "fixtures", "results"),
                "leave the policy at fail, or remove the results",
                expected=f"the policy fail for {dimension}",
                found=f"recorded results with the policy {policy.__struct_config__.tag}",
            )


def _check_range(
    path: KeyPath, ends: tuple[float, float], dtype: DType | KeyImpl | None
) -> Iterator[Problem]:
    """Check the ends of a range; `dtype` is that of the leaf, None if it is not known."""
    if dtype is DType.BOOL or isinstance(dtype, KeyImpl):
        found, cause = spell(dtype.value), "range-for-an-input-without-numbers"
        yield Problem("AOTC-E807", path, "remove the range", found=found, cause=cause)
    elif dtype is not None and "int" in dtype:
        for index, bound in enumerate(ends):
            if isinstance(bound, float):
                yield Problem(
                    "AOTC-E805",
                    (*path, index),
                    "write it without a fraction",
                    expected=f"an integer, as {path[-1]} is {dtype}",
                    found=spell(bound),
                )


def check_evaluation(_: ManifestKeys, entry: EntryPointSpec, at: KeyPath) -> Iterator[Problem]:
    """Require limits that a metric can meet, and labels that are no input."""
    if entry.evaluation is not None:
        is_recorded = entry.fixtures.results is not None
        for each in entry.evaluation.problems(entry.leaves, is_recorded=is_recorded):
            yield replace(each, path=(*at, "evaluation", *each.path))


def check_precisions(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require declared precisions, limits to choose among several, and a reference to compare with.

    Modules for sizes that hosts compile round no factors.
    """
    for name, spec in manifest.precision.items():
        yield from spec.problems(("precision", name))
    rounding = {name for name, spec in manifest.precision.items() if spec.rounds}
    for name, entry in manifest.entry_points.items():
        others = ["mesh"] if manifest.mesh else []
        if rounding & {*entry.precision} and any(
            isinstance(policy, CompileHere) for policy in entry.policies.values()
        ):
            others.append("the policy compile")
        others += ["fixtures.results"] if entry.fixtures.results is not None else []
        path: KeyPath = ("entry_points", name, "precision")
        declared, evaluation = manifest.precision, entry.evaluation
        yield from check_precision(entry.precision, declared, path, others, evaluation)


def check_use(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require that every dimension, weights set and precision is used by an entry point.

    An undeclared name has a problem of its own, and may be a misspelt one of these.
    """
    entries = manifest.entry_points.values()
    used = {name for entry in entries for name in entry.dimensions}
    bound = {owner for entry in entries for owner in entry.bind.values()}
    precisions = {name for entry in entries for name in entry.precision if name != FLOAT32}
    kinds: tuple[tuple[str, set[str], str, Mapping[str, object]], ...] = (
        ("dimensions", used, "the shape of an input", manifest.dimensions),
        ("weights", bound, "the bind table of an entry point", manifest.weights),
        ("precision", precisions, "the key precision of an entry point", manifest.precision),
    )
    for kind, names, user, declared in kinds:
        for name in declared if names.issubset(declared) else ():
            if name not in names:
                yield Problem(
                    "AOTC-E809", (kind, name), "use it, or remove it", expected=f"a use in {user}"
                )


def check_tune(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require several engines to choose among, and calls for the objective that measures them."""
    lists = (manifest.engines, *(each.engines for each in manifest.overrides.values()))
    objective, mixed = manifest.tune.objective, manifest.tune.mixed
    if manifest.tune != Tune() and all(len(engines) < 2 for engines in lists):
        yield Problem(
            "AOTC-E809",
            ("tune",),
            'list several, such as `engines = ["iree", "xla"]`, or remove `tune`',
            expected="several engines",
            found="one engine",
            cause="tuning-option-has-no-effect",
        )
    if mixed and objective not in (None, "latency"):
        yield Problem(
            "AOTC-E809",
            ("tune", "mixed"),
            "remove mixed, or the objective",
            expected='objective = "latency"',
            found=f"objective = {spell(objective)}",
            cause="tuning-option-has-no-effect",
        )


def check(manifest: ManifestKeys) -> Iterator[Problem]:
    """Yield every problem that all the checks find."""
    for check_all in (
        *(check_dimensions, check_targets_profiles, check_shardings),
        *(check_precisions, check_use, check_tune),
    ):
        yield from check_all(manifest)
    for name, entry in manifest.entry_points.items():
        for check_one in (
            *(check_inputs, check_entry_profiles, check_out_of_profile, check_parameters),
            *(check_donations, check_fixtures, check_evaluation, check_ranges),
        ):
            yield from check_one(manifest, entry, ("entry_points", name))
