"""Provenance that nobody trusts names files, packages and targets: `aotc reproduce` does nothing
with such names but what it does with those that a build records.
"""

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.base.errors import ReproducibilityError
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.added_attestations import with_attestations
from aotc.commands.reproduce.build_recipe import read_recipe
from aotc.commands.reproduce.rebuilt_bundle import reproduce
from aotc.commands.reproduce.reproducibility_check import module_text
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import TrustError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from tests.conftest import MANIFESTS, Bundle
from tests.refusals import error_of

NONE = {"sha256": "0" * 64}

Forge = Callable[[Callable[[dict[str, Any]], None]], Path]


@pytest.fixture
def forged(digits_bundle: Bundle, tmp_path: Path) -> Forge:
    """The bundle with other provenance, signed by somebody: nothing of its root changes."""

    def forge(change: Callable[[dict[str, Any]], None]) -> Path:
        path = tmp_path / "digits.aotb"
        shutil.copy(digits_bundle[0], path)
        contents, envelopes = read_unverified(open_bundle(path))
        payloads = [base64.b64decode(json.loads(each)["payload"]) for each in envelopes]
        (statement,) = (s for s in map(json.loads, payloads) if "slsa" in s["predicateType"])
        change(statement["predicate"]["buildDefinition"])
        made = attest(
            contents.root_digest, "digits", statement["predicate"], LocalSigner.ephemeral()
        )
        with_attestations(path, contents.root_digest, [made.envelope], lambda old: True)
        return path

    return forge


