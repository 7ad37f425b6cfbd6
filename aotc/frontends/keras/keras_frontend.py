"""Reads `.keras` files: archive, configuration, weights; then Keras makes the model of them."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from aotc.base.errors import finding, raise_if, refusal
from aotc.capture import jax_private
from aotc.capture.model_files.frontend_protocol import Array, Model, ModelFile, ModelInput
from aotc.capture.model_files.model_archive import (
    Archive,
    Damaged,
    damaged_file,
    json_text,
    read_archive,
)
from aotc.frontends.integer_bounds import exceeding
from aotc.frontends.keras import keras_loading
from aotc_runtime.base.errors import AotcError, Finding

BATCH = "batch"
"""The name of the first axis of inputs, where its size varies."""

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
"""The members of a file; Keras has a fourth one for vocabularies, which are refused."""

_NARROWED = "Explicitly requested dtype int64"
"""The start of jax's warning that it computes with int32 instead."""

_WIDE = frozenset({"int64", "uint64", "float64", "complex128"})


class KerasFrontend:
    """Models of Keras's own layers and operations, saved by Keras 3 on any backend."""

    def read(self, file: ModelFile) -> Model:
        """Read a model; see `aotc.capture.model_files.frontend_protocol.Frontend`.

        No code in a file is run, and no pickle opened.

        Raises:
            ImportError: Keras is not installed.
        """
        _require_jax(file)
        # Importing it makes Keras choose what it computes with.
        from aotc.frontends.keras import keras_config as config

        if file.signature is not None:
            cause = "signature-is-not-supported"
            raise refusal("AOTC-E845", file.text, file.signature, cause=cause)
        try:
            archive = read_archive(file.data)
            if others := sorted({*archive.members} - {CONFIG, METADATA, WEIGHTS}):
                named = ascii(others[0])[:200]
                raise Damaged(f"{CONFIG}, {METADATA} and {WEIGHTS} alone", f"{named} beside them")
            version = _version(archive.read(METADATA))
            read = config.read(archive.read(CONFIG))
            raise_if(config.Checking(file.text, file.enable_x64).findings(read))
            keras_loading.check_weights(bytes(archive.read(WEIGHTS)))
            return _model(file, *_load(file, archive, read), _keys(read), version)
        except Damaged as error:
            raise damaged_file(file.text, error) from error


def _require_jax(file: ModelFile) -> None:
    backend = keras_loading.import_keras().backend.backend()
    if backend != "jax":
        cause = "keras-uses-another-backend"
        raise refusal("AOTC-E843", file.text, backend, cause=cause, expected="jax")


def _version(data: memoryview) -> str:
    """Return the version of the Keras that wrote the file."""
    try:
        found = json.loads(json_text(data, METADATA))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{METADATA} as Keras 3 writes it", type(error).__name__) from error
    version = found.get("keras_version") if isinstance(found, dict) else None
    if not isinstance(version, str) or not version.isprintable():
        raise Damaged("the version of Keras that wrote the file", ascii(version)[:100])
    return version[:100]


def _load(file: ModelFile, archive: Archive, config: Mapping[str, Any]) -> tuple[Any, Any]:
    import keras

    try:
        return keras_loading.load(config, bytes(archive.read(WEIGHTS)))
    except ImportError as error:
        found = f"{type(error).__name__}: {error}"[:300]
        raise refusal("AOTC-E844", file.text, found, expected="layers that need jax") from error
    except Exception as error:
        # Keras promises nothing of what it raises for a configuration that it cannot follow.
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        found = f"{type(error).__name__}: {first!a}"[:300]
        raise Damaged(f"a model that Keras {keras.__version__} reads", found) from error


