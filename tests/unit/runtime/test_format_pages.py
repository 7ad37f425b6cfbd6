"""docs/reference/bundle-format.md and docs/reference/trust-policy.md say what the code does."""

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aotc_runtime.base import limits
from aotc_runtime.formats import oci_layout, safetensors_reader, tar_archive
from aotc_runtime.schema import bundle_manifest as schema
from aotc_runtime.schema import pytrees, trust_policy
from aotc_runtime.verification import policy_reader
from tests.documented import blocks_of

DOCS = Path(__file__).parents[3] / "docs"
FORMAT = (DOCS / "reference" / "bundle-format.md").read_text()
TRUST = (DOCS / "reference" / "trust-policy.md").read_text()

STRUCTS = [
    value
    for module in (schema, pytrees)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__struct_fields__
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_the_manifest_is_described(struct: type[Any]) -> None:
    for name in struct.__struct_encode_fields__:
        assert re.search(rf"[`\"]{name}[`\"]", FORMAT), f"{struct.__name__}.{name}"


@pytest.mark.parametrize(
    "tag", [s.__struct_config__.tag for s in STRUCTS if s.__struct_config__.tag]
)
def test_every_tag_is_described(tag: str) -> None:
    assert f"`{tag}`" in FORMAT or f'"{tag}"' in FORMAT


def test_every_dtype_and_enum_value_is_described() -> None:
    for enum in (schema.DType, schema.ParameterKind, schema.OutOfProfilePolicy):
        for member in enum:
            assert f"`{member.value}`" in FORMAT, member
    for name in safetensors_reader.DTYPES:
        assert f"`{name}`" in FORMAT, name


def test_every_media_type_is_described() -> None:
    types = [value for name, value in vars(oci_layout).items() if name.endswith("_TYPE")]
    assert len(types) >= 9
    for media_type in types:
        assert f"`{media_type}`" in FORMAT, media_type


def test_every_limit_is_stated() -> None:
    wanted = {
        "INDEX_BYTES_MAX": "4 MiB",
        "MANIFEST_BYTES_MAX": "64 MiB",
        "INDEX_MARKS_MAX": "32 768",
        "ATTESTATION_BYTES_MAX": "64 KiB",
        "ENVELOPE_BYTES_MAX": "4 MiB",
        "ATTESTATIONS_BYTES_MAX": "6 MiB",
        "ATTESTATION_MARKS_MAX": "2 048",
        "MATERIAL_CHARACTERS_MAX": "64 KiB",
        "MATERIAL_MARKS_MAX": "512",
        "STATEMENT_MARKS_MAX": "262 144",
        "TRIED_BYTES_MAX": "128 MiB",
        "BLOBS_MAX": "100 000",
        "ATTESTATIONS_MAX": "256",
        "SIGNATURES_MAX": "64",
        "TIMESTAMP_CHARACTERS_MAX": "64 KiB",
        "TENSOR_HEADER_BYTES_MAX": "100 MiB",
        "TENSOR_RANK_MAX": "64",
        "TREE_DEPTH_MAX": "256",
    }
    section = FORMAT[FORMAT.index("## Limits") : FORMAT.index("## Versions")]
    for name, text in wanted.items():
        digits = text.removesuffix(" KiB").removesuffix(" MiB").replace(" ", "")
        unit = {"KiB": 2**10, "MiB": 2**20}.get(text[-3:], 1)
        assert int(digits) * unit == getattr(limits, name), name
        assert f"| {text} [" in section, name
    # Files of TOML, as policies are, are no part of a bundle; what each trial counts is told beside
    # the sum of all.
    others = {"POLICY_BYTES_MAX", "TOML_MARKS_MAX", "TOML_DOTS_MAX", "TRIAL_BYTES"}
    assert {name for name in vars(limits) if name.isupper()} - others == set(wanted)
    assert limits.TRIAL_BYTES == 64 * 2**10 and "with each key, 64 KiB and" in section


def test_names_and_versions_are_those_of_the_code() -> None:
    assert tar_archive.NAME.pattern.removeprefix(r"\A").removesuffix(r"\Z") in FORMAT
    assert f"# The bundle format, version {schema.FORMAT_VERSION}\n" in FORMAT
    assert f'"imageLayoutVersion":"{oci_layout.LAYOUT_VERSION}"' in FORMAT


def test_every_key_of_the_policy_is_described() -> None:
    section = TRUST[TRUST.index("## The policy file") :]
    for name in trust_policy.TrustPolicy.__struct_fields__:
        assert f"| `{name}` |" in section, name
    tables = {
        "keys": trust_policy.TrustedKey,
        "timestamp_authorities": trust_policy.TimestampAuthority,
        "revoked": trust_policy.Revoked,
        "accepts": trust_policy.Accepts,
        "limits": trust_policy.SizeLimits,
    }
    for table, struct in tables.items():
        for name in struct.__struct_fields__:
            assert f"| `{table}.{name}` |" in section, name


def test_the_policy_on_the_page_is_a_policy(tmp_path: Path) -> None:
    page = DOCS / "reference" / "trust-policy.md"
    (example, *_) = (block.code for block in blocks_of(page) if block.language == "toml")
    (tmp_path / "trust.toml").write_text(example)
    shutil.copy(DOCS.parent / "tests" / "golden" / "golden.pub", tmp_path / "ci.pub")
    policy = policy_reader.read_policy(tmp_path / "trust.toml")
    assert (policy.name, policy.threshold, policy.minimum_version) == ("digits", 1, "1.0.0")
