"""Checks of a build manifest that compare several of its keys.

The checks take the parsed TOML, not the models, so that a file with a wrong type in one place is
still told about everything else. They pass over values of a wrong type: the models report those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aotc.config.inputs import InputLeaf, InputTree, dimensions_of, leaf_paths
from aotc.config.models import EntryPointModel
from aotc.config.policies import check_policies
from aotc.config.problem import Problem, duplicates, spell, unknown_reference
from aotc.config.profiles import (
    Inputs,
    check_dimensions,
    check_entry_points,
    check_targets_profiles,
)
from aotc.config.shardings import check_mesh_policies, check_shardings
from aotc.config.tables import declared, table, tables
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.manifest import DType, KeyImpl

type Check = Callable[[Mapping[str, Any], Inputs], Iterator[Problem]]


def _array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or _is_integer(value)


def check_targets(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """No target twice."""
    yield from duplicates(("targets",), _array(data.get("targets")))


def check_origins(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Every weights set comes from somewhere."""
    for name, weights in tables(data.get("weights")):
        if not weights.keys() & {"source", "init"}:
            yield Problem(
                code="AOTC-E804",
                path=("weights", name),
                expected="source (a safetensors file), init (a function), or both",
                found="neither",
                hint='add source = "params.safetensors", or init = "package.module:function"',
            )


