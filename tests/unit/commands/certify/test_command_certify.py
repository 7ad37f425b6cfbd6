"""`aotc certify` from the command line to the loader, in the environment of the tests."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile.tampering import Documents, swap_layer
from unit.cli.conftest import Aotc

import aotc_runtime
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.signer import LocalSigner, load_signer
from aotc.bundle.write.added_attestations import with_attestations
from aotc.bundle.write.bundle_writer import Form, form_of
from aotc_runtime.base.errors import IncompatibleRuntimeError
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE
from aotc_runtime.schema.host_facts import VERSION
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified

from .conftest import ELSEWHERE, Made


@pytest.fixture
def key(aotc: Aotc, tmp_path: Path) -> Path:
    assert aotc("keygen", "--plain", "certifier").exit_code == 0
    return tmp_path / "certifier.key"


@pytest.fixture
def certify(aotc: Aotc) -> Callable[..., Any]:
    def run(*arguments: str | Path) -> Any:
        return aotc("certify", *arguments, "--python", sys.executable, "--json")

    return run


def certificates(bundle: Path) -> list[dict[str, Any]]:
    """The statements beside the builder's."""
    import base64

    _, envelopes = read_unverified(open_bundle(bundle))
    payloads = [json.loads(base64.b64decode(json.loads(e)["payload"])) for e in envelopes]
    return [p for p in payloads if p["predicateType"] == "https://aotc.dev/certificate/v1"]


def with_certifier(policy: Path, key: Path) -> Path:
    more = f'\n[[certifiers]]\nname = "fleet"\npublic_key_file = "{key.with_suffix(".pub")}"\n'
    changed = policy.with_name("with-certifier.toml")
    changed.write_text(policy.read_text("utf-8") + more)
    return changed


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_a_certified_jaxlib_loads_where_the_policy_names_the_certifier_and_nowhere_else(
    form: str, built_elsewhere: Made, certify: Any, key: Path, running_jaxlib: str
) -> None:
    bundle, policy = built_elsewhere(form=form)
    before, _ = read_unverified(open_bundle(bundle))
    accepting = with_certifier(policy, key)
    for trust in (policy, accepting):
        with pytest.raises(IncompatibleRuntimeError, match="AOTC-E401"):
            aotc_runtime.load(bundle, trust=trust)
    done = certify(bundle, "--trust", policy, "--key", key)
    assert (done.exit_code, done.document["certificates_added"]) == (0, 1)
    (trial,) = done.document["trials"]
    assert done.document["key_is_certifier"] is False
    assert (trial["outcome"], trial["version"]) == ("passed", running_jaxlib)
    assert {"label", "max_abs", "ulp_max", "seconds"} <= trial["fixtures"][0].keys()
    assert trial["packages"]["jaxlib"] == running_jaxlib
    after, _ = read_unverified(open_bundle(bundle))
    assert after.root_digest == before.root_digest == done.document["root_digest"]
    assert form_of(bundle) is (Form.ARCHIVE if form == "archive" else Form.LAYOUT)
    with pytest.raises(IncompatibleRuntimeError) as refused:
        aotc_runtime.load(bundle, trust=policy)
    assert [f.code for f in refused.value.findings] == ["AOTC-E401"]
    with aotc_runtime.load(bundle, trust=accepting) as loaded:
        found = loaded.report()["certified"]
    assert (found["package"], found["version"]) == ("jaxlib", running_jaxlib)
    assert found["built_with"] == ELSEWHERE
    assert (found["names"], found["keys"]) == (["fleet"], [done.document["key_id"]])
    assert [d["label"] for d in found["differences"]] == [
        fixture["label"] for fixture in trial["fixtures"]
    ]


def test_certificate_is_renewed(built_elsewhere: Made, certify: Any, key: Path, aotc: Aotc) -> None:
    bundle, policy = built_elsewhere()
    other = LocalSigner.ephemeral()
    assert aotc("keygen", "--plain", "other").exit_code == 0
    for signer in (key, key.with_name("other.key"), key):
        assert certify(bundle, "--trust", policy, "--key", signer).exit_code == 0
    found = certificates(bundle)
    assert len(found) == 2, "one of each key"
    told = aotc("inspect", bundle).stdout
    assert told.count("claims  jaxlib") == 2 and told.count("passed, by") == 2
    assert found[0]["predicate"]["jaxlib"] == found[1]["predicate"]["jaxlib"]
    assert aotc("verify", bundle, "--trust", policy, "--json").document["gates"][-1] == "policy"
    assert other.key_id not in bundle.read_text(errors="replace")


