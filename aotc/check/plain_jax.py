"""Plain JAX as its users call it: the function, under `jax.jit`, on real structures.

As the reference of all checks it shares no code with what it checks: neither the capture's reading
of signatures and structures (which no module beside it may import), nor the loader's. jax alone
flattens and builds structures, and leaves have the paths that jax gives them. Where a precision
rounds activations, only the search for the products is that of the compiler.
"""

import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc.base.errors import finding
from aotc.check import rounding_steps
from aotc.check.plain_structures import Array, Node, Nothing, Passed, Spelled, leaf_of
from aotc.compile.mlir.mlir_context import operations_named
from aotc.compile.precision.bfloat16_products import round_factors
from aotc.compile.xla.ynn_fusions import has_wrong_fusion
from aotc.config.build_manifest import EntryPointSpec, InputLeaf, InputLike, with_leaves
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.xla.xla_features import PRODUCTS_ALONE
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import KeyImpl

PIECE_BYTES = 2**20
"""Bytes of two large arrays that are compared at a time."""

type Functions = Callable[[str], Callable[..., Any]]
"""Maps "package.module:function" to the function."""


def path_of(*steps: Any, owner: str = "") -> str:
    """Return jax's path of a leaf, joined by "/", below the name of its tree."""
    inner = jax.tree_util.keystr(steps, simple=True, separator="/")
    return "/".join(part for part in (owner, inner) if part)


def weights_as_made(
    init: str | None, source: bool, recorded: Mapping[str, Array], functions: Functions
) -> Any:
    """Return a weights set as the program's users hold it, with the recorded numbers.

    `init` and `source` are as in the manifest. `recorded` has the bundle's tensors by path, which
    replace those that differ because the program makes other numbers each time.
    """
    if init is None:
        return _nest(recorded)
    if source:
        return jax.tree_util.tree_map_with_path(
            lambda steps, _: recorded[path_of(*steps) or "value"], jax.eval_shape(functions(init))
        )

    def kept(steps: Any, leaf: Any) -> Any:
        wanted = recorded[path_of(*steps) or "value"]
        return leaf if _same_bytes(np.asarray(leaf), wanted) else wanted

    return jax.tree_util.tree_map_with_path(kept, functions(init)())


def find_misrecorded(
    made: Any, recorded: Mapping[str, Array], where: str, replaced: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield AOTC-E959 for each array of a weights set that is not recorded as `init` returned it.

    `made` is what it returned; `recorded` is by path. Paths in `replaced` are not recorded.
    """
    leaves = jax.tree_util.tree_flatten_with_path(made)[0]
    paths = {path_of(*steps) or "value": np.asarray(leaf) for steps, leaf in leaves}
    for path in sorted((paths.keys() | recorded.keys()) - {*replaced}):
        one, other = paths.get(path), recorded.get(path)
        if one is None or other is None or not _same_bytes(one, other):
            found = "another array" if other is not None else "no array"
            yield finding("AOTC-E959", f"{where} {path}", found, cause="recorded-weights-differ")


def _same_bytes(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same bytes, whatever their shapes; compared in chunks."""
    first, second = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (one, other))
    return first.size == second.size and all(
        np.array_equal(first[start : start + PIECE_BYTES], second[start : start + PIECE_BYTES])
        for start in range(0, first.size, PIECE_BYTES)
    )


