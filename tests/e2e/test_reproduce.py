"""`aotc reproduce` and `aotc build --check-reproducible`: the same bytes again, or what differs."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aotc.base.errors import CaptureError, ReproducibilityError
from aotc.bundle.read.bundle_review import review
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.added_attestations import with_attestations
from aotc.commands.reproduce.rebuilt_bundle import reproduce
from aotc.commands.reproduce.reproducibility_check import BuildAgain
from aotc.pipeline import code_identity
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.report.inspect_report import bundle_report
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding, TrustError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import parse_policy
from tests.refusals import error_of
from tests.small_manifests import one_function

# What the tests change is read when it is imported, which no provenance can record.
PROGRAM = """
import os
import jax
import jax.numpy as jnp

SCALE = float(os.environ.get("SCALE_OF_THE_TEST", "1"))

def weights():
    return {"w": jnp.full((3, 3), 2.0) + float(os.environ.get("WEIGHT_OF_THE_TEST", "0"))}

def f(params, x):
    key = jax.random.key(3)
    order = jnp.argsort(x[:, 0])
    inverse = jnp.linalg.inv(params["w"] + 5 * jnp.eye(3))
    noise = jax.random.normal(key, (3,))
    total, _ = jax.lax.scan(lambda c, row: (c + row, None), noise, x[order])
    return (total @ inverse) * SCALE
"""

# For tests in which it does not matter what is computed.
PLAIN = (
    PROGRAM.partition("def f(")[0]
    + """
def f(params, x):
    return x @ params["w"] * SCALE
"""
)

MANIFEST = one_function(
    "small", "[4, 3]", "tolerance = { rtol = 1e-4, atol = 1e-5 }", weights='init = "small:weights"'
)

SIGNER = LocalSigner.ephemeral()
POLICY = parse_policy(policy_text("small", [SIGNER.public_pem()]), Path(), "trust.toml")


def built_and_signed(folder: Path, program: str) -> Path:
    """small.aotb beside its sources, in src."""
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "small.py").write_text(program)
    (folder / "src" / "deep" / "small.toml").write_text(MANIFEST)
    build(
        folder / "src" / "deep" / "small.toml", folder / "small.aotb", BuildOptions(signer=SIGNER)
    )
    return folder / "small.aotb"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_and_signed(tmp_path_factory.mktemp("signed"), PLAIN)


def copied(signed: Path, folder: Path) -> Path:
    """The folder, with a copy of the bundle and of its sources in elsewhere."""
    shutil.copytree(signed.parent / "src", folder / "elsewhere")
    shutil.copy(signed, folder / "small.aotb")
    return folder


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return copied(signed, tmp_path)


def envelopes(path: Path) -> Iterator[dict[str, Any]]:
    _, found = read_unverified(open_bundle(path))
    for envelope in found:
        yield json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def with_provenance(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Sign other provenance in place of the bundle's own."""
    contents, _ = read_unverified(open_bundle(path))
    (statement,) = (s for s in envelopes(path) if "slsa" in s["predicateType"])
    change(statement["predicate"]["buildDefinition"])
    made = attest(contents.root_digest, "small", statement["predicate"], SIGNER)
    with_attestations(path, contents.root_digest, [made.envelope], lambda old: True)


def built_by(digest: str) -> Callable[[dict[str, Any]], None]:
    """Provenance of a build by an aotc of this version with other code."""

    def change(build: dict[str, Any]) -> None:
        for each in build["resolvedDependencies"]:
            if each["name"] == "aotc":
                each["annotations"]["code"] = digest

    return change


OTHER_CODE = f"sha256:{'0' * 64}"


def test_a_bundle_is_built_again_elsewhere_byte_for_byte(tmp_path: Path) -> None:
    bundle = built_and_signed(tmp_path, PROGRAM)
    elsewhere = (tmp_path / "src").rename(tmp_path / "elsewhere")
    done = reproduce(bundle, elsewhere, policy=POLICY)
    contents, _ = read_unverified(open_bundle(bundle))
    assert done.root_digest == contents.root_digest
    assert done.recipe.signers == (SIGNER.key_id,)
    assert done.manifest == elsewhere / "deep" / "small.toml"
    assert {"small.py"} == set(done.recipe.files)
    assert {"jax", "jaxlib", "numpy", "aotc"} <= set(done.recipe.packages)
    assert done.recipe.code == code_identity.code_digests()
    assert not any("code of" in note for note in done.notes)


