"""Precisions in build manifests: what is read, and what no precision may say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError, UsageError
from aotc.config.build_manifest import BuildManifest, decode_build_manifest, encode_build_manifest
from aotc.config.precision_specs import ChosenPrecision
from aotc.config.tuning_file import Recorded, TuningFile, precisions_of
from aotc.pipeline.code_identity import program_sections
from tests.refusals import error_of

type Read = Callable[[str | bytes], BuildManifest]

SMALL = """
[precision.small]
weights = "int8"
"""


def stated(good: str, precision: str, tables: str = SMALL) -> str:
    function = 'function = "digits.model:predict"'
    return good.replace(function, f"{function}\nprecision = {precision}") + tables


@pytest.mark.parametrize(
    ("keys", "block", "keep"),
    [
        ('weights = "int8"', 0, ()),
        ('weights = "int4"', 64, ()),
        ('weights = "int4"\ngroup = 32', 32, ()),
        ('weights = "int8"\ngroup = 32\nkeep = ["output/*"]', 32, ("output/*",)),
    ],
)
@pytest.mark.parametrize("precision", ['"small"', '["small"]'])
def test_a_precision_is_read(
    precision: str, keys: str, block: int, keep: tuple[str, ...], good: str, read: Read
) -> None:
    found = read(stated(good, precision, f"[precision.small]\n{keys}")).precision_of("predict")
    assert found is not None
    assert (found[0], found[1].block, found[1].keep) == ("small", block, keep)
    assert f'"{found[1].weights}"' in keys


def test_float32_is_the_program_as_it_is_written(good: str, read: Read) -> None:
    for text in (good, stated(good, '"float32"', ""), stated(good, '["float32"]', "")):
        assert read(text).precision_of("predict") is None


@pytest.mark.parametrize(
    ("precision", "tables", "code", "key", "text"),
    [
        ('"smal"', SMALL, "AOTC-E806", "entry_points.predict.precision", "did you mean `small`?"),
        ('"any"', SMALL, "AOTC-E806", "entry_points.predict.precision", "float32, small"),
        ('["small", "float32"]', SMALL, "AOTC-E805", "entry_points.predict.precision", "--tune"),
        ('["small", "small"]', SMALL, "AOTC-E807", "entry_points.predict.precision[1]", "small"),
        ("[]", SMALL, "AOTC-E805", "entry_points.predict.precision", "at least one precision"),
        ("8", SMALL, "AOTC-E805", "entry_points.predict.precision", "an array"),
        ('"float32"', SMALL, "AOTC-E809", "precision.small", "the key precision"),
        ('"small"', "[precision.small]", "AOTC-E804", "precision.small.weights", "bfloat16"),
        ('"small"', SMALL + "group = 0", "AOTC-E805", "precision.small.group", "at least 1"),
        ('"small"', SMALL + "keep = [1]", "AOTC-E805", "precision.small.keep[0]", "a string"),
        ('"small"', SMALL + 'keep = ["a", "a"]', "AOTC-E807", "precision.small.keep[1]", '"a"'),
        *(
            ('"small"', f"{SMALL}{line}", code, "precision.small.activations", text)
            for line, code, text in (
                ('activations = "all"', "AOTC-E805", "dynamic"),
                ('activations = "dynamic"\ngroup = 8', "AOTC-E807", "activations and group"),
            )
        ),
        (
            '"small"',
            SMALL.replace("int8", "int4") + 'activations = "dynamic"',
            *("AOTC-E807", "precision.small.activations", 'weights = "int4"'),
        ),
        (
            '"small"',
            SMALL + 'activations = "static"',
            *("AOTC-E804", "entry_points.predict.precision", "[entry_points.predict.evaluation]"),
        ),
        *(
            ('"small"', f"[precision.small]\n{lines}", code, "precision.small.compute", text)
            for lines, code, text in (
                ('weights = "int8"\ncompute = "bfloat16"', "AOTC-E807", 'weights = "int8"'),
                ('compute = "bfloat16"\ngroup = 8', "AOTC-E807", "compute and group"),
                ('compute = "bfloat16"\nactivations = "dynamic"', "AOTC-E807", "activations"),
                ('compute = "float16"', "AOTC-E805", "bfloat16"),
            )
        ),
        ('"small"', SMALL.replace("int8", "int2"), "AOTC-E805", "precision.small.weights", "int4"),
        ('"small"', SMALL + '[precision.float32]\nweights = "int8"', "AOTC-E805", "precision", ""),
    ],
)
def test_a_precision_that_cannot_be(
    precision: str, tables: str, code: str, key: str, text: str, good: str, read: Read
) -> None:
    found = error_of(BuildManifestError, read, stated(good, precision, tables)).findings[0]
    assert (found.code, found.where.split(" ")[1].startswith(key)) == (code, True)
    assert text in f"{found.expected} {found.found} {found.hint}"


OUTSIDE = "[entry_points.predict.out_of_profile]\n"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("schema = 1", "schema = 1\nmesh = { data = 1 }", "mesh"),
        ("seed = 0", f'seed = 0\n{OUTSIDE}batch = "compile"', "the policy compile"),
        ("seed = 0", 'file = "fixtures.npz"\nresults = "fixtures.npz"', "fixtures.results"),
    ],
)
def test_a_precision_where_nothing_can_be_compared_with(
    old: str, new: str, found: str, good: str, read: Read
) -> None:
    text = good.replace(old, new)
    read(text)
    with pytest.raises(BuildManifestError) as error:
        read(stated(text, '"small"', SMALL + 'activations = "dynamic"'))
    (rejected,) = error.value.findings
    assert (rejected.code, rejected.found) == ("AOTC-E807", f"precision and {found}")


def test_a_precision_is_a_part_of_the_keys_of_results(good: str, read: Read) -> None:
    tables = SMALL, SMALL + "group = 8", SMALL + 'keep = ["a"]'
    texts = [good, *(stated(good, '"small"', each) for each in tables)]
    assert all(read(text) for text in texts)
    assert len({str(program_sections(text.encode())) for text in texts}) == len(texts)


LIMITED = """
[entry_points.predict.evaluation]
data = "data.npz"
metric = "top1"
output = "probabilities"
max_drop = 0.1
"""


@pytest.fixture
def several(good: str, read: Read, tmp_path: Path) -> BuildManifest:
    (tmp_path / "data.npz").touch()
    return read(stated(good, '["float32", "small"]', f'{SMALL}keep = ["a*"]\n{LIMITED}'))


def test_of_several_precisions_the_chosen_one_keeps_more_weights(several: BuildManifest) -> None:
    assert several.precision_of("predict") is None
    chosen = {"predict": ChosenPrecision("small", ("b[0]",))}
    made = decode_build_manifest(encode_build_manifest(replace(several, chosen=chosen)))
    found = made.precision_of("predict")
    assert found is not None
    assert (found[0], found[1].keep) == ("small", ("a*", "b[[]0]"))


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({}, "none"),
        ({"predict": ChosenPrecision("tiny")}, "tiny"),
        ({"predict": ChosenPrecision("small"), "other": ChosenPrecision("small")}, "small"),
    ],
)
def test_a_tuning_file_with_other_precisions_is_rejected(
    chosen: dict[str, ChosenPrecision], found: str, several: BuildManifest
) -> None:
    def recorded(precisions: dict[str, ChosenPrecision]) -> Recorded:
        return Recorded(TuningFile(1, "0.1", (), {}, precisions=precisions), "t.json")

    right = {"predict": ChosenPrecision("small")}
    assert precisions_of(recorded(right), several) == right
    error = error_of(UsageError, precisions_of, recorded(chosen), several)
    assert (error.code, error.findings[0].found) == ("AOTC-E031", found)
