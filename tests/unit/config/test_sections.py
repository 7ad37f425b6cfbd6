"""Parts of a build manifest that a program's results depend on."""

import tomllib
from collections.abc import Iterator

import pytest

from aotc.config.build_manifest import DimensionSpec, EntryPointSpec, WeightsSpec
from aotc.config.manifest_specs import ManifestKeys, Overrides
from aotc.config.precision_specs import PrecisionSpec
from aotc.config.toml_validation import Section, keys_of
from aotc.pipeline.code_identity import APART, NAMED, program_sections

SECTIONS: dict[str, type[Section]] = {
    "weights": WeightsSpec,
    "dimensions": DimensionSpec,
    "precision": PrecisionSpec,
    "target": Overrides,
    "entry_points": EntryPointSpec,
}


def keys() -> Iterator[tuple[str, ...]]:
    """Every key path that a manifest may have, down to those of named tables; "*" is a name."""
    for key in keys_of(ManifestKeys):
        if key in NAMED:
            yield from ((key, "*", inner) for inner in keys_of(SECTIONS[key]))
        else:
            yield (key,)


def changed(key: tuple[str, ...]) -> bool:
    """Return whether a part is another one if a key has another value."""
    first, second = (".".join(key).replace("*", "x") + f" = {value}" for value in ("1", "2"))
    return program_sections(first.encode()) != program_sections(second.encode())


@pytest.mark.parametrize("key", list(keys()), ids=".".join)
def test_every_key_that_does_not_stand_apart_counts(key: tuple[str, ...]) -> None:
    assert changed(key) == (key not in APART)


def test_only_known_keys_stand_apart_each_with_a_reason() -> None:
    assert set(APART) <= set(keys())
    assert all(APART.values())


def test_a_part_is_named_as_the_manifest_names_it() -> None:
    text = b"""
schema = 1
name = "n"
enable_x64 = true
weights.p.init = "m:f"
[target.native]
memory_limit = "1GB"
[target.cpu-x86-64-v4]
memory_limit = "1GB"
devices = 2
[entry_points.f]
function = "m:f"
[gates]
max_custom_calls = 0
"""
    found = program_sections(text)
    assert set(found) == {
        *("build manifest schema", "build manifest enable_x64", "build manifest weights.p"),
        *("build manifest target.cpu-x86-64-v4", "build manifest entry_points.f"),
    }
    assert found["build manifest enable_x64"] == "True"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("entry_points.f.static.a = 1", "entry_points.f.static.a = 1.0"),
        ("entry_points.f.static.a = 1", "entry_points.f.static.a = true"),
        ("entry_points.f.static.a = 0.0", "entry_points.f.static.a = -0.0"),
        ("entry_points.f.static.a = nan", 'entry_points.f.static.a = "nan"'),
        ("entry_points.f.static.a = 2020-01-01", 'entry_points.f.static.a = "2020-01-01"'),
        ("entry_points.f.inputs = { a = 1, b = 2 }", "entry_points.f.inputs = { b = 2, a = 1 }"),
        ("mesh = { a = 1, b = 2 }", "mesh = { b = 2, a = 1 }"),
        ("enable_x64 = false", ""),
        ("entry_points.f.a = 1", "entry_points.g.a = 1"),
        ("weights.f.a = 1", "dimensions.f.a = 1"),
    ],
)
def test_what_could_be_another_program_is_another_part(first: str, second: str) -> None:
    assert program_sections(first.encode()) != program_sections(second.encode())


def test_comments_and_the_order_of_tables_do_not_count() -> None:
    first = b"[weights.a]\nx = 1 # one\n[weights.b]\nx = 1_0\n"
    second = b"weights = { b = { x = 10 }, a = {x=1} }\n"
    assert tomllib.loads(first.decode()) == tomllib.loads(second.decode())
    assert program_sections(first) == program_sections(second)