def _model(file: ModelFile, model: Any, scope: Any, keys: list[str], version: str) -> Model:
    import keras

    if not model.built or not getattr(model, "inputs", None):
        hint = "call the model once, or give it a keras.Input, before it is saved"
        raise refusal("AOTC-E844", file.text, "a model without inputs", hint=hint)
    names = {id(each): name for name, each in _named_variables(model.variables)}
    values = {id(each): _value(each, scope) for each in model.variables}
    inputs = tuple(_inputs(model, keys, file))
    raise_if([*_unread(model, names, values, file), *_wide(model, names, inputs, file)])
    states = {id(each) for each in model.variables if _is_seed(each)}
    return Model(
        function=_function(file.text, model, keys, names, values, states),
        inputs=inputs,
        weights={
            name: array
            for each, name in names.items()
            if each not in states and (array := values[each]) is not None
        },
        ranges={BATCH: (None, None)} if any(BATCH in each.shape for each in inputs) else {},
        producer={
            "framework": "Keras",
            "keras": version,
            "converter": f"Keras {keras.__version__} on jax",
        },
        narrowed=()
        if file.enable_x64
        else tuple(each.name for each in inputs if each.dtype == np.int64),
        layers=dict.fromkeys(keras_loading.layer_names(model), ()),
        exceeding=exceeding,
    )


