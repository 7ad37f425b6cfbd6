"""Record of an entry point: its trees, paths, dtypes, weak types, and named axes."""

import pytest
from capturing import BATCHED, Capture

from aotc_runtime.schema.bundle_manifest import InputArgument, ParameterKind, WeightArgument
from aotc_runtime.schema.pytrees import (
    DictNode,
    Leaf,
    ListNode,
    NamedTupleNode,
    NoneNode,
    RecordNode,
    Tree,
    TupleNode,
)

ZERO, ONE = Leaf(index=0), Leaf(index=1)


@pytest.mark.parametrize(
    ("result", "tree", "paths"),
    [
        ("x", ZERO, [""]),
        ("(x, x + 1)", TupleNode(items=(ZERO, ONE)), ["0", "1"]),
        ("[x, None, x]", ListNode(items=(ZERO, NoneNode(), ONE)), ["0", "2"]),
        ("{'b': x, 'a': x}", DictNode(items={"a": ZERO, "b": ONE}), ["a", "b"]),
        (
            "{'b': None, 'a': {}, 'c': x}",
            DictNode(items={"a": DictNode(items={}), "b": NoneNode(), "c": ZERO}),
            ["c"],
        ),
        ("{'a/b': x}", DictNode(items={"a/b": ZERO}), ["a/b"]),
        (
            "Pair(x, None)",
            NamedTupleNode(type="Pair", fields=("left", "right"), items=(ZERO, NoneNode())),
            ["left"],
        ),
        (
            "State(x, None)",
            RecordNode(type="State", fields=("mean", "count"), items=(ZERO, NoneNode())),
            ["mean"],
        ),
        (
            "State((x, x), 3)",
            RecordNode(
                type="State",
                fields=("mean", "count"),
                items=(TupleNode(items=(ZERO, ONE)), Leaf(index=2)),
            ),
            ["mean/0", "mean/1", "count"],
        ),
    ],
)
def test_result_trees_match(capture: Capture, result: str, tree: Tree, paths: list[str]) -> None:
    captured = capture(f"""
        import dataclasses

        class Pair(NamedTuple):
            left: object
            right: object

        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class State:
            mean: object
            count: object
            name: str = dataclasses.field(default="", metadata=dict(static=True))

        def f(x): return {result}
    """).f
    assert captured.result == tree
    assert [output.path for output in captured.outputs] == paths


def test_an_input_tree_follows_the_manifest_and_the_like_function(capture: Capture) -> None:
    captured = capture(
        """
        class State(NamedTuple):
            mean: object
            rest: object

        def initial(size): return State(jnp.zeros((size, 3)), [jnp.zeros(2, 'int32'), None])
        def f(x, /, nested, *, state): return nested["a"], nested["b"][1] + 0, x, state
        """,
        """
        [dimensions.batch]
        range = [1, 64]
        profiles = [2]
        [entry_points.f]
        function = "program:f"
        inputs.x = { shape = ["batch", 4], dtype = "bfloat16" }
        inputs.nested.b = [{ shape = [], dtype = "bool" }, { shape = ["batch"], dtype = "float32" }]
        inputs.nested.a = { shape = [4], dtype = "complex64" }
        inputs.state = { like = "program:initial", arguments = { size = "batch" } }
        """,
    ).f
    x, nested, state = captured.parameters
    assert [p.kind for p in captured.parameters] == [
        ParameterKind.POSITIONAL_ONLY,
        ParameterKind.POSITIONAL_OR_KEYWORD,
        ParameterKind.KEYWORD_ONLY,
    ]
    assert x.tree == ZERO
    listed = ListNode(items=(Leaf(index=2), Leaf(index=3)))
    assert nested.tree == DictNode(items={"a": ONE, "b": listed})
    rest = ListNode(items=(Leaf(index=5), NoneNode()))
    assert state.tree == NamedTupleNode(
        type="State", fields=("mean", "rest"), items=(Leaf(index=4), rest)
    )
    assert [(i.path, i.dtype.value, i.shape) for i in captured.inputs] == [
        ("x", "bfloat16", ("batch", 4)),
        ("nested/a", "complex64", (4,)),
        ("nested/b/0", "bool", ()),
        ("nested/b/1", "float32", ("batch",)),
        ("state/mean", "float32", ("batch", 3)),
        ("state/rest/0", "int32", (2,)),
    ]


@pytest.mark.parametrize(
    ("definition", "stated", "hint"),
    [
        ("def initial(batch):", "", 'arguments = { batch = "batch" }'),
        ("def initial(batch, *, scale):", "", 'arguments = { batch = "batch", scale = … }'),
        ("def initial(batch, scale):", ', arguments = { batch = "batch" }', "{ scale = … }"),
        ("def initial(batch=1, *more):\n    1 / 0", "", "-v shows the traceback"),
    ],
)
def test_missing_arguments_told(capture: Capture, definition: str, stated: str, hint: str) -> None:
    program = "    return jnp.zeros((batch, 3))\ndef f(state, x): return state + x[:, None]"
    refusal = capture(
        f"{definition}\n{program}",
        f"""
        [dimensions.batch]
        range = [1, 64]
        profiles = [2]
        [entry_points.f]
        function = "program:f"
        inputs.x = {{ shape = ["batch"], dtype = "float32" }}
        inputs.state = {{ like = "program:initial"{stated} }}
        """,
    ).refusal
    assert refusal.code == "AOTC-E829" and hint in refusal.hint


