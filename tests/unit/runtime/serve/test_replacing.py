"""Bundles that are replaced, refused, unloaded and added while a server is asked."""

import json
import shutil
import signal
import socket
from pathlib import Path

import pytest
from hostile.tampering import flipped
from replacing import INPUTS, Versions, X, asking
from served import serving
from waiting import SECONDS, until

import aotc_runtime
from tests.conftest import Bundle
from tests.running import python


@pytest.fixture
def versions(digits_bundle: Bundle, tmp_path: Path) -> Versions:
    return Versions(digits_bundle[0], tmp_path)


@pytest.fixture(scope="module")
def expected(digits_bundle: Bundle) -> bytes:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        return bundle["predict"](X)["probabilities"].tobytes()


@pytest.mark.parametrize("options", [(), ("--max-delay", "2")], ids=["alone", "joined"])
def test_a_new_bundle_takes_the_place_of_the_old_one_without_a_lost_request(
    options: tuple[str, ...], versions: Versions, tmp_path: Path, expected: bytes
) -> None:
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    with serving([place], [versions.trust], *options) as served:
        with asking(served, expected) as got:
            until(lambda: len(got) > 50, "calls of the old one")
            for number in (1, 2, 3):
                versions.write(f"1.{number}.0", place)
                served.process.send_signal(signal.SIGHUP)
                served.wait_for("serving", number + 1)
            start = len(got)
            until(lambda: len(got) > start + 50, "calls of the new one")
        assert {version for _, version in got} >= {"1.0.0", "1.3.0"}
        assert {version for _, version in got[-20:]} == {"1.3.0"}
        assert served.get("/v2/models/digits")[1]["versions"] == ["1.3.0"]
        assert served.get("/v2/models/digits/versions/1.0.0")[0] == 404


def test_rejected_bundle_keeps_old(versions: Versions, tmp_path: Path, expected: bytes) -> None:
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    with serving([place], [versions.trust]) as served:
        with asking(served, expected) as got:
            damaged = tmp_path / "damaged"
            damaged.write_bytes(flipped(place.read_bytes()))
            damaged.replace(place)
            served.process.send_signal(signal.SIGHUP)
            refused = served.wait_for("refused")
            start = len(got)
            until(lambda: len(got) > start + 20, "calls after it was refused")
        assert refused["serving"] == "1.0.0" and refused["reason"].startswith("AOTC-E")
        assert "\n" not in refused["reason"]
        counted = served.ask("GET", "/metrics")[2].decode()
        code = refused["codes"][0]
        assert f'aotc_reloads_total{{code="{code}",result="refused"}} 1.0' in counted
        assert 'aotc_reloads_total{code="",result="loaded"} 1.0' in counted
        assert served.get("/v2/health/ready")[0] == 200
        (row,) = served.post("/v2/repository/index")[1]
        assert row["state"] == "READY" and row["reason"].startswith("AOTC-E")
        versions.write("1.1.0", place)
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("serving", 2)
        assert served.post("/v2/repository/index")[1][0]["reason"] == ""
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("unchanged")
        counted = served.ask("GET", "/metrics")[2].decode()
        assert 'aotc_reloads_total{code="",result="unchanged"} 1.0' in counted


def minimum(text: str) -> str:
    return text.replace("\n[[", '\nminimum_version = "2.0.0"\n\n[[', 1)


def damaged_policy(text: str) -> str:
    return text + "\nnonsense"


def revoked_root(text: str, digest: str) -> str:
    return f'{text}\n[revoked]\nroots = ["{digest}"]\n'


@pytest.mark.parametrize("mode", ["stop", "drain", "serve"])
def test_revoking_policy_makes_it_unready(mode: str, versions: Versions, tmp_path: Path) -> None:
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    delay = "1000" if mode == "stop" else "0.2"
    options = ["--on-revoked", mode, "--drain-delay", delay]
    with serving([place], [versions.trust], *options) as served:
        text = versions.trust.read_text()
        digest = served.said("serving")[0]["digest"]
        versions.trust.write_text(revoked_root(text, digest))
        served.process.send_signal(signal.SIGHUP)
        revoked = served.wait_for("revoked")
        assert (revoked["digest"], revoked["codes"]) == (digest, ["AOTC-E313"])
        assert served.get("/v2/health/ready") == (503, {"ready": False})
        assert served.gauge("revoked_bundles") == 1
        if mode == "serve":
            assert served.infer("digits", INPUTS)[0] == 200
            assert served.get("/v2/models/digits/ready")[0] == 503
        else:
            served.wait_for("withdrawn")
            status, document, _ = served.infer("digits", INPUTS)
            assert (status, document["code"]) == (503, "AOTC-E786")
            (row,) = served.post("/v2/repository/index")[1]
            assert row["state"] == "UNAVAILABLE" and "AOTC-E313" in row["reason"]
        versions.trust.write_text(text)
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("serving", 2)
        until(lambda: served.get("/v2/health/ready")[0] == 200, "it is ready again")
        assert served.infer("digits", INPUTS)[0] == 200 and served.gauge("revoked_bundles") == 0


