"""Another version of an engine's package: run by `aotc certify`, accepted by a certifier's word."""

import contextlib
import io
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base.errors import IncompatibleRuntimeError
from aotc_runtime.schema.certified_releases import Release
from tests.engines.conftest import Other
from tests.hostile.archives import on_disk
from tests.hostile.doors import toolchain
from tests.hostile.tampering import in_memory, signed, take_apart

ELSEWHERE = "0.0.98"
"""A version that nobody runs."""


@pytest.fixture(scope="session")
def release(other: Other) -> Release:
    """Return what is installed here."""
    return Release(other.runtime, version(other.runtime))


@pytest.fixture
def built_elsewhere(sums: Path, tmp_path: Path) -> Path:
    """A folder with that engine's bundle as one of another version, and policies with a certifier
    and without.
    """
    documents = take_apart(in_memory(sums / "sums.aotb"))
    documents.manifest["requires"]["device"]["accepts_plugin"] = [ELSEWHERE]
    builder = LocalSigner.ephemeral()
    on_disk(signed(documents, builder), "archive", tmp_path).rename(tmp_path / "sums.aotb")
    assert aotc("keygen", "--plain", tmp_path / "certifier") == 0
    text = policy_text("sums", [builder.public_pem()])
    (tmp_path / "trust.toml").write_text(text)
    more = '\n[[certifiers]]\nname = "fleet"\npublic_key_file = "certifier.pub"\n'
    (tmp_path / "accepting.toml").write_text(text + more)
    return tmp_path


def aotc(*arguments: object) -> Any:
    """Return the document of a command, or its exit code where it has none."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = toolchain(list(map(str, arguments)))
    return json.loads(printed.getvalue()) if "--json" in arguments else code


def test_a_certified_version_loads_where_the_policy_names_the_certifier_and_nowhere_else(
    built_elsewhere: Path, release: Release
) -> None:
    bundle = built_elsewhere / "sums.aotb"
    trust, accepting = built_elsewhere / "trust.toml", built_elsewhere / "accepting.toml"
    for policy, codes in ((trust, ["AOTC-E403"]), (accepting, ["AOTC-E403", "AOTC-E412"])):
        with pytest.raises(IncompatibleRuntimeError) as refused:
            aotc_runtime.load(bundle, trust=policy)
        assert [finding.code for finding in refused.value.findings] == codes
    (row,) = aotc("compat", bundle, "--json")["hosts"]
    assert (row["runs"], row["level"]) == (None, "unknown")
    key = ("--key", built_elsewhere / "certifier.key")
    asked = ("--python", sys.executable, "--trust", accepting, *key)
    done = aotc("certify", bundle, *asked, "--json")
    assert (done["findings"], done["certificates_added"]) == ([], 1)
    (trial,) = done["trials"]
    assert (trial["outcome"], Release(trial["package"], trial["version"])) == ("passed", release)
    assert trial["packages"][release.package] == release.version
    assert {fixture["within_tolerance"] for fixture in trial["fixtures"]} == {True}
    with pytest.raises(IncompatibleRuntimeError):
        aotc_runtime.load(bundle, trust=trust)
    with aotc_runtime.load(bundle, trust=accepting) as loaded:
        found = loaded.report()["certified"]
    assert Release(found["package"], found["version"]) == release
    assert (found["built_with"], found["names"]) == (ELSEWHERE, ["fleet"])
    (row,) = aotc("compat", bundle, "--trust", accepting, "--json")["hosts"]
    assert row["targets"][0]["evidence"]["certified"]["version"] == release.version
    (claim,) = [
        each for each in aotc("inspect", bundle, "--json")["signatures"] if "outcome" in each
    ]
    assert (claim["package"], claim["version"]) == (release.package, release.version)
    again = aotc("certify", bundle, *asked, "--json")
    assert again["certificates_added"] == 1
    claims = [each for each in aotc("inspect", bundle, "--json")["signatures"] if "outcome" in each]
    assert len(claims) == 1, "the same key's older one is replaced"
