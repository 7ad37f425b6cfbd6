"""Entry points whose program is a model in a file: the build manifest with what the file tells.

From here on they are ordinary functions of the weights, which are bound, and of each input.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import jax
import numpy as np
from msgspec import UNSET, UnsetType, structs

from aotc.base.errors import finding, raise_if, refusal, shorten
from aotc.base.evidence import ExpectedWithin, ModelOrigin
from aotc.capture import import_program, jax_private, jax_trees, line_coverage, trace_refusals
from aotc.capture.call_arguments import FlatCall
from aotc.capture.file_digests import read_source
from aotc.capture.model_files.custom_call_checks import require_known_calls
from aotc.capture.model_files.frontend_protocol import (
    NARROWER,
    AxisNames,
    Model,
    ModelFile,
    ModelInput,
)
from aotc.capture.model_files.frontend_registry import read_model, wider_hint
from aotc.capture.weight_sets import Weights, in_tree, load
from aotc.config.build_manifest import (
    BuildManifest,
    EntryPointSpec,
    InputDict,
    InputLeaf,
    InputLike,
    InputList,
    InputTree,
    SourceFile,
    WeightsSpec,
    all_leaves,
)
from aotc.config.manifest_relations import check_fixtures
from aotc.config.toml_document import Document
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import DType

WEIGHTS = "weights"
"""The parameter that the weights of a model are bound to."""

_NO_IDENTIFIER = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Opened:
    """A model file that was read.

    `files` maps it and those beside it, named as in the manifest, to digests. `orders` has, by
    name, the axes of weights that are stored in another order than the file's.
    """

    model: Model
    files: Mapping[str, str]
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a manifest, which is completed with their inputs and weights.

    `opened` is by entry point, `weights` by set; `refused` is why entry points were left out.
    """

    manifest: BuildManifest
    opened: Mapping[str, Opened] = field(default_factory=dict)
    weights: Mapping[str, Weights] = field(default_factory=dict)
    refused: tuple[Finding, ...] = ()

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield all files that were read, with their digests."""
        for each in self.opened.values():
            yield from each.files.items()

    def lines(self, name: str) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the source lines of an entry point's layers, by file and layer."""
        if name not in self.opened:
            return {}
        opened = self.opened[name]
        known = {layer: lines for layer, lines in opened.model.layers.items() if lines}
        return {next(iter(opened.files)): known} if known else {}

    def origin(self, name: str, jaxpr: Any) -> ModelOrigin | None:
        """Return the model that an entry point was made from; None for a function.

        `jaxpr` is that of its first profile.
        """
        if name not in self.opened:
            return None
        model, spec = self.opened[name].model, self.manifest.entry_points[name]
        expected: ExpectedWithin | UnsetType = UNSET
        if (file := spec.fixtures.expected) is not None:
            held = spec.expected_tolerance
            expected = ExpectedWithin(file.text, repr(held.rtol), repr(held.atol))
        producer = dict(sorted(model.producer.items()))
        narrowed = tuple(sorted(model.narrowed))
        orders = dict(sorted(self.opened[name].orders.items()))
        layers = line_coverage.layers(jaxpr, model.layers)
        return ModelOrigin(spec.function, producer, narrowed, orders, expected, layers)

    def initial(self, name: str) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return the inputs that have values in an entry point's model file, by path."""
        if name not in self.opened:
            return {}
        model = self.opened[name].model
        named = zip(paths_of(model), model.inputs, strict=True)
        return {path: each.initial for path, each in named if each.initial is not None}

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights of the models that share a set."""
        return {
            tensor: array
            for entry_point, each in self.opened.items()
            if self.manifest.entry_points[entry_point].bind.get(WEIGHTS) == name
            for tensor, array in each.model.weights.items()
        }

    def load(self, name: str) -> Weights:
        """Return a weights set, of a model or as `aotc.capture.weight_sets.load` has it."""
        return self.weights[name] if name in self.weights else load(name, self.manifest)

    def resolve(self, reference: str, root: Path, where: str) -> Callable[..., Any]:
        """Return the function or the model that a reference of the completed manifest names.

        Raises what `program.resolve` raises.
        """
        for name, each in self.opened.items():
            if self.manifest.entry_points[name].function == reference:
                return _callable(each.model, where, self.manifest.enable_x64)
        return import_program.resolve(reference, root, where)

    def overflows(self, name: str, call: FlatCall, inputs: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield AOTC-E844 for operations of an entry point whose integers 32 bits may not hold.

        `inputs` are their smallest and largest numbers, by path.
        """
        opened, where = self.opened[name], self.manifest.where("entry_points", name, "source")
        model, file = opened.model, next(iter(opened.files))
        known = zip(paths_of(model), model.inputs, strict=True)
        wide = {*model.narrowed, *(path for path, each in known if each.dtype in NARROWER)}
        wider = {narrow: wide for wide, narrow in NARROWER.items()}
        leaves, given = list[jax.ShapeDtypeStruct](), list[Any]()
        for leaf in call.leaves:
            path = leaf.path if leaf.is_weight else jax_trees.join(leaf.owner, leaf.path)
            dtype = wider[leaf.data.dtype] if path in wide else leaf.data.dtype
            leaves.append(jax.ShapeDtypeStruct(leaf.data.shape, dtype))
            given.append((model.weights if leaf.is_weight else inputs).get(path))
        with jax.enable_x64(True):
            jaxpr = jax.make_jaxpr(call.data)(*leaves)
        for chain, low, high in model.exceeding(jaxpr, given) if model.exceeding else ():
            scopes = next(filter(None, map(jax_private.scopes, chain)), ())
            lines = [line for scope in scopes for line in model.layers.get(scope, ())]
            place = ": ".join((file, *filter(None, scopes), *lines[:1]))
            name = chain[0].primitive.name if chain else "an input"
            found = f"{place}: {name} gives {low} to {high}"
            yield finding("AOTC-E844", where, found, cause="integer-exceeds-32-bits")

    @contextmanager
    def sizes_told(self, name: str) -> Iterator[None]:
        """Move an error about sizes (AOTC-E846) to the manifest's line, in its names of axes."""
        try:
            yield
        except AotcError as error:
            first = error.findings[0]
            if first.code != "AOTC-E846" or name not in self.opened:
                raise
            spec = self.manifest.entry_points[name]
            names = _axis_names(self.opened[name].model, all_leaves(spec.inputs))
            own = spec.profiles or len(spec.dimensions) != 1
            at = ("entry_points", name) if own else ("dimensions", *spec.dimensions)
            where, found = self.manifest.where(*at, "profiles"), f"{first.where}: {first.found}"
            expected = names.text(first.expected)
            told = structs.replace(first, where=where, found=found, expected=expected)
            raise type(error)(told) from error