def check_bindings(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Every bound parameter takes a declared weights set."""
    known = declared(data, "weights")
    for name, entry in tables(data.get("entry_points")):
        for parameter, owner in table(entry.get("bind")).items():
            if isinstance(owner, str) and known is not None and owner not in known:
                path = ("entry_points", name, "bind", parameter)
                hint = f"declare [weights.{owner}]"
                yield unknown_reference(path, "weights set", owner, known, hint)


def check_parameters(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Every parameter in one of bind, inputs and static."""
    for name, entry in tables(data.get("entry_points")):
        owners: dict[str, str] = {}
        for kind in ("bind", "inputs", "static"):
            for parameter in table(entry.get(kind)):
                if parameter in owners:
                    yield Problem(
                        code="AOTC-E807",
                        path=("entry_points", name, kind, parameter),
                        expected="each parameter in one of bind, inputs and static",
                        found=f"{parameter} is in {owners[parameter]} as well",
                        hint="remove one of the two",
                    )
                owners.setdefault(parameter, kind)


def check_donations(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Only inputs are donated, each once."""
    for name, entry in tables(data.get("entry_points")):
        path: KeyPath = ("entry_points", name, "donate")
        names = _array(entry.get("donate"))
        yield from duplicates(path, names)
        known = declared(entry, "inputs")
        for index, parameter in enumerate(names):
            if isinstance(parameter, str) and known is not None and parameter not in known:
                hint = f"add inputs.{parameter}, or donate an input"
                if parameter in table(entry.get("bind")):
                    hint = "bound weights serve every call and cannot be donated"
                yield unknown_reference((*path, index), "input", parameter, known, hint)


def check_fixtures(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Recorded or random inputs, not both; ranges for leaves that are drawn at random; recorded
    results of recorded inputs alone, without policies, whose proof has to run the program.
    """
    for name, entry in tables(data.get("entry_points")):
        path: KeyPath = ("entry_points", name, "fixtures")
        fixtures = table(entry.get("fixtures"))
        for key in ("seed", "ranges"):
            if "file" in fixtures and key in fixtures:
                yield Problem(
                    code="AOTC-E807",
                    path=(*path, key),
                    expected="either file, or seed and ranges",
                    found=f"{key} beside file",
                    hint="remove one of the two",
                )
        for leaf, bounds in table(fixtures.get("ranges")).items():
            yield from _check_range((*path, "ranges", leaf), bounds, inputs.get(name, {}))
        if "results" in fixtures:
            yield from _check_results((*path, "results"), fixtures, entry)


def _check_results(
    path: KeyPath, fixtures: Mapping[str, Any], entry: Mapping[str, Any]
) -> Iterator[Problem]:
    if "file" not in fixtures:
        yield Problem(
            code="AOTC-E804",
            path=path,
            expected="the recorded inputs that these are the results of",
            found="results without file",
            hint='add file = "inputs.npz"',
        )
    policies = {
        dimension: policy
        for dimension, raw in table(entry.get("out_of_profile")).items()
        if (policy := table(raw).get("policy", raw)) in ("pad", "split", "compile")
    }
    for dimension, policy in [*policies.items()][:1]:
        yield Problem(
            code="AOTC-E807",
            path=path,
            expected=f"the policy fail for {dimension}: others are tried in plain JAX",
            found=f"recorded results beside the policy {policy}",
            hint="leave the policy at fail, or remove the results",
        )


def _check_range(
    path: KeyPath, bounds: object, inputs: Mapping[str, InputTree | None]
) -> Iterator[Problem]:
    leaf = str(path[-1])
    leaves = {
        at: found
        for parameter, tree in inputs.items()
        if tree is not None
        for at, found in leaf_paths(tree, parameter)
        if isinstance(found, InputLeaf)
    }
    parameter = leaf.split("/")[0]
    is_broken = parameter in inputs and inputs[parameter] is None
    if leaf not in leaves and not is_broken:
        hint = "name an array; the values of a `like` input come from its function"
        yield unknown_reference(path, "input array", leaf, leaves, hint)
    numbers = [bound for bound in _array(bounds) if _is_number(bound)]
    if len(numbers) == 2 and numbers[0] > numbers[1]:
        yield _reversed(path, "[lowest, highest]", *numbers)
    dtype = leaves[leaf].dtype if leaf in leaves else None
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
        for index, bound in enumerate(_array(bounds)):
            if isinstance(bound, float):
                yield Problem(
                    code="AOTC-E805",
                    path=(*path, index),
                    expected=f"an integer, since {leaf} is {dtype}",
                    found=spell(bound),
                    hint="write it without a fraction",
                )


def check_use(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Every declared dimension and weights set serves some entry point.

    Nothing is said where a name that nobody declared, or an entry point that is no table, may be
    what was meant to use it: that has a problem of its own. So has a key that entry points do not
    have, such as a misspelt `bind`.
    """
    entries = dict(tables(data.get("entry_points")))
    if not entries or len(entries) != len(table(data.get("entry_points"))):
        return
    if any(entry.keys() - EntryPointModel.model_fields for entry in entries.values()):
        return
    used: set[str] = set()
    for name, entry in entries.items():
        for parameter, raw in table(entry.get("inputs")).items():
            tree = inputs.get(name, {}).get(parameter)
            used |= _strings(raw) if tree is None else dimensions_of(tree)
    bound = {
        owner
        for entry in entries.values()
        for owner in table(entry.get("bind")).values()
        if isinstance(owner, str)
    }
    for kind, names, user in (
        ("dimensions", used, "the shape of an input"),
        ("weights", bound, "the bind table of an entry point"),
    ):
        known = declared(data, kind) or ()
        for name in known if names.issubset(known) else ():
            if name not in names:
                yield Problem(
                    code="AOTC-E809",
                    path=(kind, name),
                    expected=f"a name that {user} uses",
                    found=f"{name} is never used",
                    hint="use it, or remove it",
                )


def _strings(value: object) -> set[str]:
    """Every string in an input that cannot be read: a dimension named there counts as used."""
    if isinstance(value, str):
        return {value}
    children = table(value).values() or _array(value)
    return {text for child in children for text in _strings(child)}


def _reversed(path: KeyPath, expected: str, low: Any, high: Any) -> Problem:
    found = f"[{spell(low)}, {spell(high)}]"
    return Problem("AOTC-E805", path, expected, found, "swap the two")


CHECKS: tuple[Check, ...] = (
    check_targets,
    check_origins,
    check_dimensions,
    check_targets_profiles,
    check_entry_points,
    check_policies,
    check_shardings,
    check_mesh_policies,
    check_bindings,
    check_parameters,
    check_donations,
    check_fixtures,
    check_use,
)


def check(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Every problem that all the checks find."""
    return (problem for one in CHECKS for problem in one(data, inputs))