@pytest.mark.parametrize(
    ("result", "dtype", "weak"),
    [
        ("3", "int32", True),
        ("2.5", "float32", True),
        ("True", "bool", False),
        ("1j", "complex64", True),
        ("jnp.asarray(2.0) * 3", "float32", True),
        ("np.float32(3)", "float32", False),
        ("x.sum() * 2", "float32", False),
        ("np.arange(3)", "int32", False),
    ],
)
def test_weak_types_are_recorded(capture: Capture, result: str, dtype: str, weak: bool) -> None:
    (output,) = capture(f"def f(x): return {result}").f.outputs
    assert (output.dtype.value, output.weak_type) == (dtype, weak)


@pytest.mark.parametrize(
    ("result", "shape"),
    [
        ("x", ("batch", 4)),
        ("x.T", (4, "batch")),
        ("x.reshape(-1)", ("4*batch",)),
        ("jnp.concatenate([x, x, x[:1]])", ("2*batch+1", 4)),
        ("x[1:] if len(x) > 1 else x[:0]", ("batch-1", 4)),
        ("x @ x.T", ("batch", "batch")),
        ("x.sum()", ()),
        ("jnp.zeros((3, 0))", (3, 0)),
        ("jnp.zeros(len(x) ** 2)", ("?",)),
        ("jnp.zeros(min(len(x), 3))", ("?",)),
    ],
)
def test_output_axes_are_named(capture: Capture, result: str, shape: tuple[int | str, ...]) -> None:
    batched = BATCHED.replace("profiles = [1, 8]", "profiles = [1, 4, 8]")
    captured = capture(f"def f(x): return {result}", batched).f
    assert captured.outputs[0].shape == shape
    assert captured.dimensions == ("batch",)


def test_two_dimensions_are_told_apart_even_where_their_sizes_agree(capture: Capture) -> None:
    outcome = capture(
        "def f(x): return x.T, x.reshape(-1), jnp.pad(x, ((0, 0), (1, 2)))",
        """
        [dimensions.rows]
        range = [1, 9]
        profiles = [4]
        [dimensions.columns]
        range = [4, 4]
        profiles = [4]
        [dimensions.length]
        range = [1, 4]
        profiles = [4]
        [entry_points.f]
        function = "program:f"
        inputs.x = { shape = ["rows", "length"], dtype = "float32" }
        [entry_points.g]
        function = "program:f"
        inputs.x = { shape = ["rows", "columns"], dtype = "float32" }
        """,
    )
    shapes = {
        name: [output.shape for output in entry_point.outputs]
        for name, entry_point in outcome.program.entry_points.items()
    }
    assert shapes["f"] == [("length", "rows"), ("length*rows",), ("rows", "length+3")]
    # So is one that has a single size: its axis must be known where another one is padded.
    assert shapes["g"] == [("columns", "rows"), ("columns*rows",), ("rows", "columns+3")]


def test_arguments_that_the_function_never_reads_are_left_out(capture: Capture) -> None:
    captured = capture(
        "def init(): return {'used': jnp.ones(9), 'unused': jnp.ones(9)}\n"
        "def f(params, x, y): return params['used'] * y[0]",
        """
        [weights.params]
        init = "program:init"
        [entry_points.f]
        function = "program:f"
        bind = { params = "params" }
        inputs.x = { shape = [4], dtype = "float32" }
        inputs.y = { shape = [4], dtype = "float32" }
        """,
    ).f
    assert captured.profiles[0].arguments == (
        WeightArgument(set="params", tensor="used"),
        InputArgument(leaf=1, aliased=False),
    )


def test_every_profile_records_its_concrete_shapes(capture: Capture) -> None:
    profiles = capture("def f(x): return x.T, x.sum()", BATCHED).f.profiles
    assert [(p.sizes, p.input_shapes, p.output_shapes) for p in profiles] == [
        ({"batch": 1}, ((1, 4),), ((4, 1), ())),
        ({"batch": 8}, ((8, 4),), ((4, 8), ())),
    ]
    assert profiles[0].module.digest != profiles[1].module.digest


def test_static_fields_may_differ_between_profiles(capture: Capture) -> None:
    captured = capture(
        """
        import dataclasses
        from functools import partial

        @partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["shape"])
        @dataclasses.dataclass
        class Sized:
            x: object
            shape: tuple

        def f(x): return Sized(x * 2, x.shape)
        """,
        BATCHED,
    ).f
    assert captured.result == RecordNode(type="Sized", fields=("x",), items=(ZERO,))


def test_an_input_whose_structure_depends_on_a_size_is_refused(capture: Capture) -> None:
    refusal = capture(
        """
        def layers(batch): return {index: jnp.zeros(3) for index in range(batch)}
        def f(d): return sum(d.values())
        """,
        """
        [dimensions.batch]
        range = [2, 4]
        profiles = [2, 4]
        [entry_points.f]
        function = "program:f"
        inputs.d = { like = "program:layers", arguments = { batch = "batch" } }
        """,
    ).refusal
    assert (refusal.code, refusal.where) == ("AOTC-E827", "f[batch=4] d")