@pytest.fixture(scope="module")
def different(signed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    """Of a bundle that other code than ours has built, while variables that its program reads were
    not set, and are set now to what makes a difference.
    """
    folder = copied(signed, tmp_path_factory.mktemp("different"))
    with_provenance(folder / "small.aotb", built_by(OTHER_CODE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALE_OF_THE_TEST", "2")
        patch.setenv("WEIGHT_OF_THE_TEST", "1")
        with pytest.raises(ReproducibilityError) as caught:
            reproduce(folder / "small.aotb", folder / "elsewhere", policy=POLICY)
    return [*caught.value.findings]


def test_unrecorded_causes_are_told_by_first_differing_stage(different: list[Finding]) -> None:
    first, second, _, *others = different
    assert [(each.code, each.where, each.found) for each in (first, second)] == [
        ("AOTC-E946", f"variable {name}_OF_THE_TEST", "set") for name in ("SCALE", "WEIGHT")
    ]
    stages = [finding.where.partition(":")[0] for finding in others]
    assert {finding.code for finding in others} == {"AOTC-E940"}
    assert stages[:2] == ["module", "weights"]
    assert "+    %cst = stablehlo.constant dense<2.0" in others[0].found, (
        "the difference of the texts"
    )


def test_other_code_of_same_version_is_first_suspect(different: list[Finding]) -> None:
    # Variables that differ are the program's own doing; then comes the toolchain's code.
    *variables, first = different[:3]
    assert all(each.code == "AOTC-E946" for each in variables)
    assert first.code == "AOTC-E944" and first.where.startswith("code of aotc ")
    assert OTHER_CODE in first.expected and code_identity.code_digests()["aotc"] in first.found
    assert {finding.code for finding in different[3:]} == {"AOTC-E940"}


READING = f"{PLAIN}\nos.environ.get('OTHER_OF_THE_TEST')\n"
"""Besides a variable that changes nothing."""

VALUES = {"SCALE_OF_THE_TEST": "31415", "OTHER_OF_THE_TEST": "1"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Built], list[Any]]:
    """small.aotb of a program that was run with VALUES, beside its sources, in src; the builds that
    gave it, the first without and the second with what the cache had, and their provenance.
    """
    folder = tmp_path_factory.mktemp("recorded")
    bundle = folder / "small.aotb"
    builds: list[Built] = []
    statements: list[Any] = []
    (folder / "src").mkdir()
    (folder / "src" / "small.py").write_text(READING)
    (folder / "src" / "small.toml").write_text(MANIFEST)
    cache = LocalStore(folder / "cache", 1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VALUES.items():
            patch.setenv(name, value)
        for _ in range(2):
            manifest = folder / "src" / "small.toml"
            builds.append(build(manifest, bundle, BuildOptions(signer=SIGNER, cache=cache)))
            statements.extend(s for s in envelopes(bundle) if "slsa" in s["predicateType"])
    return bundle, builds, statements


def test_provenance_has_variables_not_values(recorded: tuple[Path, list[Built], list[Any]]) -> None:
    bundle, builds, statements = recorded
    assert len(statements) == 2
    for again, done, statement in zip((False, True), builds, statements, strict=True):
        assert all(t.cached is again for t in done.tasks if t.task.kind == "reference")
        internal = statement["predicate"]["buildDefinition"]["internalParameters"]
        assert internal["variables"] == {
            "SCALE_OF_THE_TEST": "set",
            "WEIGHT_OF_THE_TEST": "not set",
            "OTHER_OF_THE_TEST": "set",
        }
        assert "31415" not in json.dumps(statement)
    (claim, *_) = bundle_report(review(open_bundle(bundle), None, datetime.now(UTC)))["signatures"]
    assert claim["variables"] == internal["variables"]


def test_a_variable_that_the_recorded_build_read_is_told_by_its_name(
    recorded: tuple[Path, list[Built], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = recorded[0]
    monkeypatch.setenv("OTHER_OF_THE_TEST", "27182")
    caught = error_of(ReproducibilityError, reproduce, bundle, bundle.parent / "src")
    first, second, third, *_ = caught.findings
    assert (first.code, first.where) == ("AOTC-E946", "variable SCALE_OF_THE_TEST")
    assert (first.found, first.hint) == (
        "not set",
        "set SCALE_OF_THE_TEST as in the recorded build; provenance holds no values",
    )
    assert second.found == "OTHER_OF_THE_TEST"
    assert third.code == "AOTC-E940"


@pytest.fixture(scope="module")
def alike(
    recorded: tuple[Path, list[Built], list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ...]:
    """Differences of code and of variables are noted for a bundle that is the same again."""
    folder = copied(recorded[0], tmp_path_factory.mktemp("alike"))
    with_provenance(folder / "small.aotb", built_by(OTHER_CODE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALE_OF_THE_TEST", "31415.0")
        patch.setenv("OTHER_OF_THE_TEST", "27182")
        patch.setenv("WEIGHT_OF_THE_TEST", "0")
        return reproduce(folder / "small.aotb", folder / "elsewhere", policy=POLICY).notes


def test_a_variable_that_made_no_difference_is_noted(alike: tuple[str, ...]) -> None:
    note, _ = alike
    assert note == (
        "variable WEIGHT_OF_THE_TEST: environment variable does not match (set instead of "
        "not set); it made no difference"
    )


def test_other_code_of_same_version_without_difference_is_noted(alike: tuple[str, ...]) -> None:
    (note,) = (note for note in alike if note.startswith("code of aotc 0."))
    assert OTHER_CODE in note and code_identity.code_digests()["aotc"] in note


def test_changed_or_missing_sources_are_all_named_before_anything_is_built(copy: Path) -> None:
    (copy / "elsewhere" / "deep" / "small.py").write_text(PLAIN + "# changed")
    caught = error_of(ReproducibilityError, reproduce, copy / "small.aotb", copy / "elsewhere")
    assert [(f.code, Path(f.where).name) for f in caught.findings] == [("AOTC-E943", "small.py")]
    (copy / "elsewhere" / "deep" / "small.toml").write_text(MANIFEST + "\n")
    caught = error_of(ReproducibilityError, reproduce, copy / "small.aotb", copy / "elsewhere")
    assert caught.code == "AOTC-E942"
    named = copy / "elsewhere" / "deep" / "small.toml"
    with pytest.raises(ReproducibilityError) as caught:
        reproduce(copy / "small.aotb", copy / "elsewhere", manifest=named)
    assert [finding.code for finding in caught.value.findings] == ["AOTC-E942", "AOTC-E943"]


def test_sources_elsewhere_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, clone = tmp_path / "project", tmp_path / "clone"
    (project / "src").mkdir(parents=True)
    reads = "from pathlib import Path\nSIZES = Path(__file__).with_name('sizes.txt').read_text()\n"
    (project / "src" / "small.py").write_text(PLAIN + reads)
    (project / "src" / "sizes.txt").write_text("1 8 64")
    (project / "deploy").mkdir()
    (project / "deploy" / "small.toml").write_text(MANIFEST)
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    bundle = tmp_path / "small.aotb"
    build(project / "deploy" / "small.toml", bundle, BuildOptions(signer=SIGNER))
    shutil.copytree(project, clone)
    monkeypatch.setenv("PYTHONPATH", str(clone / "src"))
    assert set(reproduce(bundle, clone, policy=POLICY).recipe.files) == {"small.py", "sizes.txt"}
    # Python finds another file than the one that was looked at.
    (project / "src" / "small.py").write_text(f"{PLAIN}{reads}# another comment\n")
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    caught = error_of(ReproducibilityError, reproduce, bundle, clone, policy=POLICY)
    assert [finding.where for finding in caught.findings] == ["small.py"]
    (clone / "src" / "small.py").write_text(f"{PLAIN}{reads}# another comment\n")
    (clone / "src" / "sizes.txt").write_text("1 8 63")
    caught = error_of(ReproducibilityError, reproduce, bundle, clone, policy=POLICY)
    assert [(finding.code, finding.where) for finding in caught.findings] == [
        ("AOTC-E943", str(clone / "src" / "sizes.txt")),
        ("AOTC-E943", str(clone / "src" / "small.py")),
    ]


def test_other_packages_are_named(copy: Path) -> None:
    def change(build: dict[str, Any]) -> None:
        for each in build["resolvedDependencies"]:
            for name in ("msgspec", "aotc"):
                if each.get("uri", "").startswith(f"pkg:pypi/{name}@"):
                    each["uri"] = f"pkg:pypi/{name}@99.0.0"

    with_provenance(copy / "small.aotb", change)
    with pytest.raises(ReproducibilityError) as caught:
        reproduce(copy / "small.aotb", copy / "elsewhere", policy=POLICY)
    assert [(f.code, f.where, f.hint) for f in caught.value.findings] == [
        ("AOTC-E944", "package aotc", ""),
        ("AOTC-E944", "package msgspec", "run `pip install aotc==99.0.0 msgspec==99.0.0`"),
    ]


def test_a_build_that_fails_by_other_code_says_so_beside_its_own_findings(copy: Path) -> None:
    with_provenance(copy / "small.aotb", built_by(OTHER_CODE))
    source = copy / "elsewhere" / "deep" / "small.py"
    source.write_text(f"{PLAIN}\nimport os\nos._exit(3)\n")

    def change(build: dict[str, Any]) -> None:
        for each in build["resolvedDependencies"]:
            if each["name"] == "small.py":
                each["digest"]["sha256"] = sha256(source.read_bytes()).removeprefix("sha256:")

    with_provenance(copy / "small.aotb", change)
    caught = error_of(CaptureError, reproduce, copy / "small.aotb", copy / "elsewhere")
    assert [finding.code for finding in caught.findings] == ["AOTC-E835", "AOTC-E944"]


def test_provenance_of_a_key_that_the_policy_lacks_does_not_count(copy: Path) -> None:
    stranger = LocalSigner.ephemeral().public_pem()
    policy = parse_policy(policy_text("small", [stranger]), Path(), "trust.toml")
    caught = error_of(TrustError, reproduce, copy / "small.aotb", copy / "elsewhere", policy=policy)
    assert caught.code == "AOTC-E302"


def test_two_builds_that_differ_write_nothing(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That two which do not are packed is in `test_command_cache`."""
    manifest = copy / "elsewhere" / "deep" / "small.toml"
    output = copy / "twice.aotb"
    again = BuildAgain(manifest, (), None, None)

    def check(parts: Any) -> None:
        monkeypatch.setenv("WEIGHT_OF_THE_TEST", "1")
        again.check(parts)

    with pytest.raises(ReproducibilityError) as caught:
        build(manifest, output, BuildOptions(before_packing=check))
    assert caught.value.findings[0].where.startswith("weights:")
    assert not output.exists()


def test_provenance_and_bill_of_materials_are_signed_beside_each_other(signed: Path) -> None:
    kinds = sorted(statement["predicateType"] for statement in envelopes(signed))
    assert kinds == ["https://cyclonedx.org/bom", "https://slsa.dev/provenance/v1"]
    (made,) = (s for s in envelopes(signed) if "slsa" in s["predicateType"])
    definition = made["predicate"]["buildDefinition"]
    internal = definition["internalParameters"]
    assert internal["requested_targets"] == ["cpu-x86-64-v3"]
    assert internal["environment"]["PYTHONHASHSEED"] == "0"
    packages = [each for each in definition["resolvedDependencies"] if "uri" in each]
    assert all(each["annotations"]["files"].startswith("sha256:") for each in packages)
    text = json.dumps(made)
    assert str(signed.parent) not in text, "no path"