def test_other_jaxlib_certificate_is_kept(built_elsewhere: Made, certify: Any, key: Path) -> None:
    bundle, policy = built_elsewhere()
    assert certify(bundle, "--trust", policy, "--key", key).exit_code == 0
    (first,) = certificates(bundle)
    signer = load_signer(key, None)
    other = {**first["predicate"], "jaxlib": "0.12.99"}
    root = first["subject"][0]["digest"]["sha256"]
    made = attest(f"sha256:{root}", first["subject"][0]["name"], other, signer, CERTIFICATE_TYPE)
    with_attestations(bundle, f"sha256:{root}", [made.envelope])
    assert certify(bundle, "--trust", policy, "--key", key).exit_code == 0
    versions = [found["predicate"]["jaxlib"] for found in certificates(bundle)]
    assert sorted(versions) == sorted([first["predicate"]["jaxlib"], "0.12.99"])


def beyond(documents: Documents) -> None:
    """A reference that this bundle does not compute."""
    import numpy as np

    digest = documents.profile["fixture"]["digest"]
    data = bytearray(documents.layers[digest])
    header = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + header])
    name = next(
        name
        for name, entry in entries.items()
        if name.startswith("outputs/") and entry["dtype"] == "F32"
    )
    start, end = (8 + header + offset for offset in entries[name]["data_offsets"])
    array = np.frombuffer(data[start:end], np.float32) + np.float32(0.25)
    data[start:end] = array.tobytes()
    swap_layer(documents, digest, bytes(data))


def test_failed_certificate_is_refused(built_elsewhere: Made, certify: Any, key: Path) -> None:
    bundle, policy = built_elsewhere(beyond)
    done = certify(bundle, "--trust", policy, "--key", key)
    assert (done.exit_code, done.document["certificates_added"]) == (8, 1)
    assert [f["code"] for f in done.document["findings"]] == ["AOTC-E957"]
    (trial,) = done.document["trials"]
    assert trial["outcome"] == "beyond tolerance"
    (failed,) = [f for f in trial["fixtures"] if not f["within_tolerance"]]
    assert 0.2 < float(failed["max_abs"]) < 0.3
    with pytest.raises(IncompatibleRuntimeError) as refused:
        aotc_runtime.load(bundle, trust=with_certifier(policy, key))
    assert [f.code for f in refused.value.findings] == ["AOTC-E401", "AOTC-E413"]


def test_untrusted_bundle_is_not_run(built_elsewhere: Made, certify: Any, key: Path) -> None:
    """Without a policy, the key that certifies has to have signed the bundle itself."""
    bundle, _ = built_elsewhere()
    done = certify(bundle, "--key", key)
    assert [f["code"] for f in done.document["findings"]] == ["AOTC-E302"]
    assert certificates(bundle) == []


def test_without_a_key_nothing_is_added(built_elsewhere: Made, certify: Any) -> None:
    bundle, policy = built_elsewhere()
    before = bundle.read_bytes()
    done = certify(bundle, "--trust", policy)
    assert (done.exit_code, done.document["certificates_added"]) == (0, 0)
    assert done.document["key_id"] is None and bundle.read_bytes() == before