def _nest(tensors: Mapping[str, Array]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for name, tensor in tensors.items():
        node = root
        *folders, last = name.split("/")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[last] = tensor
    return root


@dataclass(frozen=True, slots=True)
class Result:
    """Results of a call: `arrays` by path, random keys as their data; `value` as returned."""

    arrays: dict[str, Array]
    value: Any


class Function:
    """One entry point's function at some sizes, compiled by an executor while others go on.

    `weights` are by set, as the program's users hold them. `check_lowered` is called with the
    lowered program before it is compiled, and raises if it may not run. `rounded` are weights, by
    set and name, whose matrix products round the other factor to 8 bits, with its static scale or
    None. Unless `wide` is None, all products of float32 but those with these weights round their
    factors to bfloat16. Raises the program's errors.
    """

    def __init__(
        self,
        spec: EntryPointSpec,
        functions: Functions,
        weights: Mapping[str, Any],
        sizes: Mapping[str, int],
        compiling: Executor,
        check_lowered: Callable[[Any], None] | None = None,
        rounded: Mapping[tuple[str, str], float | None] = MappingProxyType({}),
        wide: Collection[tuple[str, str]] | None = None,
    ) -> None:
        self._spec, self._sizes, self._rounded, self._wide = spec, sizes, rounded, wide
        self._is_changed = bool(rounded) or wide is not None
        function = functions(spec.function)
        self._signature = inspect.signature(function)
        self._weights = {name: weights[owner] for name, owner in spec.bind.items()}
        self._likes = {
            path: functions(leaf.function)(**leaf.arguments_at(sizes))
            for path, leaf in spec.leaves.items()
            if isinstance(leaf, InputLike)
        }

        def called(values: Mapping[str, Any]) -> Any:
            every = {**spec.static, **values}
            given = {name: every[name] for name in self._signature.parameters if name in every}
            bound = inspect.BoundArguments(self._signature, OrderedDict(given))
            return function(*bound.args, **bound.kwargs)

        self._called = called
        self._compiling, self._check_lowered = compiling, check_lowered
        self._compiled: Future[Any] | None = None
        self._otherwise: Any = None
        self._rounds = False

    def begin(self) -> Future[Any]:
        """Trace it, and have it compiled while others run; return what that is going to make."""
        if self._compiled is None:
            lowered = self._lower(self._called)
            self._rounds = bool(
                operations_named(lowered.compiler_ir("stablehlo"), rounding_steps.ROUNDING)
            )
            self._compiled = self._compiling.submit(compile_lowered, lowered)
        return self._compiled

    def _lower(self, function: Callable[[Mapping[str, Any]], Any]) -> Any:
        values = self._abstract()
        lowered = jax.jit(function, keep_unused=self._is_changed).lower(values)
        if self._check_lowered is not None:
            self._check_lowered(lowered)
        # The module that is going to be compiled; no other function has it.
        if self._rounded:
            places = {p: self._rounded[n] for p, n in self._places(values) if n in self._rounded}
            rounding_steps.round_activations(lowered.compiler_ir("stablehlo"), places)
        elif self._wide is not None:
            wide = [p for p, name in self._places(values) if name in self._wide]
            round_factors(lowered.compiler_ir("stablehlo"), wide)
        return lowered

    def allowance(self, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> float:
        """Return the step allowance of a call's results; 0 for a program without steps."""
        self.begin()
        if self._rounds and self._otherwise is None:
            # A function of its own, as jax gives a module that it knows again.
            lowered = self._lower(lambda values: self._called(values))
            self._rounds = rounding_steps.round_to_other_steps(lowered.compiler_ir("stablehlo"))
            self._otherwise = compile_lowered(lowered) if self._rounds else None
        if not self._rounds:
            return 0.0
        try:
            others = _by_path(self._otherwise({**self._weights, **self.arguments(inputs)}))
        except TypeError:  # a class that is another structure with avals, as in a call
            return 0.0
        return rounding_steps.step_allowance(results, others)

    def arguments(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Return the inputs as the program's users pass them; `inputs` are the numbers, by path."""

        def drawn(leaf: InputLeaf, path: str) -> Any:
            array = inputs[path]
            if isinstance(leaf.dtype, KeyImpl):
                return jax.random.wrap_key_data(array, impl=leaf.dtype.value)
            return array

        return self._inputs(drawn, inputs)

    def __call__(self, arguments: Mapping[str, Any]) -> Result:
        """Call the function with the result of `arguments`."""
        compiled, values = self.begin(), {**self._weights, **arguments}
        try:
            value = compiled.result()(values)
        except TypeError:
            if self._is_changed:
                raise
            # A class that flattens by the types of its leaves is another structure with avals.
            value = jax.jit(self._called)(values)
        return Result(_by_path(value), value)

    def flops(self) -> int:
        """Floating-point operations of a call, as XLA counts them; of a loop those of one turn."""
        counted = self.begin().result().cost_analysis() or {}
        return max(0, int(counted.get("flops", 0)))

    def rebuild_result(self, arrays: Mapping[str, Array]) -> Result:
        """Rebuild the result of a recorded call from its arrays by path."""
        structure = jax.eval_shape(self._called, self._abstract())

        def recorded(steps: Any, leaf: Any) -> Any:
            array = arrays[path_of(*steps)]
            if _is_key(leaf):
                return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
            return array

        value = jax.tree_util.tree_map_with_path(recorded, structure)
        return Result(dict(arrays), value)

    def _places(self, values: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield the parameters, each with the weight that it is: its set, "" if none, and name."""
        leaves = jax.tree_util.tree_flatten_with_path(values)[0]
        for place, ((parameter, *steps), _) in enumerate(leaves):
            owner = self._spec.bind.get(parameter.key)
            yield place, (owner or "", path_of(*steps) or "value")

    def _abstract(self) -> dict[str, Any]:
        return {**self._weights, **self._inputs(self._abstract_leaf)}

    def inputs_of(self, arguments: Mapping[str, Any]) -> tuple[Passed, ...]:
        """Return the inputs as a caller of the bundle passes them, without bound and fixed ones."""
        by_loader = self._spec.by_loader
        return tuple(
            Passed(
                name=name,
                value=spell(arguments[name]),
                by_position=parameter.kind is not parameter.KEYWORD_ONLY,
                by_name=parameter.kind is not parameter.POSITIONAL_ONLY,
            )
            for name, parameter in self._signature.parameters.items()
            if name in arguments and name not in by_loader
        )

    def _inputs(
        self,
        leaf_value: Callable[[InputLeaf, str], Any],
        recorded: Mapping[str, Array] | None = None,
    ) -> dict[str, Any]:
        def value(leaf: InputLeaf | InputLike, at: KeyPath) -> Any:
            path = "/".join(map(str, at))
            if isinstance(leaf, InputLeaf):
                return leaf_value(leaf, path)
            made = self._likes[path]
            return made if recorded is None else _with_numbers(made, path, recorded)

        return {name: with_leaves(tree, (name,), value) for name, tree in self._spec.inputs.items()}

    def _abstract_leaf(self, leaf: InputLeaf, _: str) -> Any:
        shape = tuple(self._sizes[axis] if isinstance(axis, str) else axis for axis in leaf.shape)
        if isinstance(leaf.dtype, KeyImpl):
            impl = leaf.dtype.value
            dtype = jax.eval_shape(lambda: jax.random.key(0, impl=impl)).dtype
            return jax.ShapeDtypeStruct(shape, dtype)
        return jax.ShapeDtypeStruct(shape, jnp.dtype(leaf.dtype.value))


def compile_lowered(lowered: Any) -> Any:
    """Compile a program as jax does, but without fusions that YNNPACK computes wrong."""
    compiled = lowered.compile()
    if has_wrong_fusion(compiled.as_text()):
        return lowered.compile(compiler_options=PRODUCTS_ALONE)
    return compiled


def _by_path(value: Any) -> dict[str, Array]:
    leaves = jax.tree_util.tree_flatten_with_path(value)[0]
    return {path_of(*steps): _data(leaf) for steps, leaf in leaves}


def _with_numbers(made: Any, owner: str, recorded: Mapping[str, Array]) -> Any:
    """Put recorded numbers into the result of a `like` function.

    Leaves that hold them stay, as arrays may be weakly typed; a Python number becomes another.
    """

    def replaced(steps: Any, leaf: Any) -> Any:
        array = recorded[path_of(*steps, owner=owner)]
        if _data(leaf).tobytes() == array.tobytes():
            return leaf
        if isinstance(leaf, (bool, int, float, complex)):
            return type(leaf)(array.item())
        if _is_key(leaf):
            return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
        return array

    return jax.tree_util.tree_map_with_path(replaced, made)


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def _data(leaf: Any) -> Array:
    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf, jax.typeof(leaf).dtype)


def spell(value: Any) -> Spelled:
    """Return a value as its users read it: items by key, attributes by name.

    A registered class has the children that jax gives, by every name they have.
    """
    if value is None:
        return Nothing()
    children = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda n: n is not value)[0]
    if len(children) == 1 and not children[0][0]:
        return leaf_of(_data(value), is_number=type(value) in (bool, int, float, complex))
    if type(value) in (list, tuple):
        kind = "list" if type(value) is list else "tuple"
        names = tuple((index,) for index in range(len(value)))
        return Node(kind, "", names, tuple(map(spell, value)))  # type: ignore[arg-type]
    if type(value) is dict and all(type(key) in (str, int) for key in value):
        return Node("dict", "", tuple((key,) for key in value), tuple(map(spell, value.values())))
    fields = [jax.tree_util.GetAttrKey(field) for field in getattr(value, "_fields", ())]
    named = hasattr(value, "_fields") and [steps[0] for steps, _ in children] == fields
    known = [_names_of(value, steps[0], child) for steps, child in children]
    items = tuple(
        spell(_read(value, names, child)) for names, (_, child) in zip(known, children, strict=True)
    )
    kind = "named tuple" if named else "class"
    return Node(kind, type(value).__name__, tuple(known), items)  # type: ignore[arg-type]


def _names_of(value: Any, key: Any, child: Any) -> tuple[str | int, ...]:
    """Return the names of a child: what it is registered under, and the attribute that holds it."""
    registered: Any = getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))
    names = [registered] if type(registered) in (str, int) else [str(registered)]
    if isinstance(key, jax.tree_util.FlattenedIndexKey):
        held: Any = getattr(value, "_fields", None) or getattr(value, "__dict__", ())
        names = [*(name for name in held if getattr(value, name, None) is child), *names]
    return tuple(dict.fromkeys((*names, *map(str, names))))


def _read(value: Any, names: tuple[str | int, ...], child: Any) -> Any:
    """Return a child as users reach it.

    It is the child itself where its class offers no way, or another view of the same arrays.
    """
    seen = child
    for name in names:
        if isinstance(value, Mapping) and name in value:
            seen = value[name]
            break
        if isinstance(name, str) and hasattr(value, name):
            seen = getattr(value, name)
            break
    arrays, wanted = jax.tree.leaves(seen), jax.tree.leaves(child)
    same = len(arrays) == len(wanted) and all(map(operator.is_, arrays, wanted))
    return seen if not same and all(hasattr(array, "shape") for array in arrays) else child
