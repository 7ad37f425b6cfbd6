"""`.pt2` files: the entry point of `aotc.frontends` for PyTorch."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax

from aotc.base.errors import raise_if, refusal
from aotc.capture.model_files.frontend_protocol import Model, ModelFile, ModelInput
from aotc.capture.model_files.model_archive import (
    Archive,
    Damaged,
    damaged_file,
    in_one_folder,
    read_archive,
)
from aotc.frontends.integer_bounds import exceeding
from aotc.frontends.pytorch import torch_graph_checks, torch_states
from aotc.frontends.pytorch.torch_bindings import Bindings, bind
from aotc.frontends.pytorch.torch_interpreter import Function, function_of
from aotc.frontends.pytorch.torch_plan import Plan, plan
from aotc.frontends.pytorch.torch_results import input_paths, read_structure
from aotc.frontends.pytorch.torch_schema import MAJOR, Program, Range, TensorMeta, Versions, decode
from aotc.frontends.pytorch.torch_symbols import evaluate, size_text, solve, symbol_of, symbols_in


class PyTorch:
    """Archives that `torch.export.save` of torch 2.9 or newer writes."""

    def read(self, file: ModelFile) -> Model:
        """Read a model; see `aotc.capture.model_files.frontend_protocol.Frontend`.

        Nothing is unpickled: the archive has a graph and raw bytes.
        """
        try:
            archive = in_one_folder(read_archive(file.data))
            name, program, initial = _program(archive, file)
            model = _model(file, archive, name, program)
        except Damaged as error:
            raise damaged_file(file.text, error) from error
        if initial and not any(each.initial is not None for each in model.inputs):
            cause = "model-has-no-initial-state"
            raise refusal("AOTC-E845", file.text, torch_states.INITIAL, cause=cause)
        return torch_states.initial_state(model) if initial else model


def _program(archive: Archive, file: ModelFile) -> tuple[str, Program, bool]:
    """Return the signature's program by name, and whether its initial state is meant."""
    if "archive_format" not in archive.members and "data.pkl" in archive.members:
        raise Damaged("a file that torch.export.save wrote", "one that torch.save wrote")
    if bytes(archive.read("archive_format")) != b"pt2":
        raise Damaged("a .pt2 archive", "another kind of archive")
    names = sorted(
        name.removeprefix("models/").removesuffix(".json")
        for name in archive.members
        if name.startswith("models/") and name.endswith(".json")
    )
    if not names:
        raise Damaged("a program that torch.export.save wrote", "an archive without one")
    wanted = file.signature
    initial = wanted not in names and wanted is not None and wanted.endswith(torch_states.INITIAL)
    if initial and wanted is not None:
        wanted = wanted.removesuffix(torch_states.INITIAL).removesuffix(":") or None
    if (wanted is None and len(names) > 1) or (wanted is not None and wanted not in names):
        listed = ", ".join(names)[:300]
        cause = "signature-is-ambiguous" if file.signature is None else ""
        found, expected = file.signature or "", f"one of: {listed}"
        raise refusal("AOTC-E845", file.text, found, cause=cause, expected=expected)
    name = names[0] if wanted is None else wanted
    what = f"models/{name}.json"
    data = archive.read(what)
    version = decode(data, Versions, what)
    if version.schema_version.major != MAJOR:
        raise Damaged(
            f"schema {MAJOR} (torch 2.9 or newer)",
            f"schema {version.schema_version.major} (torch {version.torch_version!a})"[:200],
        )
    return name, decode(data, Program, what), initial


def _model(file: ModelFile, archive: Archive, model: str, program: Program) -> Model:
    signature = program.graph_module.signature
    made = plan(program.graph_module.graph)
    if len(signature.input_specs) != len(made.inputs):
        raise Damaged(f"{len(signature.input_specs)} inputs of the graph", str(len(made.inputs)))
    results = _results(program, made)
    made, changes = torch_states.find(made, signature)
    found = torch_graph_checks.findings(made, file.text, file.enable_x64)
    if any(step.target == torch_graph_checks.SUBCLASS for step in made.steps):
        raise_if(found)  # their bytes are pickles, which says less about the cause
    bindings = bind(file, archive, model, signature, made, changes)
    raise_if([*found, *bindings.found])
    paths = _paths(program, bindings)
    bindings.inputs = [(replace(g, name=paths.get(g.name, g.name)), m) for g, m in bindings.inputs]
    return Model(
        function=_function(file.text, made, bindings, results, changes),
        inputs=tuple(given for given, _ in bindings.inputs),
        weights=bindings.weights,
        ranges=_ranges(bindings.inputs, program.range_constraints),
        producer={
            "framework": "PyTorch",
            "torch": program.torch_version[:100],
            "schema": f"{program.schema_version.major}.{program.schema_version.minor}",
        },
        narrowed=tuple(sorted(bindings.narrowed)),
        layers=_layers(made),
        exceeding=exceeding,
    )