def open_models(
    manifest: BuildManifest, scratch: Path | None = None, *, keeps_going: bool = False
) -> Models:
    """Read the model files of a manifest; `scratch` as in `ModelFile`.

    With `keeps_going`, entry points with rejected files are left out as long as there are others.

    Raises:
        CaptureError: AOTC-E843 to E845 for a file that its frontend rejects, E846 for inputs that
            are not the file's, E828 and E832 for dtypes of weights, E830 for names of weights that
            collide, E840 for a file that changes.
    """
    entry_points = dict(manifest.entry_points)
    opened: dict[str, Opened] = {}
    found: list[Finding] = []
    for name, spec in manifest.entry_points.items():
        if spec.source is None:
            continue
        try:
            where = manifest.where("entry_points", name, "source")
            opened[name] = open_file(
                spec.source, spec.signature, where, manifest.enable_x64, scratch
            )
            opened[name] = replace(opened[name], model=_named(opened[name].model, spec))
            model = opened[name].model
            entry_points[name] = _Completing(name, spec, model, manifest).complete(spec.source)
        except AotcError as error:
            found += error.findings
            del entry_points[name]
    if not (keeps_going and entry_points):
        raise_if(found)
    opened = {name: each for name, each in opened.items() if name in entry_points}
    manifest = replace(manifest, entry_points=entry_points)
    weights = _weights(opened, manifest)
    sets = {**manifest.weights, **{name: WeightsSpec() for name in weights}}
    return Models(replace(manifest, weights=sets), opened, weights, tuple(found))


