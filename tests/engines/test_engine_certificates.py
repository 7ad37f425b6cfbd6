"""Another version of an engine's package: run by `aotc certify`, accepted by a certifier's word."""

from __future__ import annotations

import json
import os
import subprocess
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
from tests.hostile.tampering import in_memory, signed, take_apart
from tests.unit.commands.certify.cached_environment import packages_of_this

ELSEWHERE = "0.0.98"
"""A version that nobody runs."""


@pytest.fixture(scope="session")
def release(other: Other) -> Release:
    """What is installed here."""
    return Release(other.runtime, version(other.runtime))


@pytest.fixture(scope="session")
def cache(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """$XDG_CACHE_HOME with an environment that has the packages of this one."""
    return packages_of_this(tmp_path_factory.mktemp("cache"), release)


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


def aotc(*arguments: object, cache: Path | None = None) -> Any:
    """Exit code of a command; its document where it has one."""
    environment = {**os.environ, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    command = [sys.executable, "-m", "aotc.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.returncode


def test_a_certified_version_loads_where_the_policy_names_the_certifier_and_nowhere_else(
    built_elsewhere: Path, release: Release, cache: Path
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
    asked = ("--with", f"{release.package}=={release.version}", "--trust", accepting, *key)
    done = aotc("certify", bundle, *asked, "--json", cache=cache)
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
    again = aotc("certify", bundle, *asked, "--json", cache=cache)
    assert again["certificates_added"] == 1
    claims = [each for each in aotc("inspect", bundle, "--json")["signatures"] if "outcome" in each]
    assert len(claims) == 1, "the same key's older one is replaced"


def test_another_package_is_refused_before_anything_is_installed(
    built_elsewhere: Path, other: Other, tmp_path: Path
) -> None:
    asked = ("--jaxlib", "0.12.0", "--trust", built_elsewhere / "trust.toml", "--json")
    done = aotc("certify", built_elsewhere / "sums.aotb", *asked, cache=tmp_path / "none")
    (found,) = done["findings"]
    assert (found["code"], found["found"]) == ("AOTC-E505", f"code for {other.runtime}")
    assert not (tmp_path / "none").exists()