@pytest.mark.parametrize("is_replaced", [False, True], ids=["same file", "another file"])
def test_revocation_is_of_the_bundle(is_replaced: bool, versions: Versions, tmp_path: Path) -> None:
    """A minimum version refuses 1.0.0, whatever lies in its place by now."""
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    with serving([place], [versions.trust]) as served:
        if is_replaced:
            versions.write("1.1.0", place)
        versions.trust.write_text(minimum(versions.trust.read_text()))
        served.process.send_signal(signal.SIGHUP)
        assert served.wait_for("revoked")["codes"] == ["AOTC-E307"]
        assert served.get("/v2/health/ready")[0] == 503


def test_policy_that_cannot_be_read_revokes_nothing(versions: Versions, tmp_path: Path) -> None:
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    with serving([place], [versions.trust]) as served:
        text = versions.trust.read_text()
        for wrong in (damaged_policy(text), ""):
            versions.trust.write_text(wrong)
            served.process.send_signal(signal.SIGHUP)
            count = len(served.said("refused")) + 1
            assert "AOTC-E3" in served.wait_for("refused", count)["reason"]
        assert served.get("/v2/health/ready")[0] == 200 and served.said("revoked") == []
        assert served.infer("digits", INPUTS)[0] == 200


def test_untrusted_is_never_loaded(digits_bundle: Bundle, versions: Versions) -> None:
    with serving([digits_bundle[0]], [versions.trust], ready=False) as served:
        assert served.process.wait(SECONDS) == 5
        served.read_all()
        assert served.events[-1]["findings"][0]["code"].startswith("AOTC-E30")
        assert served.said("serving") == served.said("refused") == []


def test_versions_serve_beside_each_other(versions: Versions, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    versions.write("1.10.0", folder / "b.aotb")
    versions.write("1.9.0", folder / "a.aotb")
    with serving([folder], [versions.trust], "--control") as served:
        assert served.get("/v2/models/digits")[1]["versions"] == ["1.10.0", "1.9.0"]
        assert served.infer("digits", INPUTS)[1]["model_version"] == "1.10.0"
        assert served.infer("digits/versions/1.9.0", INPUTS)[1]["model_version"] == "1.9.0"
        versions.write("2.0.0", folder / "c.aotb")
        assert served.post("/v2/repository/models/digits/load") == (200, {})
        assert served.infer("digits", INPUTS)[1]["model_version"] == "2.0.0"
        shutil.copyfile(folder / "c.aotb", folder / "d.aotb")
        status, document = served.post("/v2/repository/models/digits/load")
        assert (status, document["code"]) == (409, "AOTC-E780")
        assert served.get("/v2/health/ready")[0] == 200
        assert served.post("/v2/repository/models/digits/unload") == (200, {})
        assert served.get("/v2/models/digits/ready")[0] == 404
        assert served.get("/v2/health/live")[0] == 200
        status, _, _ = served.ask(
            "POST", "/v2/repository/models/digits/load", b"", {"Origin": "http://example.org"}
        )
        assert status == 403


def test_unready_before_the_last_fixture_matched(digits_bundle: Bundle) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:], ready=False) as served:
        status, document = served.get("/v2/health/ready")
        before = bool(served.said("serving"))
        assert served.get("/v2/health/live")[0] == 200
        assert (status == 503 and document == {"ready": False}) or before
        served.wait_for("ready")
        assert served.get("/v2/health/ready") == (200, {"ready": True})


def test_an_address_that_is_taken_is_refused(digits_bundle: Bundle) -> None:

    with socket.create_server(("127.0.0.1", 0)) as other:
        places = (digits_bundle[0], "--trust", digits_bundle[1], "--port", other.getsockname()[1])
        done = python("-m", "aotc_runtime", "serve", *places, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["findings"][0]["code"] == "AOTC-E782"