def _named(model: Model, spec: EntryPointSpec) -> Model:
    """Return a model with the names of the manifest, where it has `past_0_1` for "past/0/1"."""
    nested = {e.name: e.name.replace("/", "_") for e in model.inputs if e.initial is None}
    if spec.inputs.keys().isdisjoint(flat for name, flat in nested.items() if flat != name):
        return model
    inputs = tuple(replace(each, name=nested.get(each.name, each.name)) for each in model.inputs)
    return replace(model, inputs=inputs)


def open_file(
    source: SourceFile,
    signature: str | None,
    where: str,
    enable_x64: bool,
    scratch: Path | None = None,
) -> Opened:
    """Read a model file; `where` is for messages, `scratch` as in `ModelFile`.

    Raises OSError, and CaptureError: AOTC-E840, AOTC-E843 to E845.
    """
    data, digest = read_source(source, where)
    files = {source.text: digest}
    folder = source.path.parent

    def beside(path: str) -> bytes:
        expected, cause = "a file in the directory of the model file", "model-file-is-not-readable"
        if "\0" in path or not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise refusal("AOTC-E843", where, repr(path), cause=cause, expected=expected)
        text = str(PurePath(source.text).parent / path)
        try:
            read, files[text] = read_source(SourceFile(text, folder / path), where)
        except OSError as error:
            found = f"{path!r}: {error.strerror or error}"
            raise refusal("AOTC-E843", where, found, cause=cause, expected=expected) from error
        return read

    file = ModelFile(source.text, data, signature, beside, enable_x64, scratch)
    try:
        return Opened(read_model(file, where), files)
    except AotcError as error:
        # A frontend gives the location in the file; the manifest's line comes first.
        placed = (
            each
            if each.where.startswith(where)
            else structs.replace(each, where=where, found=f"{each.where}: {each.found}")
            for each in error.findings
        )
        raise type(error)(*placed) from error
    except (RecursionError, MemoryError) as error:
        found = f"{source.text}: {type(error).__name__} while it was read"
        raise refusal("AOTC-E843", where, found) from error


def check_lowered(name: str, lowered: Any) -> None:
    """Reject invalid calls of a model file's function at certain sizes, before it is compiled.

    `name` is the entry point's; `lowered` a `jax.stages.Lowered`. Raises CaptureError (AOTC-E844).
    """
    try:
        module = jax_private.static_module(lowered)
    except jax_private.SizesError:
        return  # nor can it be compiled
    with module.context:
        require_known_calls(module, name, static=True)


