"""The source of each parameter of a function: weights, an input or a fixed value.

The function is traced over one flat list of leaves: first the leaves of bound weights, then those
of inputs, each in the order of the function's parameters.
"""

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc.base.errors import finding, raise_if, refusal
from aotc.capture import import_program, jax_trees, random_keys
from aotc.capture.like_inputs import like_value, shapes
from aotc.capture.weight_sets import Weights
from aotc.config.build_manifest import BuildManifest, InputLeaf, InputLike, InputTree, with_leaves
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import KeyImpl, ParameterKind

_KINDS: dict[Any, ParameterKind] = {
    inspect.Parameter.POSITIONAL_ONLY: ParameterKind.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ParameterKind.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY: ParameterKind.KEYWORD_ONLY,
}


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A function with the source of each of its parameters.

    `kinds` has all parameters that are passed, in the function's order; `positional` those passed
    by position, as users do: jax.vmap and jax.grad treat keyword arguments differently. `bound`
    maps parameters to weights sets, `inputs` to input trees, `fixed` to `static` values, and
    `defaulted` to the text of the function's own default. `initial` has a model file's values of
    inputs, by leaf path.
    """

    name: str
    function: Callable[..., Any]
    kinds: Mapping[str, ParameterKind]
    positional: tuple[str, ...]
    bound: Mapping[str, str]
    inputs: Mapping[str, InputTree]
    fixed: Mapping[str, Any]
    defaulted: Mapping[str, str]
    initial: Mapping[str, np.ndarray[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FlatLeaf:
    """One leaf of a call.

    `owner` is its weights set or parameter, `path` the path in it, `aval` its shape and dtype.
    """

    owner: str
    path: str
    is_weight: bool
    donated: bool
    aval: jax.ShapeDtypeStruct

    @property
    def data(self) -> jax.ShapeDtypeStruct:
        """Shape and dtype as the module takes the leaf: of random keys, their data."""
        return random_keys.data_aval(self.aval)


@dataclass(frozen=True, slots=True)
class FlatCall:
    """A call at one shape profile.

    `trees` has the abstract value of each parameter, in leaf order. Parameters in `as_stored` get
    nested dicts of the names in a weights file, as no `init` has another structure. `stated` is the
    place of the inputs in the manifest.
    """

    plan: CallPlan
    stated: str
    trees: Mapping[str, Any]
    leaves: Sequence[FlatLeaf]
    as_stored: tuple[str, ...] = ()

    def __call__(self, *leaves: Any) -> Any:
        """Call the user's function with these leaves in place of the abstract ones.

        Leaves are as the module takes them; the function gets random keys in place of their data.
        """
        iterator = iter(leaves)
        values: dict[str, Any] = dict(self.plan.fixed)
        for parameter, abstract in self.trees.items():
            values[parameter] = jax.tree.map(
                lambda aval: random_keys.as_keys(next(iterator), aval), abstract
            )
        positional = [values.pop(name) for name in self.plan.positional]
        return self.plan.function(*positional, **values)

    def data(self, *leaves: Any) -> list[Any]:
        """Return the leaves of the result as the module gives them."""
        return [random_keys.data_of(leaf) for leaf in jax.tree.leaves(self(*leaves))]


def plan_call(
    name: str, manifest: BuildManifest, resolve: import_program.Resolve = import_program.resolve
) -> CallPlan:
    """Match the manifest's names with the function's parameters; `resolve` finds the function.

    Raises CaptureError (AOTC-E820) if the function cannot be found, E821 if the names do not match
    its signature, or only its **kwargs, which would hide a misspelt one.
    """
    spec = manifest.entry_points[name]
    at = ("entry_points", name)
    function = resolve(spec.function, manifest.root, manifest.where(*at, "function"))
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        where = manifest.where(*at, "function")
        raise refusal("AOTC-E821", where, str(error), cause="signature-is-not-readable") from error
    named = [p for p in parameters.values() if p.kind in _KINDS]
    tables = {"bind": spec.bind, "inputs": spec.inputs, "static": spec.static}
    passed = {parameter: table for table, given in tables.items() for parameter in given}
    raise_if(_mismatches(manifest, name, inspect.signature(function), passed))
    kinds = {p.name: _KINDS[p.kind] for p in named if p.name in passed}
    return CallPlan(
        name=name,
        function=function,
        kinds=kinds,
        positional=_positional(parameters.values(), kinds),
        bound={n: spec.bind[n] for n in kinds if n in spec.bind},
        inputs={n: spec.inputs[n] for n in kinds if n in spec.inputs},
        fixed={n: spec.static[n] for n in kinds if n in spec.static},
        defaulted={
            p.name: import_program.text_of(p.default) for p in named if p.name not in passed
        },
    )


def _mismatches(
    manifest: BuildManifest, name: str, signature: inspect.Signature, passed: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield AOTC-E821 for parameters without a value, and for values without a parameter.

    E806 is for ranges of such names. `passed` has the parameters that the manifest gives a value,
    each with the table that does.
    """
    at, spec = ("entry_points", name), manifest.entry_points[name]
    parameters = signature.parameters.values()
    named = {p.name: p for p in parameters if p.kind in _KINDS}
    lacking = [name for name in named if name not in passed]
    required = [each for each in lacking if named[each].default is inspect.Parameter.empty]
    for each in required:
        found = f"{each} of {spec.function}{signature}"
        hint = f"add `inputs.{each}`, `bind`, or `static` for it"
        yield finding("AOTC-E821", manifest.where(*at), found, hint=hint)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for extra in sorted(passed.keys() - named.keys()):
        wrap = f"add it to the signature, or wrap the function: `def f({extra}, ...)`"
        yield finding(
            "AOTC-E821",
            manifest.where(*at, passed[extra], extra),
            extra,
            cause="unknown-parameter",
            expected=f"a named parameter of {spec.function}{signature}",
            hint=did_you_mean(extra, lacking, wrap if takes_any else "") or None,
        )
    for path in spec.fixtures.ranges:
        parameter = path.split("/")[0]
        if parameter not in spec.inputs and parameter not in required:
            where, cause = manifest.where(*at, "fixtures", "ranges", path), "unknown-input-array"
            meant = did_you_mean(path, spec.inputs, "") or None
            expected = f"one of: {', '.join(spec.inputs)}"
            yield finding("AOTC-E806", where, path, cause=cause, expected=expected, hint=meant)


