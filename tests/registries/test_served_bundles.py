"""Servers of bundles that are named by references."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from aotc.workshops.registries.push import push
from aotc_runtime.registries.references import Reference
from aotc_runtime.servers.loading import Settings
from aotc_runtime.servers.repository import Repository
from aotc_runtime.system.passing import look_into
from tests.registries.conftest import Connect
from tests.registries.oci_server import OciServer
from tests.served import serving
from tests.unit.runtime.servers.test_replacing import INPUTS, Versions


@pytest.fixture
def versions(digits_bundle: tuple[Path, Path], tmp_path: Path) -> Versions:
    return Versions(digits_bundle[0], tmp_path)


def pushed(versions: Versions, version: str, connect: Connect, folder: Path) -> Reference:
    """A version, under the tag `live`, which it takes from others."""
    versions.write(version, folder / "digits.aotb")
    with connect("models/digits:live") as there:
        return push(look_into(folder / "digits.aotb"), there, None, 0.0).place


def test_what_a_digest_names_is_served_from_the_store_once_it_is_there(
    versions: Versions, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    place = str(pushed(versions, "1.0.0", connect, tmp_path))
    assert "@sha256:" in place
    for _ in range(2):
        with serving([place], [versions.trust], "--store", str(tmp_path / "store")) as served:
            status, answer, _ = served.infer("digits", INPUTS)
            assert (status, answer["model_version"]) == (200, "1.0.0")
        server.close()  # the second time, nobody answers


def test_a_tag_is_asked_again_when_the_server_looks_for_what_has_changed(
    versions: Versions, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    pushed(versions, "1.0.0", connect, tmp_path)
    place = f"oci://{server.address}/models/digits:live"
    with serving([place], [versions.trust], "--store", str(tmp_path / "store")) as served:
        assert served.infer("digits", INPUTS)[1]["model_version"] == "1.0.0"
        assert served.wait_for("looking") == {"event": "looking", "bundle": place}
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("looking", 2)
        pushed(versions, "2.0.0", connect, tmp_path)
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("serving", 2)
        assert served.infer("digits", INPUTS)[1]["model_version"] == "2.0.0"


def test_what_a_tag_names_still_is_not_loaded_again(
    versions: Versions, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    pushed(versions, "1.0.0", connect, tmp_path)
    place, told = f"oci://{server.address}/models/digits:live", list[tuple[str, str]]()
    settings = Settings(store=tmp_path / "store")
    repository = Repository(
        [place], [versions.trust], settings, lambda word, facts: told.append((word, str(facts)))
    )
    repository.load_all(strict=True)
    (first,) = repository.bundles()
    assert repository.load_all(strict=False) == ()
    repository.load_model("digits")
    assert repository.bundles() == [first]
    assert [word for word, _ in told] == ["looking", "serving", "looking", "looking"]
    versions.trust.write_bytes(versions.trust.read_bytes() + b"# changed")
    assert repository.load_all(strict=False) == () and repository.bundles() != [first]
    (second,) = repository.bundles()
    server.close()
    (finding,) = repository.load_all(strict=False)
    assert (finding.code, repository.bundles()) == ("AOTC-E772", [second])
    assert told[-1][0] == "refused" and "'serving': '1.0.0'" in told[-1][1]
    assert repository.index()[0].reason.startswith("AOTC-E772")
    repository.close()


def test_certificates_of_the_registry_can_be_named(
    versions: Versions, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    place = str(pushed(versions, "1.0.0", connect, tmp_path))
    options = ("--store", str(tmp_path / "store"), "--ca", str(tmp_path / "none.pem"))
    with serving([place], [versions.trust], *options, ready=False) as served:
        assert "AOTC-E770" in served.wait_for("refused")["reason"]
    # A bundle that is a file asks none.
    file = str(tmp_path / "digits.aotb")
    with serving([file], [versions.trust], *options) as served:
        assert served.infer("digits", INPUTS)[0] == 200


def test_a_reference_to_nothing_ends_the_start_with_the_reason(
    versions: Versions, server: OciServer, tmp_path: Path
) -> None:
    place = f"oci://{server.address}/models/nowhere:live"
    options = ("--store", str(tmp_path / "store"))
    with serving([place], [versions.trust], *options, ready=False) as served:
        assert "AOTC-E77" in served.wait_for("refused")["reason"]