class _Completing:
    """An entry point of a manifest, completed from its model file."""

    def __init__(
        self, name: str, spec: EntryPointSpec, model: Model, manifest: BuildManifest
    ) -> None:
        self.name, self.spec, self.model, self.manifest = name, spec, model, manifest
        self.at = ("entry_points", name, "inputs")
        self.known = {
            path: each
            for path, each in zip(paths_of(model), model.inputs, strict=True)
            if path.split("/")[0] not in spec.bind
        }

    def complete(self, source: SourceFile) -> EntryPointSpec:
        """Raises CaptureError (AOTC-E846)."""
        paths, spec = paths_of(self.model), self.spec
        self.file = source.text
        if len({*paths}) < len(paths) or WEIGHTS in {path.split("/")[0] for path in paths}:
            names = ", ".join(each.name for each in self.model.inputs)
            expected = f"inputs that have names of their own in Python, none of them {WEIGHTS}"
            where = self.manifest.where(*self.at[:2], "source")
            raise refusal("AOTC-E846", where, names, expected=expected)
        states = self._states()
        own = {name: tree for name, tree in spec.inputs.items() if name not in states}
        trees = {**(own or self._fixed_inputs()), **states, **spec.inputs}
        # What their functions return is compared with the file when the model is called.
        likes = {name for name, tree in trees.items() if isinstance(tree, InputLike)}
        leaves = all_leaves({name: tree for name, tree in trees.items() if name not in likes})
        known = {path: each for path, each in self.known.items() if path.split("/")[0] not in likes}
        unknown = {*spec.bind, *likes} - {path.split("/")[0] for path in paths}
        self.names = _axis_names(self.model, leaves)
        problems = [*self._excluded_sizes()]
        raise_if(self._misnamed_inputs({*leaves} - {*known} | unknown, {*known} - {*leaves}))
        dtypes: dict[str, DType] = {}
        for path, each in known.items():
            leaf, where = leaves[path], self.manifest.where(*self.at, *path.split("/"))
            why = "a function"
            if isinstance(leaf, InputLeaf):
                dtypes[path] = self._dtype(leaf, each, where, problems)
                why = self._misfit(leaf, each)
            if why:
                expected = f"{path} = {self._example(path, each)}, to fit the file"
                problems.append(finding("AOTC-E846", where, why, expected=expected))
        problems += self._undonated_state({path.split("/")[0] for path in leaves} | likes)
        raise_if(problems)
        bound = {WEIGHTS: spec.weights or self.name} if self.model.weights else {}
        completed = replace(
            spec,
            function=source.text if spec.signature is None else f"{source.text}#{spec.signature}",
            source=None,
            signature=None,
            weights=None,
            inputs={name: _with_dtypes(tree, name, dtypes) for name, tree in trees.items()},
            bind={**bound, **spec.bind},
        )
        document = Document(self.manifest.path, b"", {}, self.manifest.lines)
        raise_if(document.findings(check_fixtures(self.manifest, completed, self.at[:2])))
        return completed

    def _misnamed_inputs(self, unknown: set[str], lacking: set[str]) -> Iterator[Finding]:
        """Yield findings for inputs that the file does not have, or else for those left out."""
        examples = {
            path: f"inputs.{path.replace('/', '.')} = {self._example(path, each)}"
            for path, each in self.known.items()
        }
        expected = f"the inputs {', '.join(paths_of(self.model))}"
        for path in sorted(unknown or lacking):
            table = "bind" if path in self.spec.bind else "inputs"
            where = self.manifest.where(*self.at[:2], table, *path.split("/"))
            hint = f"write {examples.get(path) or '; '.join(examples.values())}"
            hint = did_you_mean(path, lacking, hint) if unknown else hint
            found = path if unknown else ""
            yield finding("AOTC-E846", where, found, expected=expected, hint=hint)

    def _states(self) -> dict[str, InputTree]:
        """Return the inputs that have values in the file and are not in the manifest."""
        leaves: dict[str, dict[str, ModelInput]] = {}
        for path, each in self.known.items():
            parameter, *below = path.split("/")
            leaves.setdefault(parameter, {})["/".join(below)] = each
        return {
            parameter: InputDict(
                {
                    key: InputLeaf(each.initial.shape, DType(each.initial.dtype.name))
                    for key, each in items.items()
                    if each.initial is not None
                }
            )
            for parameter, items in leaves.items()
            if parameter not in self.spec.inputs
            and all(key and each.initial is not None for key, each in items.items())
        }

    def _undonated_state(self, parameters: Collection[str]) -> Iterator[Finding]:
        """Yield findings for state that is not donated, and for names that are no inputs.

        A model's state has to be donated: only the new value remains (AOTC-E844, E846).
        """
        where = self.manifest.where(*self.at[:2], "donate")
        for name in self.spec.donate:
            if name not in parameters:
                expected = f"inputs of the model: {', '.join(sorted(parameters))}"
                yield finding("AOTC-E846", where, name, expected=expected)
        changed: dict[str, list[str]] = {}
        for path, each in self.known.items():
            parameter = path.split("/")[0]
            if each.changes and parameter not in self.spec.donate:
                changed.setdefault(parameter, []).append(path.partition("/")[2] or path)
        if changed:
            names = [name for items in changed.values() for name in items]
            donated = ", ".join(f'"{name}"' for name in (*self.spec.donate, *changed))
            yield finding(
                "AOTC-E844",
                where,
                f"calls change {shorten(names, 3)}",
                cause="model-changes-its-state",
                expected=f"donate = [{donated}]",
                hint="donate them, or export the model so that it changes nothing (model.eval() in "
                "PyTorch)",
            )

    def _fixed_inputs(self) -> dict[str, InputTree]:
        """Return the inputs as the file has them, where it tells all their sizes."""
        trees: dict[str, InputTree] = {}
        for path, each in self.known.items():
            if each.initial is not None and "/" in path:
                continue
            axes = tuple(axis for axis in each.shape if isinstance(axis, int))
            if len(axes) < len(each.shape) or "/" in path:
                return {}
            trees[path] = InputLeaf(axes)
        return trees

    def _example(self, path: str, each: ModelInput) -> str:
        return _example(path, each, self.names, self.manifest.enable_x64)

    def _misfit(self, leaf: InputLeaf, each: ModelInput) -> str:
        """Return how an input of the manifest differs from the file's; "" if it does not."""
        stated = leaf.stated.value if leaf.stated is not None else each.dtype.name
        if stated not in (each.dtype.name, NARROWER.get(each.dtype, each.dtype).name):
            return f"dtype {stated}"
        if len(leaf.shape) != len(each.shape):
            return f"{len(leaf.shape)} axes"
        for number, (axis, wanted) in enumerate(zip(leaf.shape, each.shape, strict=True)):
            if wanted is not None and axis != self.names.renamed.get(str(wanted), wanted):
                return f"axis {number} is {axis}"
        return ""

    def _excluded_sizes(self) -> Iterator[Finding]:
        """Yield findings for sizes that the file does not take, at the line that states them."""
        for wanted, axis in self.names.renamed.items():
            known = self.manifest.dimensions.get(str(axis))
            at = self.at if known is None else ("dimensions", str(axis), "range")
            least = int(axis) if known is None else known.accepted.smallest
            most = int(axis) if known is None else known.accepted.largest
            low, high = self.model.ranges.get(wanted, (None, None))
            if least < (low or 0) or (high is not None and most > high):
                ends = f"{low or 0} to {'any' if high is None else high}"
                where, expected = self.manifest.where(*at), f"{ends}, which the model file accepts"
                hint, found = wider_hint(self.file, least, most), f"{least} to {most}"
                yield finding("AOTC-E846", where, found, expected=expected, hint=hint)

    def _dtype(
        self, leaf: InputLeaf, each: ModelInput, where: str, problems: list[Finding]
    ) -> DType:
        if isinstance(leaf.stated, DType):
            return leaf.stated
        if each.dtype in NARROWER and not self.manifest.enable_x64:
            narrow = NARROWER[each.dtype].name
            hint = f'state dtype = "{narrow}", or set enable_x64 = true at the top of the file'
            expected = "a dtype that jax keeps while 64-bit types are off"
            found = f"{each.dtype.name}, as the file has it"
            problems.append(finding("AOTC-E846", where, found, expected=expected, hint=hint))
        return DType(each.dtype.name)