def dependency(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda build: build["resolvedDependencies"].append(fields)


def inner(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda build: build["internalParameters"].update(fields)


def manifest_named(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda build: build["externalParameters"]["manifest"].update(name=name)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (manifest_named("/etc/passwd"), "the name of a build manifest"),
        (manifest_named(""), "the name of a build manifest"),
        (manifest_named(".."), "the name of a build manifest"),
        (manifest_named("../manifests/digits.toml"), "the name of a build manifest"),
        (manifest_named("a\0b"), "the name of a build manifest"),
        (manifest_named("/" + "a" * 5000), "the name of a build manifest"),
        (dependency(name="a\0b", digest=NONE), "the path of a file"),
        (dependency(name="", digest=NONE), "the path of a file"),
        (dependency(uri="pkg:pypi/@1"), "the name and version of a package"),
        (dependency(uri="pkg:pypi/x@"), "the name and version of a package"),
        (
            dependency(uri="pkg:pypi/--index-url=http://localhost@1"),
            "the name and version of a package",
        ),
        (
            dependency(uri="pkg:pypi/x@https://localhost/x.whl#@1"),
            "the name and version of a package",
        ),
        (dependency(uri="pkg:pypi/x@1.0+local.zip"), "the name and version of a package"),
        (dependency(uri="pkg:pypi/x@1.0.whl"), "the name and version of a package"),
        (dependency(uri="pkg:pypi/x@1 --pre"), "the name and version of a package"),
        (
            dependency(name="aotc", uri="pkg:pypi/aotc@1", annotations={"code": "sha256:x"}),
            "the digest of the code of 'aotc'",
        ),
        (inner(requested_targets=["a\0b"]), "names of targets"),
        (inner(requested_targets=["x" * 200_000]), "targets of at most 65536 characters"),
        (inner(requested_targets=["x" * 65_536]), "targets of at most 65536 characters"),
        (inner(requested_targets=[""] * 70_000), "targets of at most 65536 characters"),
        (inner(python="C\x1b[31m"), "the name and version of a Python"),
        (inner(revision={"gitCommit": "\x1b[31m", "dirty": True}), "the digest of a git commit"),
    ],
)
def test_a_name_that_no_build_records_is_refused_before_anybody_looks_it_up(
    forged: Forge, change: Callable[[dict[str, Any]], None], expected: str
) -> None:
    (finding,) = error_of(ReproducibilityError, read_recipe, forged(change), None).findings
    assert (finding.code, finding.expected) == ("AOTC-E945", expected)
    assert len(finding.found) < 1000


def test_as_many_targets_as_a_command_line_takes_are_read(forged: Forge) -> None:
    _, recipe = read_recipe(forged(inner(requested_targets=["x" * 65_535])), None)
    assert recipe.targets == ("x" * 65_535,)


@pytest.mark.parametrize(("who", "code"), [("stranger", "AOTC-E302"), ("revoked", "AOTC-E313")])
def test_provenance_that_no_policy_accepts_names_nothing(
    who: str, code: str, forged: Forge, digits_bundle: Bundle, tmp_path: Path
) -> None:
    bundle, trusted = digits_bundle
    path = forged(dependency(name="evil", uri="pkg:pypi/evil@1.0"))
    named = error_of(ReproducibilityError, reproduce, path, MANIFESTS)
    assert (named.code, named.findings[-1].hint) == ("AOTC-E944", "run `pip install evil==1.0`")
    policy = tmp_path / "trust.toml"
    policy.write_text(trusted.read_text())
    if who == "revoked":
        path, root = bundle, read_unverified(open_bundle(bundle))[0].root_digest
        policy.write_text(f'{trusted.read_text()}\n[revoked]\nroots = ["{root}"]\n')
    with pytest.raises(TrustError) as caught:
        reproduce(path, MANIFESTS, policy=read_policy(policy))
    assert caught.value.code == code


def test_files_outside_of_the_sources_are_named_and_not_read(forged: Forge, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a file of this user")
    digest = {"sha256": sha256(b"a file of this user").removeprefix("sha256:")}
    outside = (str(secret), os.path.relpath(secret, MANIFESTS))

    def change(build: dict[str, Any]) -> None:
        for name in outside:
            build["resolvedDependencies"].append({"name": name, "digest": digest})

    caught = error_of(ReproducibilityError, reproduce, forged(change), MANIFESTS)
    assert sorted((f.code, f.where) for f in caught.findings) == sorted(
        ("AOTC-E943", str(MANIFESTS / name)) for name in outside
    ), "though their digests are right"
    assert {finding.found for finding in caught.findings} == {
        "a path that leads out of the sources, which is not read"
    }


@pytest.mark.parametrize("kind", ["absolute", "relative"])
def test_outside_target_is_named_not_read(kind: str, forged: Forge, tmp_path: Path) -> None:
    secret = tmp_path / "secret.toml"
    secret.write_text("secret = of this user\n")
    name = str(secret) if kind == "absolute" else os.path.relpath(secret, MANIFESTS)
    with pytest.raises(ReproducibilityError) as caught:
        reproduce(forged(inner(requested_targets=["native", name])), MANIFESTS)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E943", str(MANIFESTS / name))
    assert finding.found.startswith("a path that leads out") and "of this user" not in str(finding)


@pytest.mark.parametrize("kind", ["endless", "pipe", "folder"])
def test_irregular_file_is_no_source(forged: Forge, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, source)
    odd = source / "odd"
    match kind:
        case "endless":
            odd.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(odd)
        case _:
            odd.mkdir()
    with pytest.raises(ReproducibilityError) as caught:
        reproduce(forged(dependency(name="odd", digest=NONE)), source)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E943", str(odd))
    assert finding.found == ("Is a directory" if kind == "folder" else "no regular file")


def test_a_module_that_jaxlib_cannot_read_is_read_elsewhere_and_told() -> None:
    assert module_text(b"ML\xefR no module").startswith("jaxlib cannot read it: exit status")


def test_a_manifest_is_found_by_its_name_as_it_is_and_not_as_a_pattern(forged: Forge) -> None:
    with pytest.raises(ReproducibilityError) as caught:
        reproduce(forged(manifest_named("d[i]gits.toml")), MANIFESTS)
    assert caught.value.code == "AOTC-E942"
