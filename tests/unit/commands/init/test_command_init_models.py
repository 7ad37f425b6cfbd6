"""`aotc init` on models of flax.linen and Keras, which need a function with named arguments.

The two packages here have of the real ones what is looked at, under the same names.
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from aotc.commands.init import generated_wrappers

Run = Callable[..., Any]

LINEN = """
import copy


class Module:
    scope = None

    def apply(self, variables, *args, rngs=None, method=None, mutable=False, **kwargs):
        bound = copy.copy(self)
        bound.scope = variables
        return bound(*args, **kwargs)
"""

KERAS = """
import jax.numpy as jnp
import numpy as np


class Variable:
    def __init__(self, value):
        self.value = jnp.asarray(value)


class KerasTensor:
    def __init__(self, shape, dtype="float32", name="keras_tensor"):
        self.shape, self.dtype, self.name = shape, dtype, name


class Layer:
    built = True

    def __call__(self, *args, **kwargs):
        return self.stateless_call(
            [v.value for v in self.trainable_variables],
            [v.value for v in self.non_trainable_variables],
            *args,
            **kwargs,
        )[0]


class Model(Layer):
    def __init__(self, input, trainable, non_trainable, call):
        self.input, self.call = input, call
        self.trainable_variables = [Variable(value) for value in trainable]
        self.non_trainable_variables = [Variable(value) for value in non_trainable]

    def stateless_call(self, trainable, non_trainable, inputs, training=None):
        assert training is not True
        return self.call(trainable, non_trainable, inputs), non_trainable

    def predict(self, x, batch_size=None):
        return np.concatenate([np.asarray(self(row[None])) for row in x])

    def fit(self, x):
        raise ValueError("not compiled")
"""

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from flax.linen.module import Module
from keras.src.models import KerasTensor, Layer, Model


class Net(Module):
    def __call__(self, x, mask=None, *more, train: bool = False, scale: float = 2.0):
        assert not train
        return jnp.tanh(x @ self.scope["w"]) * scale


class NamedOnly(Module):
    def __call__(self, *, x):
        return x @ self.scope["w"]


class Silent(Module):
    pass


net, named, silent = Net(), NamedOnly(), Silent()
jitted = jax.jit(net.apply)
bound = net.apply


def init():
    return {"w": jnp.ones((64, 10))}


model = Model(
    KerasTensor((None, 64)), [np.ones((64, 10), np.float32)], [np.ones(10, np.float32)],
    lambda trainable, rest, x: x @ trainable[0] + rest[0],
)
plain = Model(KerasTensor((None, 3, None)), [np.float32(2)], [], lambda t, _, x: x * t[0])
several = Model(
    {"left": KerasTensor((None, 4)), "right": [KerasTensor((None, 4), "int32", name="a/b")]},
    [np.float32(1)], [], lambda t, _, x: x["left"] * t[0] + x["right"][0],
)
listed = Model(
    [KerasTensor((None, 4), name="a"), KerasTensor((None, 4), name="b")],
    [], [], lambda t, _, x: x[0] + x[1],
)
keyed = Model(
    {"left": KerasTensor((None, 4)), "right": KerasTensor((None, 4))},
    [np.float32(1)], [], lambda t, _, x: x["left"] * t[0] + x["right"],
)
unbuilt = Layer()
unbuilt.built = False
looped = model.predict


def classify(x):
    return model.predict(x)
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both packages are installed."""
    folder = tmp_path_factory.mktemp("installed")
    for place, source in {"flax/linen/module.py": LINEN, "keras/src/models.py": KERAS}.items():
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_text(source)
    return folder


@pytest.fixture(scope="module")
def classifier(libraries: Path) -> Iterator[ModuleType]:
    """The program, imported into this process."""
    module, before = ModuleType("classifier"), set(sys.modules)
    sys.path.insert(0, str(libraries))
    exec(PROGRAM, vars(module))
    sys.path.remove(str(libraries))
    yield module
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("flax", "keras"):
            del sys.modules[name]


LINEN_CALLS = {
    "net.apply": "net.apply(variables, x, mask=mask, train=train, scale=scale)",
    "net": "net.apply(variables, x, mask=mask, train=train, scale=scale)",
    "bound": "bound(variables, x, mask=mask, train=train, scale=scale)",
    "jitted": "jitted(variables, x)",
    "named.apply": "named.apply(variables, x=x)",
}