def environment_with(packages: dict[str, str], folder: Path, modules: Sequence[str]) -> Path:
    """Return the Python of a new environment that seems to have these packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "made"], check=True)
    (site,) = folder.glob("made/lib/python*/site-packages")
    for module in modules:
        (site / f"{module}.py").touch()
    for name, version in packages.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder / "made" / "bin" / "python"


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ({}, "neither"),
        ({"jaxlib": "0.12.0"}, "jaxlib 0.12.0"),
        ({"aotc-runtime": VERSION, "onnxruntime": "1.32.0"}, f"aotc-runtime {VERSION}"),
        ({"aotc-runtime": "0.0.9", "jaxlib": "0.12.0"}, "aotc-runtime 0.0.9, jaxlib 0.12.0"),
    ],
    ids=["neither", "no runtime", "another engine", "another runtime"],
)
def test_environment_without_its_packages_is_refused_and_others_count(
    packages: dict[str, str],
    found: str,
    built_elsewhere: Made,
    certify: Any,
    key: Path,
    tmp_path: Path,
) -> None:
    bundle, policy = built_elsewhere()
    python = environment_with(packages, tmp_path, ("cryptography", "msgspec", "numpy"))
    done = certify(bundle, "--trust", policy, "--key", key, "--python", python)
    assert (done.exit_code, done.document["certificates_added"]) == (7, 1)
    (finding,) = done.document["findings"]
    assert (finding["code"], finding["where"]) == ("AOTC-E559", str(python))
    assert (finding["found"], finding["expected"]) == (found, f"aotc-runtime {VERSION}, and jaxlib")
    assert f"{python} -m pip install aotc-runtime=={VERSION} jaxlib==" in finding["hint"]


@pytest.mark.parametrize(
    ("python", "found"),
    [
        ("/nowhere/python", "No such file or directory"),
        ("/", "a directory"),
        ("/bin/echo", "output that is not of Python"),
        ("/bin/false", "exit status 1"),
        ("", "exit status 1\n| ModuleNotFoundError: No module named 'cryptography'"),
    ],
)
def test_what_runs_no_runtime_is_refused(
    python: str, found: str, built_elsewhere: Made, aotc: Aotc, tmp_path: Path
) -> None:
    bundle, policy = built_elsewhere()
    packages = {"aotc-runtime": VERSION, "jaxlib": "0.12.0"}
    python = python or str(environment_with(packages, tmp_path, ()))
    done = aotc("certify", bundle, "--trust", policy, "--python", python, "--json")
    (finding,) = done.document["findings"]
    assert (done.exit_code, finding["code"], finding["where"]) == (7, "AOTC-E559", python)
    assert finding["found"] == found and done.document["trials"] == []
    assert finding["hint"] == "pass the Python of an environment that has aotc-runtime"


def test_no_python_is_a_usage_error(aotc: Aotc, built_elsewhere: Made) -> None:
    bundle, policy = built_elsewhere()
    done = aotc("certify", bundle, "--trust", policy)
    assert (done.exit_code, done.codes) == (2, ["AOTC-E001"])


def test_neither_key_nor_policy_is_a_usage_error(built_elsewhere: Made, certify: Any) -> None:
    bundle, _ = built_elsewhere()
    assert [f["code"] for f in certify(bundle).document["findings"]] == ["AOTC-E001"]


def needing_amx(documents: Documents) -> None:
    documents.manifest["requires"]["isa"].append("zz-made-up")
    documents.manifest["target"]["features"].append("zz-made-up")


def test_unfit_target_gets_no_certificate(built_elsewhere: Made, certify: Any, key: Path) -> None:
    bundle, policy = built_elsewhere(needing_amx)
    before = bundle.stat().st_ino
    done = certify(bundle, "--trust", policy, "--key", key)
    assert (done.exit_code, done.document["certificates_added"]) == (7, 0)
    assert [f["code"] for f in done.document["findings"]] == ["AOTC-E502"]
    assert done.document["trials"][0]["outcome"] is None and certificates(bundle) == []
    assert bundle.stat().st_ino == before, "it is not even written anew"


def test_the_text_fits_a_terminal_and_shows_differences_though_all_passed(
    built_elsewhere: Made, certify: Any, aotc: Aotc, running_jaxlib: str
) -> None:
    bundle, policy = built_elsewhere()
    assert certify(bundle, "--trust", policy).exit_code == 0
    done = aotc("certify", bundle, "--trust", policy, "--python", sys.executable)
    assert f"with jaxlib {running_jaxlib}: passed" in done.stdout
    assert "max abs" in done.stdout and "ulp" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_compat_lets_a_certificate_count_by_the_policys_word_alone(
    built_elsewhere: Made, certify: Any, key: Path, aotc: Aotc, running_jaxlib: str
) -> None:
    bundle, policy = built_elsewhere()
    (unknown,) = aotc("compat", bundle, "--json").document["hosts"]
    assert (unknown["runs"], unknown["level"]) == (None, "unknown")
    assert certify(bundle, "--trust", policy, "--key", key).exit_code == 0
    for options in ((), ("--trust", policy)):
        done = aotc("compat", bundle, *options, "--json")
        (row,) = done.document["hosts"]
        assert (done.exit_code, row["runs"], row["level"]) == (7, None, "unknown")
        (claim,) = row["targets"][0]["evidence"]["certificates"]
        assert (claim["version"], claim["outcome"]) == (running_jaxlib, "passed")
        # Nothing about certificates where none may count.
        assert [f["code"] for f in row["targets"][0]["findings"]] == ["AOTC-E401"]
        assert "add-key trust.toml --key KEY --certifier" in done.document["findings"][0]["hint"]
    done = aotc("compat", bundle, "--trust", with_certifier(policy, key), "--json")
    (row,) = done.document["hosts"]
    assert (done.exit_code, done.document["signatures_verified"]) == (0, True)
    assert row["runs"] and row["level"] == "usable"
    assert row["targets"][0]["evidence"]["certified"]["names"] == ["fleet"]


def test_compat_refuses_untrusted_bundle(built_elsewhere: Made, aotc: Aotc, key: Path) -> None:
    from aotc.bundle.trust.trust_text import policy_text

    bundle, _ = built_elsewhere()
    other = bundle.with_name("other.toml")
    other.write_text(policy_text("digits", [key.with_suffix(".pub").read_text()]))
    done = aotc("compat", bundle, "--trust", other)
    assert (done.exit_code, done.codes) == (5, ["AOTC-E302"])


def test_a_key_that_is_no_certifier_of_the_policy_is_noted_and_a_certifiers_is_not(
    built_elsewhere: Made, certify: Any, aotc: Aotc, key: Path
) -> None:
    bundle, policy = built_elsewhere()
    accepting = with_certifier(policy, key)
    counts = certify(bundle, "--trust", accepting, "--key", key).document
    assert counts["key_is_certifier"] is True
    options = ("--key", key, "--python", sys.executable)
    assert "is no certifier" in aotc("certify", bundle, "--trust", policy, *options).stderr
    assert "is no certifier" not in aotc("certify", bundle, "--trust", accepting, *options).stderr