def _positional(parameters: Iterable[inspect.Parameter], passed: Container[str]) -> tuple[str, ...]:
    """Return the parameters to pass by position: those before the first that is not passed."""
    positional = takewhile(
        lambda each: each.kind is not inspect.Parameter.KEYWORD_ONLY and each.name in passed,
        parameters,
    )
    return tuple(each.name for each in positional)


def abstract_input(
    spec: InputTree, sizes: Mapping[str, int], manifest: BuildManifest, at: KeyPath
) -> Any:
    """Return the pytree of ShapeDtypeStruct that an input has at these sizes."""

    def abstract(leaf: InputLeaf | InputLike, at: KeyPath) -> Any:
        if isinstance(leaf, InputLike):
            return like_value(leaf, sizes, manifest, at, evaluate=shapes)
        concrete = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in leaf.shape)
        dtype = leaf.dtype
        is_key = isinstance(dtype, KeyImpl)
        return jax.ShapeDtypeStruct(
            concrete, random_keys.dtype_of(dtype) if is_key else jnp.dtype(dtype.value)
        )

    return with_leaves(spec, at, abstract)


def flat_call(
    plan: CallPlan,
    weights: Mapping[str, Weights],
    manifest: BuildManifest,
    sizes: Mapping[str, int],
) -> FlatCall:
    """Return the call at one shape profile: leaves of bound weights, then of inputs."""
    donate = manifest.entry_points[plan.name].donate
    trees: dict[str, Any] = {name: weights[owner].tree for name, owner in plan.bound.items()}
    leaves: list[FlatLeaf] = []
    for name, owner in plan.bound.items():
        for path, aval in jax_trees.leaf_paths(trees[name]):
            leaves.append(FlatLeaf(owner, path or "value", True, False, aval))
    for name, spec in plan.inputs.items():
        at = ("entry_points", plan.name, "inputs", name)
        trees[name] = abstract_input(spec, sizes, manifest, at)
        for path, aval in jax_trees.leaf_paths(trees[name]):
            leaves.append(FlatLeaf(name, path, False, name in donate, aval))
    as_stored = tuple(
        name
        for name, owner in plan.bound.items()
        if owner in manifest.weights and manifest.weights[owner].init is None
    )
    stated = manifest.where("entry_points", plan.name, "inputs")
    return FlatCall(plan, stated, trees, tuple(leaves), as_stored)