def _named_variables(variables: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield variables by their paths; models in a model may have layers of the same name."""
    seen: set[str] = set()
    for each in variables:
        name, number = each.path, 1
        while name in seen:
            number += 1
            name = f"{each.path}:{number}"
        seen.add(name)
        yield name, each


def _value(variable: Any, scope: Any) -> Array | None:
    """Return a variable's value in the file, if any; random states must not matter."""
    if _is_seed(variable):
        return np.zeros(variable.shape, variable.dtype)
    found = scope.get_current_value(variable)
    return None if found is None else np.asarray(found)


def _is_seed(variable: Any) -> bool:
    return bool(variable.dtype == "uint32") and variable.name.endswith("seed_generator_state")


def _unread(
    model: Any, names: Mapping[int, str], values: Mapping[int, Array | None], file: ModelFile
) -> Iterator[Finding]:
    missing = [names[id(each)] for each in model.variables if values[id(each)] is None]
    if missing:
        found = f"none for {', '.join(map(ascii, missing[:5]))}{', …' if missing[5:] else ''}"
        yield finding("AOTC-E843", file.text, found[:500], expected="values of all variables")


def _wide(
    model: Any, names: Mapping[int, str], inputs: tuple[ModelInput, ...], file: ModelFile
) -> Iterator[Finding]:
    if file.enable_x64:
        return
    wide = [f"{names[id(v)]!a} is {v.dtype}" for v in model.variables if v.dtype in _WIDE]
    wide += [
        f"the input {each.name!a} is {each.dtype}"
        for each in inputs
        if each.dtype.name in _WIDE - {"int64"}
    ]
    for each in wide:
        hint = "set `enable_x64 = true`, or save the model with 32 bits"
        cause = "model-uses-64-bit-types"
        yield finding("AOTC-E844", file.text, each, cause=cause, hint=hint)


def _inputs(model: Any, keys: list[str], file: ModelFile) -> Iterator[ModelInput]:
    """Yield inputs by a dict's keys, or by the names of their layers."""
    for name, tensor in zip(
        keys or [each.name for each in model.inputs], model.inputs, strict=True
    ):
        if tensor.sparse or getattr(tensor, "ragged", False) or tensor.dtype == "string":
            found = f"the input {name!a} is of strings, sparse or ragged"[:300]
            raise refusal("AOTC-E844", file.text, found, cause="unsupported-type-in-the-model")
        shape: list[int | str | None] = list(tensor.shape)
        if shape and shape[0] is None:
            shape[0] = BATCH
        yield ModelInput(name, np.dtype(_dtype(tensor.dtype)), tuple(shape))


def _keys(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of a model's dict of arrays, in order of its inputs; empty without one."""
    layers = config["config"].get("input_layers")
    if not isinstance(layers, dict) or len({*map(str, layers)}) < len(layers):
        return []
    return sorted(layers) if all(isinstance(each, list) for each in layers.values()) else []


def _dtype(name: str) -> Any:
    import jax.numpy as jnp

    return jnp.bfloat16 if name == "bfloat16" else name


def _function(
    where: str,
    model: Any,
    keys: list[str],
    names: Mapping[int, str],
    values: Mapping[int, Array | None],
    states: set[int],
) -> Callable[..., Any]:
    """Return the model's call as inference has it, of weights by name and inputs in their order."""
    import jax
    import keras

    def called(given: list[tuple[Any, Any]], arrays: tuple[Any, ...]) -> tuple[Any, list[str]]:
        """Return the results, and the names of changed variables other than seeds."""
        scope = keras.StatelessScope(given, initialize_variables=False)
        before = {id(each): scope.get_current_value(each) for each, _ in given}
        with scope, warnings.catch_warnings():
            # The model states int64 for inputs that are int32 here, as `Model.narrowed` says.
            warnings.filterwarnings("ignore", message=_NARROWED)
            results = model(_as_taken(arrays, keys), training=False)
        return results, [
            names[id(each)]
            for each, _ in given
            if scope.get_current_value(each) is not before[id(each)] and id(each) not in states
        ]

    def function(weights: Mapping[str, Any], *arrays: Any) -> Any:
        bound = [
            (each, weights[names[id(each)]]) for each in model.variables if id(each) not in states
        ]
        seeds = [each for each in model.variables if id(each) in states]

        def seeded(*drawn: Any) -> Any:
            results, changed = called([*bound, *zip(seeds, drawn, strict=True)], arrays)
            found = ", ".join(map(ascii, changed[:5]))
            if changed:
                hint = "pass states as inputs and return them as results: stateful=False"
                raise _changing(where, f"{found} changes in a call"[:500], hint)
            return results

        drawn = [np.asarray(values[id(each)]) for each in seeds]
        if seeds and _depends(jax.make_jaxpr(seeded)(*drawn).jaxpr):
            raise _changing(where, "results that are random", "leave the random layers out")
        return seeded(*drawn)

    def computed(weights: Mapping[str, Any], *arrays: Any) -> Any:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(weights, *arrays)
        given = jax.tree.leaves((weights, arrays))
        results = jax_private.evaluate(_through_integers(traced.jaxpr), traced.consts, given)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return computed


def _through_integers(jaxpr: Any) -> Any:
    """Convert booleans to floats by way of integers.

    XLA selects where a program multiplies by booleans: false times NaN is 0, which is NaN where
    Keras computes on TensorFlow.
    """
    import jax.numpy as jnp
    from jax.core import ShapedArray
    from jax.extend.core import Var

    equations = []
    for equation in jaxpr.eqns:
        made = equation.replace(params={k: _inner(v) for k, v in equation.params.items()})
        new = equation.params.get("new_dtype")
        of_mask = equation.primitive.name == "convert_element_type" and jnp.issubdtype(
            new, jnp.inexact
        )
        if of_mask and equation.invars[0].aval.dtype == bool:
            whole = Var(ShapedArray(equation.invars[0].aval.shape, np.dtype(np.uint8)))
            params = {**made.params, "new_dtype": np.dtype(np.uint8)}
            equations.append(made.replace(outvars=[whole], params=params))
            made = made.replace(invars=[whole])
        equations.append(made)
    return jaxpr.replace(eqns=equations)


def _inner(value: Any) -> Any:
    """Convert in the programs among an equation's parameters, too."""
    from jax.extend.core import ClosedJaxpr, Jaxpr

    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=_through_integers(value.jaxpr))
    if isinstance(value, Jaxpr):
        return _through_integers(value)
    return tuple(map(_inner, value)) if type(value) is tuple else value


def _changing(where: str, found: str, hint: str) -> AotcError:
    expected = "a model whose calls change nothing, and draw no random numbers"
    return refusal("AOTC-E844", where, found, expected=expected, hint=hint)


def _depends(jaxpr: Any) -> bool:
    """Return whether a result depends on an argument.

    Recurrent layers generate masks that they use only in training.
    """
    reached = {id(each) for each in jaxpr.invars}
    for equation in jaxpr.eqns:
        if any(id(each) in reached for each in equation.invars):
            reached |= {id(each) for each in equation.outvars}
    return any(id(each) in reached for each in jaxpr.outvars)


def _as_taken(arrays: tuple[Any, ...], keys: list[str]) -> Any:
    """Return inputs as the model takes them: a dict, an array or a list."""
    if keys:
        return dict(zip(keys, arrays, strict=True))
    return arrays[0] if len(arrays) == 1 else list(arrays)
