"""Checks of a build manifest that compare several of its keys.

They take what could be read of it, so that a file with a wrong type in one place is still told
about everything else, and keep to what was not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from aotc.config.input_specs import InputLeaf, InputLike, check_input, dimensions_of, leaf_paths
from aotc.config.manifest_problem import Problem, Refused, duplicates, spell, unknown_reference
from aotc.config.manifest_specs import EntryPointSpec, ManifestKeys
from aotc.config.profile_relations import (
    check_dimensions,
    check_entry_points,
    check_targets_profiles,
    used_dimensions,
)
from aotc.config.routing_policies import check_policies
from aotc.config.sharding_specs import Shardings, check_sharding
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import CompileHere, DType, KeyImpl

type Check = Callable[[ManifestKeys, Refused], Iterator[Problem]]


def check_targets(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """No target twice."""
    yield from duplicates(("targets",), manifest.targets)


def check_inputs(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Inputs have declared dimensions, and dtypes that jax keeps."""
    dimensions = refused.declared(manifest.dimensions, "dimensions")
    enable_x64 = None if refused.at("enable_x64") else manifest.enable_x64
    for name, entry in manifest.entry_points.items():
        for parameter, tree in entry.inputs.items():
            path = ("entry_points", name, "inputs", parameter)
            found = check_input(
                tree,
                path,
                dimensions,
                enable_x64=enable_x64,
                of_file=entry.source is not None,
            )
            yield from (problem for problem in found if not refused.at(*problem.path))


