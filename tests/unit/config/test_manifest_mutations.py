"""A good manifest with anything at all in one place: it works, or every reason is given."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc.base.errors import BuildManifestError
from aotc.config.build_manifest import BuildManifest, read_build_manifest

VALUES = st.sampled_from(
    """\
1|-1|0|1.5|nan|-inf|true|""|"batch"|"params"|"a:b"|[]|{}|[1, 2]|["batch"]|[[]]|[{}]|2020-01-01
{ like = 1 }|{ like = 'a:b' }|{ shape = [], dtype = 'int8' }|{ shape = 1 }|{ x = { y = [] } }
"powers_of_two"|{ multiples_of = 3 }|["batch <= 9"]|[{ batch = 4 }]|"pad"|{ policy = "pad" }
{ policy = "pad", fill = 1 }|{ policy = "compile", meanwhile = {} }|{ batch = "split" }
0x7fffffffffffffff|9223372036854775808|"\\u0000"|'é'|{ file = '.' }|{ ranges = { image = 1 } }\
""".replace("\n", "|").split("|")
)
KEYS = (
    *("schema", "name", "version", "targets", "enable_x64", "weights", "weights.params"),
    *("weights.params.source", "weights.params.init", "dimensions", "dimensions.batch"),
    *("dimensions.batch.range", "dimensions.batch.profiles", "entry_points", "entry_points.e"),
    *("dimensions.batch.multiple_of", "target", "target.cpu-x86-64-v3.dimensions.batch.profiles"),
    "target.cpu-x86-64-v3.entry_points.e.profiles",
    *(
        f"entry_points.e.{key}"
        for key in (
            *("function", "bind", "bind.params", "inputs", "inputs.image", "inputs.image.shape"),
            *("inputs.image.dtype", "static", "static.n", "donate", "tolerance", "tolerance.rtol"),
            *("profiles", "relations", "out_of_profile", "out_of_profile.batch"),
            *("fixtures", "fixtures.file", "fixtures.seed", "fixtures.ranges", "fixtures.more"),
            "fixtures.results",
        )
    ),
)
GOOD = {
    "schema": "1",
    "name": '"digits"',
    "version": '"1.0.0"',
    "targets": '["cpu-x86-64-v3"]',
    "weights.params.init": '"model:init"',
    "dimensions.batch.range": "[1, 64]",
    "dimensions.batch.profiles": "[1, 8]",
    "entry_points.e.function": '"model:predict"',
    "entry_points.e.bind.params": '"params"',
    "entry_points.e.inputs.image.shape": '["batch"]',
    "entry_points.e.inputs.image.dtype": '"float32"',
}


def manifest_with(changes: dict[str, str]) -> str:
    """The good manifest as dotted keys; a change replaces its key and everything below it."""
    kept = {
        key: value
        for key, value in GOOD.items()
        if not any(key == changed or key.startswith(changed + ".") for changed in changes)
    }
    return "".join(f"{key} = {value}\n" for key, value in (kept | changes).items())


def test_the_unchanged_manifest_is_good(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(manifest_with({}))
    assert read_build_manifest(tmp_path / "m.toml").entry_points.keys() == {"e"}


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100
)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_any_value_is_read_or_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    path = tmp_path / "m.toml"
    path.write_text(manifest_with(changes))
    try:
        assert isinstance(read_build_manifest(path), BuildManifest)
    except BuildManifestError as error:
        places = [finding.where for finding in error.findings]
        assert len(set(zip(places, [f.code for f in error.findings], strict=True))) == len(places)
        lines = [int(place.removeprefix(str(path)).split(":")[1].split()[0]) for place in places]
        assert lines == sorted(lines)