def _layers(made: Plan) -> dict[str, tuple[str, ...]]:
    """Return the source lines of each module's own steps, by its path.

    Branches and loops count for the module that has them.
    """
    lines: dict[str, dict[str, None]] = {}
    for step in made.steps:
        if step.layer:
            lines.setdefault(step.layer, {}).update({step.line: None} if step.line else {})
        for _, value in step.inputs:
            if isinstance(value, Plan):
                for layer, found in _layers(value).items():
                    lines.setdefault(layer, {}).update(dict.fromkeys(found))
    return {layer: tuple(found) for layer, found in lines.items()}


def _results(program: Program, made: Plan) -> Any:
    """Return the structure of the results, with the number of one of the graph's outputs each."""
    specs = program.graph_module.signature.output_specs
    if len(specs) != len(made.outputs):
        raise Damaged(f"{len(specs)} results of the graph", str(len(made.outputs)))
    results = [i for i, spec in enumerate(specs) if hasattr(spec.user_output, "arg")]
    calls = program.graph_module.module_call_graph
    if not calls or calls[0].fqn or calls[0].signature is None:
        raise Damaged("the call of the model itself", "none")
    named = program.graph_module.treespec_namedtuple_fields
    return read_structure(calls[0].signature.out_spec, results, named)


def _paths(program: Program, bindings: Bindings) -> dict[str, str]:
    """Return the paths of nested inputs by name; none where calls change what callers pass."""
    module = program.graph_module
    given = [spec.user_input for spec in module.signature.input_specs]
    kinds = [each.arg.only() for each in given if hasattr(each, "arg")]
    names = [value.name if kind == "tensor" else None for kind, value in kinds]
    call = module.module_call_graph[0].signature
    changed = [each for each, _ in bindings.inputs if each.changes and each.initial is None]
    if call is None or changed:
        return {}
    paths = input_paths(call, names, module.treespec_namedtuple_fields)
    firsts = {path.partition("/")[0] for path in paths.values()}
    return {} if bindings.state in firsts else paths


def _ranges(
    inputs: list[tuple[ModelInput, TensorMeta]], ranges: Mapping[str, Range]
) -> dict[str, tuple[int | None, int | None]]:
    symbols = sorted({name for given, _ in inputs for name in given.shape if isinstance(name, str)})
    free = Range(min_val=None, max_val=None)
    found = {name: ranges.get(name, free) for name in symbols}
    return {name: (each.min_val, each.max_val) for name, each in found.items()}


def _function(
    where: str, made: Plan, bindings: Bindings, results: Any, changes: torch_states.Changes
) -> Callable[..., Any]:
    run: Function = function_of(made, where, {})

    def function(weights: Mapping[str, Any], *given: Any) -> Any:
        _check_sizes(where, bindings.inputs, given)
        values = [each.value(weights, given) for each in bindings.bound]
        outputs = run(*values)
        result = jax.tree.map(lambda number: outputs[number], results)
        before = {each.name: value for each, value in zip(bindings.bound, values, strict=True)}
        return torch_states.with_states(result, outputs, before, changes, bindings.state)

    return function


def _check_sizes(
    where: str, inputs: list[tuple[ModelInput, TensorMeta]], given: tuple[Any, ...]
) -> None:
    """Sizes are those of the file; those with the same symbol are the same."""
    if len(given) != len(inputs):
        raise refusal("AOTC-E846", where, f"{len(given)} inputs", expected=f"{len(inputs)} inputs")
    symbols: dict[str, Any] = {}
    for (spec, meta), value in zip(inputs, given, strict=True):
        if len(value.shape) != len(meta.sizes):
            _other_sizes(where, spec, meta, value)
        for size, found in zip(meta.sizes, value.shape, strict=True):
            name = symbol_of(size)
            if name is not None:
                symbols.setdefault(name, found)
    for (_, meta), value in zip(inputs, given, strict=True):
        for size, found in zip(meta.sizes, value.shape, strict=True):
            symbols |= solve(size, found, symbols)
    for (spec, meta), value in zip(inputs, given, strict=True):
        for size, found in zip(meta.sizes, value.shape, strict=True):
            wanted = evaluate(size, symbols)
            if wanted is not None and wanted != found:
                _other_sizes(where, spec, meta, value)


def _other_sizes(where: str, spec: ModelInput, meta: TensorMeta, value: Any) -> None:
    related = any(symbols_in(size) and symbol_of(size) is None for size in meta.sizes)
    hint = (
        "list the profiles of the entry point whose sizes fit each other, such as "
        "profiles = [{ a = 2, b = 3 }], or state multiple_of for a dimension"
    )
    found = f"{spec.name} {list(value.shape)}"
    expected = f"{spec.name} [{', '.join(map(size_text, meta.sizes))}]"
    raise refusal("AOTC-E846", where, found, expected=expected, hint=hint if related else None)