def paths_of(model: Model) -> list[str]:
    """Return a model's inputs as leaf paths of valid parameter names: "input.1" is input_1."""

    def identifier(step: str) -> str:
        text = _NO_IDENTIFIER.sub("_", step)
        return text if text.isidentifier() else f"_{text}"

    named = [each.name.split("/") for each in model.inputs]
    return ["/".join((identifier(first), *below)) for first, *below in named]


def _with_dtypes(tree: InputTree, path: str, dtypes: Mapping[str, DType]) -> InputTree:
    """Return the tree of an input with the dtypes of its leaves, by path."""
    match tree:
        case InputLeaf(shape=shape):
            return InputLeaf(shape, dtypes[path])
        case InputDict(items=items):
            return InputDict({k: _with_dtypes(v, f"{path}/{k}", dtypes) for k, v in items.items()})
        case InputList(items=below):
            return InputList(
                tuple(_with_dtypes(v, f"{path}/{i}", dtypes) for i, v in enumerate(below))
            )
    return tree


def _axis_names(model: Model, leaves: Mapping[str, InputLeaf | InputLike]) -> AxisNames:
    """Return names of axes as the inputs of the manifest have them; the first one counts."""
    names = AxisNames(model)
    for path, each in zip(paths_of(model), model.inputs, strict=True):
        if isinstance(leaf := leaves.get(path), InputLeaf):
            for axis, wanted in zip(leaf.shape, each.shape, strict=False):
                if isinstance(wanted, str):
                    names.renamed.setdefault(wanted, axis)
    return names