def check_bindings(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Every bound parameter takes a declared weights set."""
    known = refused.declared(manifest.weights, "weights")
    for name, entry in manifest.entry_points.items():
        for parameter, owner in entry.bind.items():
            if known is not None and owner not in known:
                path = ("entry_points", name, "bind", parameter)
                hint = f"declare [weights.{owner}]"
                yield unknown_reference(path, "weights set", owner, known, hint)


def check_parameters(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Every parameter in one of bind, inputs and static."""
    for name, entry in manifest.entry_points.items():
        owners: dict[str, str] = {}
        kinds = {"bind": entry.bind, "inputs": entry.inputs, "static": entry.static}
        for kind, parameters in kinds.items():
            path = ("entry_points", name, kind)
            for parameter in refused.declared(parameters, *path) or ():
                if parameter in owners:
                    yield Problem(
                        code="AOTC-E807",
                        path=(*path, parameter),
                        expected="each parameter in one of bind, inputs and static",
                        found=f"{parameter} is in {owners[parameter]} as well",
                        hint="remove one of the two",
                    )
                owners.setdefault(parameter, kind)


def check_donations(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Only inputs are donated, each once."""
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name, "donate")
        yield from duplicates(path, entry.donate)
        known = refused.declared(entry.inputs, "entry_points", name, "inputs")
        for index, parameter in enumerate(entry.donate):
            # Of a model file it is known only when the file has been read:
            # `aotc.capture.model_entry_points`.
            if known is not None and parameter not in known and entry.source is None:
                hint = f"add inputs.{parameter}, or donate an input"
                if parameter in entry.bind:
                    hint = "bound weights serve every call and cannot be donated"
                yield unknown_reference((*path, index), "input", parameter, known, hint)


def check_out_of_profile(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Policies of dimensions that the entry point has, whose inputs are what the policy needs;
    nothing is compiled for a mesh while it serves.
    """
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name, "out_of_profile")
        for dimension, policy in entry.policies.items():
            if manifest.mesh and isinstance(policy, CompileHere):
                yield Problem(
                    code="AOTC-E807",
                    path=(*path, dimension),
                    expected="fail, pad or split for a program with a mesh",
                    found="compile, which compiles for one device",
                    hint="add profiles, or choose another policy",
                )
        used = used_dimensions(entry, path[:2], refused)
        if used is None:
            continue
        for dimension in {*(refused.declared(entry.policies, *path) or ())} - used:
            hint = "name a dimension of the entry point's inputs"
            yield unknown_reference((*path, dimension), "dimension", dimension, used, hint)
        policies = {at: policy for at, policy in entry.policies.items() if at in used}
        yield from check_policies(policies, path, entry.inputs, entry.donate)


def check_shardings(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Every sharding is over axes of the mesh."""
    tables: dict[KeyPath, Shardings] = {
        ("weights", name, "shardings"): weights.shardings
        for name, weights in manifest.weights.items()
    }
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name, "shardings")
        tables[*path, "inputs"] = entry.shardings.inputs
        tables[*path, "outputs"] = entry.shardings.outputs
    for path, shardings in tables.items():
        for pattern, sharding in shardings.items() if not refused.within("mesh") else ():
            yield from check_sharding(sharding, (*path, pattern), manifest.mesh)


def check_fixtures(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Ranges for leaves, of which those within a `like` input are not known yet; recorded results
    without policies, whose proof has to run the program.
    """
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name, "fixtures")
        leaves = {
            at: leaf
            for parameter, tree in entry.inputs.items()
            for at, leaf in leaf_paths(tree, parameter)
            if isinstance(leaf, InputLeaf)
        }
        made = tuple(
            at
            for parameter, tree in entry.inputs.items()
            for at, leaf in leaf_paths(tree, parameter)
            if isinstance(leaf, InputLike)
        )
        for leaf in refused.declared(entry.fixtures.ranges, *path, "ranges") or ():
            at = (*path, "ranges", leaf)
            is_broken = refused.within(*path[:2], "inputs", leaf.split("/")[0])
            # A model file has its inputs, where the manifest writes none: `check_file_ranges`.
            is_of_file = entry.source is not None and not entry.inputs
            if not (leaf in leaves or is_broken or is_of_file or _is_below(leaf, made)):
                yield _unknown_array(at, leaf, leaves)
            dtype = leaves[leaf].stated if leaf in leaves and not is_broken else None
            if ends := entry.fixtures.ranges.get(leaf):
                yield from _check_range(at, ends, dtype)
        if entry.fixtures.results is not None:
            yield from _check_results((*path, "results"), entry)


def check_file_ranges(
    path: KeyPath,
    ranges: Mapping[str, tuple[float, float]],
    dtypes: Mapping[str, DType | KeyImpl],
) -> Iterator[Problem]:
    """Check ranges once a model file was read. path: of `ranges`.  dtypes: of its inputs."""
    for leaf, ends in ranges.items():
        if leaf in dtypes:
            yield from _check_range((*path, leaf), ends, dtypes[leaf])
        else:
            yield _unknown_array((*path, leaf), leaf, dtypes)


def _unknown_array(path: KeyPath, leaf: str, known: Collection[str]) -> Problem:
    return unknown_reference(path, "input array", leaf, known, "name an array by its path")


def _is_below(path: str, owners: Collection[str]) -> bool:
    """Whether a leaf's path is one of these or within one of them."""
    return any(path == owner or path.startswith(f"{owner}/") for owner in owners)


def _check_results(path: KeyPath, entry: EntryPointSpec) -> Iterator[Problem]:
    for dimension, policy in [*entry.out_of_profile.items()][:1]:
        yield Problem(
            code="AOTC-E807",
            path=path,
            expected=f"the policy fail for {dimension}: others are tried in plain JAX",
            found=f"recorded results beside the policy {policy.__struct_config__.tag}",
            hint="leave the policy at fail, or remove the results",
        )


def _check_range(
    path: KeyPath, ends: tuple[float, float], dtype: DType | KeyImpl | None
) -> Iterator[Problem]:
    """dtype: of the leaf; None if it cannot be told."""
    lowest, highest = ends
    if lowest > highest:
        found = f"[{spell(lowest)}, {spell(highest)}]"
        yield Problem("AOTC-E805", path, "[lowest, highest]", found, "swap the two")
    if dtype is DType.BOOL:
        yield Problem(
            code="AOTC-E807",
            path=path,
            expected="ranges for numbers",
            found="a range for booleans, which are drawn from false and true",
            hint="remove it",
        )
    elif isinstance(dtype, KeyImpl):
        yield Problem(
            code="AOTC-E807",
            path=path,
            expected="ranges for numbers",
            found="a range for random keys, whose data are drawn from all bits",
            hint="remove it",
        )
    elif dtype is not None and "int" in dtype:
        for index, bound in enumerate(ends):
            if isinstance(bound, float):
                yield Problem(
                    code="AOTC-E805",
                    path=(*path, index),
                    expected=f"an integer, since {path[-1]} is {dtype}",
                    found=spell(bound),
                    hint="write it without a fraction",
                )


def check_use(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Every declared dimension and weights set serves some entry point.

    Nothing is said where a name that nobody declared, or what cannot be read, may be what was meant
    to use it: that has a problem of its own. So has a key that entry points do not have, such as a
    misspelt `bind`.
    """
    kept = [p.path for p in refused.problems if p.path[:1] == ("entry_points",)]
    unknown = [p.path for p in refused.problems if p.code == "AOTC-E803"]
    if any(len(path) < 3 or (len(path) == 3 and path in unknown) for path in kept):
        return
    entries = manifest.entry_points
    used = {
        name
        for entry in entries.values()
        for tree in entry.inputs.values()
        for name in dimensions_of(tree)
    }
    bound = {owner for entry in entries.values() for owner in entry.bind.values()}
    is_unread = any(path[2] == "inputs" for path in kept)
    kinds: tuple[tuple[str, set[str], str, Mapping[str, object]], ...] = (
        ("dimensions", used, "the shape of an input", {} if is_unread else manifest.dimensions),
        ("weights", bound, "the bind table of an entry point", manifest.weights),
    )
    for kind, names, user, known in kinds:
        declared = refused.declared(known, kind) or () if known else ()
        for name in declared if names.issubset(declared) else ():
            if name not in names:
                yield Problem(
                    code="AOTC-E809",
                    path=(kind, name),
                    expected=f"a name that {user} uses",
                    found=f"{name} is never used",
                    hint="use it, or remove it",
                )


def check_tune(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """An objective has engines to choose among, and that of single executables is their calls."""
    lists = (manifest.engines, *(each.engines for each in manifest.overrides.values()))
    if any(refused.within(section) for section in ("engines", "target", "tune")):
        return
    objective, mixed = manifest.tune.objective, manifest.tune.mixed
    if (objective or mixed) and all(len(engines) < 2 for engines in lists):
        key = "objective" if objective else "mixed"
        yield Problem(
            code="AOTC-E809",
            path=("tune", key),
            expected="several engines to choose among",
            found="one for each target",
            hint=f'list them: engines = ["iree", "xla"], or remove {key}',
        )
    if mixed and objective not in (None, "latency"):
        yield Problem(
            code="AOTC-E809",
            path=("tune", "mixed"),
            expected="mixed with the objective latency: each engine takes its start and memory",
            found=f"objective = {objective}",
            hint="remove mixed or the objective",
        )


CHECKS: tuple[Check, ...] = (
    check_targets,
    check_dimensions,
    check_targets_profiles,
    check_inputs,
    check_entry_points,
    check_out_of_profile,
    check_shardings,
    check_bindings,
    check_parameters,
    check_donations,
    check_fixtures,
    check_use,
    check_tune,
)


def check(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Every problem that all the checks find."""
    return (problem for one in CHECKS for problem in one(manifest, refused))
