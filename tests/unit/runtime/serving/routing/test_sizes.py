"""Shapes without an executable: each reason in its own words."""

import msgspec
import pytest

import aotc_runtime
from aotc_runtime import ShapeError
from aotc_runtime.schema.bundle_manifest import Dimension, DType, EntryPoint, Pad, TensorSpec
from aotc_runtime.serving.routing.call_sizes import (
    Shapes,
    check_accepted,
    no_profile,
    shapes_at,
    solve,
)
from tests.conftest import Bundle
from tests.refusals import error_of


@pytest.fixture(scope="module")
def prefill(lm_bundle: Bundle) -> EntryPoint:
    with aotc_runtime.load(lm_bundle[0], trust=lm_bundle[1]) as bundle:
        return bundle["prefill"].spec


@pytest.fixture(scope="module")
def decode(lm_bundle: Bundle) -> EntryPoint:
    with aotc_runtime.load(lm_bundle[0], trust=lm_bundle[1]) as bundle:
        return bundle["decode"].spec


def shapes_of(spec: EntryPoint) -> list[Shapes]:
    return [profile.input_shapes for profile in spec.profiles]


def refused(name: str, spec: EntryPoint, shapes: list[tuple[int, ...]]) -> ShapeError:
    """Return what a call with these shapes is told, as no profile serves it."""
    try:
        sizes = solve(name, spec.inputs, tuple(shapes), shapes_of(spec))
    except ShapeError as error:
        return error
    return no_profile(name, spec, spec.inputs, tuple(shapes), sizes)


def test_a_size_that_was_not_compiled_names_the_nearest_profiles(prefill: EntryPoint) -> None:
    (finding,) = refused("prefill", prefill, [(1, 17)]).findings
    assert finding.code == "AOTC-E611"
    assert finding.found == "batch=1,seq=17 (tokens int32[1, 17])"
    nearest = "batch=1,seq=16; batch=1,seq=32; batch=2,seq=16; batch=2,seq=32"
    assert f"one of the profiles {nearest} (out_of_profile: fail for batch" in finding.expected
    assert finding.hint.endswith('or with out_of_profile.seq = "pad"'), "batch=1 is there"
    more = msgspec.structs.replace(prefill, profiles=prefill.profiles * 3)
    (finding,) = refused("prefill", more, [(1, 17)]).findings
    assert (
        f"one of 12 profiles, nearest {'; '.join(['batch=1,seq=16'] * 3)}; batch=2"
        in finding.expected
    )


def test_sizes_that_exist_apart_are_told_as_their_profile(prefill: EntryPoint) -> None:
    (finding,) = refused("prefill", prefill, [(3, 16)]).findings
    assert finding.code == "AOTC-E611" and finding.found.startswith("batch=3,seq=16")
    assert finding.hint.endswith('or with out_of_profile.batch = "pad"')
    (both,) = refused("prefill", prefill, [(2, 32)]).findings
    stated = 'with out_of_profile.batch = "pad", out_of_profile.seq = "pad"'
    assert both.hint.endswith(stated), "there is each, but not with the other"


def test_another_rank_is_told_by_input(prefill: EntryPoint) -> None:
    (finding,) = refused("prefill", prefill, [(16,)]).findings
    assert (finding.code, finding.where) == ("AOTC-E612", "prefill tokens")
    assert finding.expected == "int32[batch, seq]" and "2 axes" in finding.hint


def test_every_input_that_cannot_fit_is_told(decode: EntryPoint) -> None:
    shapes = list(shapes_of(decode)[0])
    shapes[0] = (1, 127, 4, 32)
    shapes[1] = (1,)
    findings = refused("decode", decode, shapes).findings
    assert [finding.where for finding in findings] == ["decode cache/0/key", "decode cache/0/value"]
    assert "axis 1 is 128" in findings[0].hint


def test_an_axis_that_several_dimensions_make_up_has_their_product() -> None:
    tensors = [
        TensorSpec("x", DType.FLOAT32, ("batch", "seq"), False),
        TensorSpec("rows", DType.FLOAT32, ("batch*seq",), False),
    ]
    assert solve("f", tensors, ((2, 3), (6,)), []) == {"batch": 2, "seq": 3}
    (finding,) = error_of(ShapeError, solve, "f", tensors, ((2, 3), (5,)), []).findings
    assert (finding.code, finding.where) == ("AOTC-E612", "f rows")
    assert finding.expected.startswith("axis 0 of 6: ")


def test_fixed_and_unknown_axes_tell_no_size() -> None:
    tensors = [TensorSpec("x", DType.FLOAT32, ("batch", 3, "?"), False)]
    assert solve("f", tensors, ((2, 3, 7),), []) == {"batch": 2}
    assert solve("f", tensors, ((2, 3, 8),), [((1, 3, 7),)]) == {"batch": 2}


def test_a_length_that_no_size_gives_is_told_unless_it_was_compiled() -> None:
    tensors = [TensorSpec("x", DType.FLOAT32, ("2*seq+1",), False)]
    assert solve("f", tensors, ((7,),), []) == {"seq": 3}
    caught = error_of(ShapeError, solve, "f", tensors, ((8,),), [])
    assert caught.findings[0].hint == "pass an array whose axis 0 is 2*seq+1 for some seq"
    assert solve("f", tensors, ((8,),), [((8,),)]) == {}, "its profile tells the sizes"


def test_a_relation_of_sizes_that_nothing_tells_is_not_judged(prefill: EntryPoint) -> None:
    related = msgspec.structs.replace(prefill, relations=("batch*rows <= 4", "batch <= 2"))
    batch = {"batch": Dimension(1, 8, 1)}
    check_accepted("prefill", related, batch, {"batch": 2})
    caught = error_of(ShapeError, check_accepted, "prefill", related, batch, {"batch": 3})
    assert [each.expected for each in caught.findings] == ["batch <= 2"]


def test_only_failing_dimensions_are_told_to_have_a_policy(prefill: EntryPoint) -> None:
    policies = {**prefill.out_of_profile, "batch": Pad({}, "", "", ())}
    padded = msgspec.structs.replace(prefill, out_of_profile=policies)
    error = no_profile("prefill", padded, padded.inputs, ((5, 17),), {"batch": 5, "seq": 17})
    assert error.findings[0].hint.endswith('or with out_of_profile.seq = "pad"')


def test_shapes_without_sizes_are_told_alone(prefill: EntryPoint) -> None:
    error = no_profile("prefill", prefill, prefill.inputs, ((5, 17),), {})
    assert error.findings[0].found == "tokens int32[5, 17]"


def test_inputs_that_disagree_are_told_with_their_sizes(decode: EntryPoint) -> None:
    shapes = list(shapes_of(decode)[0])
    shapes[-2] = (2,)
    (finding,) = refused("decode", decode, shapes).findings
    assert (finding.code, finding.where) == ("AOTC-E612", "decode batch")
    assert "2 in token" in finding.found and "1 in cache/0/key" in finding.found


@pytest.mark.parametrize(
    ("axes", "profile", "shape"),
    [
        (("batch", 3), (8, 3), (5, 3)),
        (("2*batch", "batch+1"), (16, 9), (10, 6)),
        (("?", "batch"), (7, 8), (7, 5)),
        ((), (), ()),
    ],
)
def test_axes_follow_the_sizes_and_unknown_ones_the_profile(
    axes: tuple[int | str, ...], profile: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    tensor = TensorSpec("x", DType.FLOAT32, axes, False)
    assert shapes_at([tensor], [profile], {"batch": 5}) == [shape]
