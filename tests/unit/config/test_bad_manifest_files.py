"""Files that are no build manifest at all, and files with many problems."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError
from aotc.compile.target_files import read_target
from aotc.config.build_manifest import BuildManifest
from aotc.config.toml_document import DEPTH_MAX
from aotc_runtime.base.errors import Finding

Findings = Callable[[str | bytes], list[Finding]]

NOT_TOML: dict[str, tuple[str | bytes, str, str, str]] = {
    "no value": ("schema =\n", "m.toml:1:9", "Invalid value, in: schema =", "syntax"),
    "JSON": ('{ "schema": 1 }', "m.toml:1:1", 'Invalid statement, in: { "schema": 1 }', "syntax"),
    "an open string": ('schema = 1\nname = "x', "m.toml:2", 'in: name = "x', "quotes"),
    "an open array": ("schema = 1\ntargets = [1,", "m.toml:2", "in: targets = [1,", "syntax"),
    "a program": (b"\x7fELF\x00\x01", "m.toml:1:1", "Invalid statement", "syntax"),
    "Latin-1": (b"schema = 1\n# \xe9", "m.toml:2:3", "byte 0xe9", "UTF-8"),
    "UTF-16": ("schema = 1".encode("utf-16"), "m.toml:1:1", "byte 0xff", "UTF-8"),
    "a byte order mark": ("\ufeffschema = 1", "m.toml:1:1", "a byte order mark", "without"),
    "a number of 5000 digits": (f"schema = {'9' * 5000}", "m.toml", "thousands of digits", ""),
}


@pytest.mark.parametrize(("text", "where", "found", "hint"), NOT_TOML.values(), ids=NOT_TOML.keys())
def test_what_is_no_toml_is_refused_with_line_and_column(
    findings_of: Findings, text: str | bytes, where: str, found: str, hint: str
) -> None:
    (finding,) = findings_of(text)
    assert (finding.code, finding.where) == ("AOTC-E802", where)
    assert found in finding.found
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("text", "found"),
    [('keys = []\nname = "x"', "a trust policy"), ('platform = "cpu"', "a target file")],
)
def test_a_file_of_another_type_is_named(findings_of: Findings, text: str, found: str) -> None:
    (finding,) = findings_of(text)
    assert (finding.code, finding.found) == ("AOTC-E804", found)
    assert finding.hint == "pass the build manifest"


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 100_000])
def test_deep_nesting_is_refused(findings_of: Findings, depth: int) -> None:
    (finding,) = findings_of("x = " + "[" * depth + "]" * depth)
    assert finding.code == "AOTC-E805"
    assert f"{DEPTH_MAX} levels" in finding.expected


def test_an_empty_file_lacks_each_required_key(findings_of: Findings) -> None:
    findings = findings_of("")
    assert {finding.code for finding in findings} == {"AOTC-E804"}
    assert [finding.where for finding in findings] == [
        f"m.toml:1 {key}" for key in ("entry_points", "name", "schema", "targets", "version")
    ]


def test_problems_of_keys_come_before_those_between_keys(findings_of: Findings, good: str) -> None:
    for old, new in (
        ("params.safetensors", "gone"),
        ("[1, 8, 64]", "[1, 8, 65]"),
        ('params = "params"', 'params = "parms"'),
    ):
        good = good.replace(old, new)
    bad = good
    for old, new in (
        ('name = "digits"', "name = 3"),
        ("predict]\nfunction", "predict]\nfuncion"),
        ('"float32"', '"f32"'),
        ("seed", "seeed"),
    ):
        assert old in bad
        bad = bad.replace(old, new)
    assert [(f.code, f.where) for f in findings_of(bad)] == [
        ("AOTC-E805", "m.toml:2 name"),
        ("AOTC-E803", "m.toml:14 entry_points.predict.funcion"),
        ("AOTC-E805", "m.toml:16 entry_points.predict.inputs.image.dtype"),
        ("AOTC-E803", "m.toml:20 entry_points.predict.fixtures.seeed"),
    ]
    assert [(f.code, f.where) for f in findings_of(good)] == [
        ("AOTC-E808", "m.toml:7 weights.params.source"),
        ("AOTC-E805", "m.toml:11 dimensions.batch.profiles[2]"),
        ("AOTC-E806", "m.toml:15 entry_points.predict.bind.params"),
    ]


@pytest.mark.parametrize(
    ("text", "misspelt", "key"),
    [
        ("[dimensions.batch]", "[dimension.batch]", "dimensions"),
        ("function =", "funcion =", "function"),
    ],
)
def test_a_misspelled_key_is_not_missing_as_well(
    spoiled: Callable[[str, str], list[Finding]], text: str, misspelt: str, key: str
) -> None:
    (finding,) = spoiled(text, misspelt)
    assert (finding.code, finding.hint) == ("AOTC-E803", f"did you mean `{key}`?")


def test_closure_weights_name_is_taken(findings_of: Findings, good: str) -> None:
    renamed = good.replace("[weights.params]", "[weights.closure]")
    (finding,) = findings_of(renamed.replace('= "params" }', '= "closure" }'))
    assert (finding.code, finding.where) == ("AOTC-E805", "m.toml:6 weights.closure")
    assert "other than closure" in finding.expected


def test_reopened_dotted_table_is_named(spoiled: Callable[[str, str], list[Finding]]) -> None:
    (finding,) = spoiled("tolerance", "fixtures.file = 'fixtures.npz'\ntolerance")
    assert finding.code == "AOTC-E807"
    assert finding.where.startswith("m.toml:20")
    assert "Cannot declare entry_points.predict.fixtures twice" in finding.found


def test_another_schema_ends_the_reading(findings_of: Findings) -> None:
    (finding,) = findings_of('schema = 7\nnew_key = "which only schema 7 has"')
    assert finding.code == "AOTC-E810"


def test_error_has_all_findings(read: Callable[[str | bytes], BuildManifest], good: str) -> None:
    with pytest.raises(BuildManifestError) as caught:
        read(good.replace('"digits"\n', "3\n").replace("seed", "sed"))
    assert caught.value.exit_code == 3
    assert str(caught.value).count("AOTC-E8") == 2


def test_a_target_that_is_no_toml_file_is_not_quoted(tmp_path: Path) -> None:
    """A manifest by somebody else names it: it may be a secret of whoever builds."""
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery staple\n")
    for name, quoted in (("secret", False), ("secret.toml", True)):
        path = secret.rename(tmp_path / name)
        with pytest.raises(BuildManifestError) as refused:
            read_target(str(path), tmp_path)
        (finding,) = refused.value.findings
        assert (finding.code, "horse" in str(refused.value)) == ("AOTC-E802", quoted)
        secret = path