@pytest.mark.parametrize(("name", "call"), LINEN_CALLS.items())
def test_a_module_of_linen_gets_a_function_that_names_its_arguments(
    classifier: ModuleType, name: str, call: str
) -> None:
    found = generated_wrappers.around(f"classifier:{name}", attrgetter(name)(classifier))
    assert found is not None
    assert found.source.endswith(f":\n    return program.{call}\n")
    assert (found.weights, found.returned) == (("variables",), ())
    result = called(found, classifier, {"variables": classifier.init(), "x": np.ones((2, 64))})
    assert result.shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "inputs", "arguments"),
    [
        ("model", "x", {"x": "batch 64"}),
        ("model.predict", "x", {"x": "batch 64"}),
        ("model.__call__", "x", {"x": "batch 64"}),
        ("plain", "x", {"x": "batch 3 size2"}),
        ("listed", "[a, b]", {"a": "batch 4", "b": "batch 4"}),
        ("keyed", "{'left': left, 'right': right}", {"left": "batch 4", "right": "batch 4"}),
        ("several", "{'left': x0, 'right': [x1]}", {"x0": "batch 4", "x1": "batch 4"}),
    ],
)
def test_a_model_of_keras_gets_a_function_of_its_weights_and_inputs(
    classifier: ModuleType, name: str, inputs: str, arguments: dict[str, str]
) -> None:
    found = generated_wrappers.around(f"classifier:{name}", attrgetter(name)(classifier))
    assert found is not None
    assert f", {inputs}, training=False)\n" in found.source
    said = {p.name: p.annotation for p in found.signature.parameters.values()}
    assert {n: shaped.dim_str for n, shaped in said.items() if n not in found.weights} == arguments
    owner = attrgetter(name.partition(".")[0])(classifier)
    kinds = {kind: getattr(owner, f"{kind}_variables") for kind in found.weights}
    weights = {kind: [variable.value for variable in held] for kind, held in kinds.items()}
    values = {
        each: np.ones([int(axis) if axis.isdigit() else 2 for axis in axes.split()], np.float32)
        for each, axes in arguments.items()
    }
    assert called(found, classifier, {**weights, **values}).shape[0] == 2


def called(
    wrapper: generated_wrappers.Wrapper, program: ModuleType, arguments: dict[str, Any]
) -> Any:
    """What the function of a wrapper returns."""
    names: dict[str, Any] = {}
    exec(wrapper.source.replace("import classifier as program", ""), {"program": program}, names)
    return names[generated_wrappers.FUNCTION](**arguments)


@pytest.mark.parametrize(
    "name", ["init", "silent", "silent.apply", "unbuilt", "model.fit", "looped"]
)
def test_nothing_else_gets_one(classifier: ModuleType, name: str) -> None:
    assert generated_wrappers.around(f"classifier:{name}", attrgetter(name)(classifier)) is None


@pytest.fixture
def init(aotc: Run, libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    (tmp_path / "classifier.py").write_text(PROGRAM)
    return lambda name, *options: aotc("init", f"classifier:{name}", *options)


PAGE = (Path(__file__).parents[4] / "docs" / "commands.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "bind"), [("net.apply", ["variables"]), ("model", ["trainable", "non_trainable"])]
)
def test_with_it_the_manifest_traces_and_the_page_shows_both(
    init: Run, tmp_path: Path, name: str, bind: list[str]
) -> None:
    (line,) = [
        each for each in PAGE.splitlines() if each.startswith(f"aotc init classifier:{name}")
    ]
    done = init(*shlex.split(line.removeprefix("aotc init classifier:")))
    assert done.exit_code == 0, done.stderr
    assert "predict traces at 3 profiles" in done.stdout
    assert "classifier_entry.py is new" in done.stderr
    manifest = tomllib.loads((tmp_path / "classifier.toml").read_text("utf-8"))
    predict = manifest["entry_points"]["predict"]
    assert predict["function"] == "classifier_entry:predict"
    assert list(predict["bind"]) == bind
    assert predict["inputs"] == {"x": {"shape": ["batch", 64], "dtype": "float32"}}
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert (tmp_path / "classifier_entry.py").read_text() in shown


def test_what_a_module_of_linen_needs_is_asked_for_by_name(init: Run, tmp_path: Path) -> None:
    done = init("net.apply")
    assert (done.exit_code, done.codes) == (2, ["AOTC-E081", "AOTC-E081"])
    assert "--weights variables=package.module:function" in done.stderr
    assert "--input 'x=float32[batch,64]'" in done.stderr
    assert not list(tmp_path.glob("*.toml")) and not list(tmp_path.glob("*_entry.py"))


def test_what_options_say_of_a_model_counts_more_than_what_it_says(
    init: Run, tmp_path: Path
) -> None:
    done = init("model", "--input=x=float32[rows,64]", "--weights=trainable=classifier:other")
    assert done.codes == ["AOTC-E820"], "there is no such function"
    assert 'x = { shape = ["rows", 64]' in (tmp_path / "classifier.toml").read_text()
    assert "classifier.toml and classifier_entry.py" in done.stderr


@pytest.mark.parametrize(
    ("name", "place"), [("looped", "keras/src/"), ("classify", "classifier.py:")]
)
def test_where_keras_computes_with_numpy_its_own_function_for_that_is_named(
    init: Run, name: str, place: str
) -> None:
    done = init(name, "--input=x=float32[4,64]")
    assert done.codes == ["AOTC-E826"]
    assert f"at {place}" in done.stderr
    assert "stateless_call" in done.stderr and "use jnp" not in done.stderr


def test_neither_file_is_written_over_another(init: Run, tmp_path: Path) -> None:
    (tmp_path / "classifier_entry.py").write_text("mine")
    done = init("model")
    assert (done.exit_code, done.codes) == (2, ["AOTC-E084"])
    assert not (tmp_path / "classifier.toml").exists()
    assert (tmp_path / "classifier_entry.py").read_text() == "mine"
    done = init("model", "--name=2nd-model", "--json")
    assert done.exit_code == 0
    written = (tmp_path / "_2nd_model_entry.py").read_text()
    assert done.document["modules"] == {"_2nd_model_entry.py": written}