def _example(path: str, each: ModelInput, names: AxisNames, enable_x64: bool) -> str:
    """Return an input as a manifest states it, with the dtype that jax computes with."""
    dtype = each.dtype if enable_x64 else NARROWER.get(each.dtype, each.dtype)
    axes = (names.axis(path.replace("/", "_"), *axis) for axis in enumerate(each.shape))
    shape = ", ".join(str(n) if isinstance(n, int) else f'"{n}"' for n in axes)
    return f'{{ shape = [{shape}], dtype = "{dtype.name}" }}'


def _weights(opened: Mapping[str, Opened], manifest: BuildManifest) -> dict[str, Weights]:
    """Return the weights sets of the models; entry points may share one, and tensors in it."""
    sets: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    found: list[Finding] = []
    for name, each in opened.items():
        if not each.model.weights:
            continue
        where = manifest.where("entry_points", name, "source")
        owner = manifest.entry_points[name].bind[WEIGHTS]
        if owner in manifest.weights:
            cause = "weights-set-is-already-declared"
            found.append(finding("AOTC-E830", where, owner, cause=cause))
        tensors = sets.setdefault(owner, {})
        for path, array in each.model.weights.items():
            found += trace_refusals.check_dtype(array.dtype, path, where)
            if path in tensors and not _same(tensors[path], array):
                cause = "weights-of-two-models-conflict"
                found.append(finding("AOTC-E830", where, path, cause=cause))
            tensors[path] = array
    raise_if(found)
    return {name: in_tree(tensors, f"weights {name}") for name, tensors in sets.items()}


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and one.tobytes() == other.tobytes()


def _callable(model: Model, where: str, enable_x64: bool) -> Callable[..., Any]:
    """Return the model as a function of its weights, if it has any, and of each input."""
    paths, axes = paths_of(model), AxisNames(model)
    parameters = [WEIGHTS] if model.weights else []
    parameters += dict.fromkeys(path.split("/")[0] for path in paths)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])

    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        weights = dict(jax_trees.leaf_paths(given.pop(WEIGHTS, {})))
        found = dict(jax_trees.leaf_paths(given))
        for path, each in zip(paths, model.inputs, strict=True):
            if path not in found or len(found) > len(paths) or not _takes(each, found[path]):
                expected = f"{path} = {_example(path, each, axes, enable_x64)}, to fit the file"
                names = ", ".join(
                    f"{name} {leaf.dtype}{list(leaf.shape)}" for name, leaf in found.items()
                )
                raise refusal("AOTC-E846", where, names[:500], expected=expected)
        return model.function(weights, *(found[path] for path in paths))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _takes(each: ModelInput, array: Any) -> bool:
    """Return whether an array is what a model file states of an input, or its narrower one."""
    axes = zip(array.shape, each.shape, strict=False)
    fits = all(not isinstance(wanted, int) or size == wanted for size, wanted in axes)
    alike = array.dtype in (each.dtype, NARROWER.get(each.dtype))
    return alike and fits and len(array.shape) == len(each.shape)
