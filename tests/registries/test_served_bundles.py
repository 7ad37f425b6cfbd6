"""Servers of bundles that are named by references."""

import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.http_client import STALL_SECONDS
from aotc_serve.oci.oci_references import Reference
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.served_loading import Settings
from tests.registries.conftest import Connect
from tests.registries.faults import always, endless, status
from tests.registries.oci_server import INDEX, Handler, OciServer, sha256
from tests.served import Served, serving
from tests.unit.runtime.serve.test_replacing import INPUTS, Versions
from tests.waiting import SECONDS


@pytest.fixture
def versions(digits_bundle: tuple[Path, Path], tmp_path: Path) -> Versions:
    return Versions(digits_bundle[0], tmp_path)


def pushed(versions: Versions, version: str, connect: Connect, folder: Path) -> Reference:
    """A version, under the tag `live`, which it takes from others."""
    versions.write(version, folder / "digits.aotb")
    with connect("models/digits:live") as there:
        return push(open_streamed(folder / "digits.aotb"), there, None, 0.0).place


def memory_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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


@pytest.fixture
def live(versions: Versions, connect: Connect, server: OciServer, tmp_path: Path) -> str:
    """The reference of a pushed bundle, by a tag."""
    pushed(versions, "1.0.0", connect, tmp_path)
    return f"oci://{server.address}/models/digits:live"


def test_a_tag_is_asked_again_when_the_server_looks_for_what_has_changed(
    live: str, versions: Versions, connect: Connect, tmp_path: Path
) -> None:
    with serving([live], [versions.trust], "--store", str(tmp_path / "store")) as served:
        assert served.infer("digits", INPUTS)[1]["model_version"] == "1.0.0"
        assert served.wait_for("looking") == {"event": "looking", "bundle": live}
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("looking", 2)
        pushed(versions, "2.0.0", connect, tmp_path)
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("serving", 2)
        assert served.infer("digits", INPUTS)[1]["model_version"] == "2.0.0"


def loaded(
    place: str, policy: Path | TrustPolicy, folder: Path, tell: Callable[..., object]
) -> Repository:
    repository = Repository([place], [policy], Settings(store=folder / "store"), tell)
    repository.load_all(strict=True)
    return repository


def test_what_a_tag_names_still_is_not_loaded_again(
    live: str, versions: Versions, server: OciServer, tmp_path: Path
) -> None:
    told = list[tuple[str, str]]()
    repository = loaded(
        live, versions.trust, tmp_path, lambda *said: told.append(tuple(map(str, said)))
    )
    (first,) = repository.bundles()
    assert repository.load_all(strict=False) == ()
    repository.load_model("digits")
    assert repository.bundles() == [first]
    unchanged = ["looking", "unchanged"]
    assert [word for word, _ in told] == ["looking", "serving", *unchanged, *unchanged]
    versions.trust.write_bytes(versions.trust.read_bytes() + b"# changed")
    assert repository.load_all(strict=False) == () and repository.bundles() != [first]
    (second,) = repository.bundles()
    server.close()
    (finding,) = repository.load_all(strict=False)
    assert (finding.code, repository.bundles()) == ("AOTC-E772", [second])
    assert told[-1][0] == "refused" and "'serving': '1.0.0'" in told[-1][1]
    assert repository.index()[0].reason.startswith("AOTC-E772")
    repository.close()


def test_unserved_is_not_unchanged(versions: Versions, connect: Connect, tmp_path: Path) -> None:
    """A digest and a policy that is no file look the same at all times."""
    place = str(pushed(versions, "1.0.0", connect, tmp_path))
    repository = loaded(place, read_policy(versions.trust), tmp_path, lambda word, facts: None)
    assert [each.name for each in repository.bundles()] == ["digits"]
    repository.close()


def other_bytes(handler: Handler) -> None:
    """Under the digest of what serves."""
    was = handler.server.manifests["models/digits", "live"][0]
    handler.answer(200, b"{}", {"Docker-Content-Digest": sha256(was), "Content-Type": INDEX})


def elsewhere(handler: Handler) -> None:
    handler.answer(307, headers={"Location": f"http://{handler.server.address}/blobs/x"})


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (other_bytes, "AOTC-E774"),
        (status(200, b"<html>sign in</html>", Content_Type="text/html"), "AOTC-E774"),
        (endless, "AOTC-E775"),
        (elsewhere, "AOTC-E775"),
        (status(404), "AOTC-E774"),
    ],
)
def test_what_a_registry_makes_up_about_a_tag_leaves_what_serves(
    lie: Callable[[Handler], None],
    code: str,
    live: str,
    versions: Versions,
    server: OciServer,
    tmp_path: Path,
) -> None:
    repository = loaded(live, versions.trust, tmp_path, lambda word, facts: None)
    (first,) = repository.bundles()
    for method in ("GET", "HEAD"):
        server.faults.append(always(lie, method, "manifests/live"))
    before = memory_peak()
    (finding,) = repository.load_all(strict=False)
    assert (finding.code, repository.bundles()) == (code, [first])
    assert memory_peak() - before < 64 * 2**20
    server.faults.clear()
    assert repository.load_all(strict=False) == () and repository.bundles() == [first]
    assert repository.index()[0].reason == ""
    repository.close()


def test_a_registry_that_never_answers_keeps_no_server_from_serving_and_ending(
    live: str, versions: Versions, server: OciServer, tmp_path: Path
) -> None:
    over = threading.Event()
    with serving([live], [versions.trust], "--store", str(tmp_path / "store")) as served:
        server.faults.append(lambda handler: over.wait(SECONDS))
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("looking", 2)
        assert served.infer("digits", INPUTS)[1]["model_version"] == "1.0.0"
        served.process.send_signal(signal.SIGTERM)
        # Sooner than the registry is given up.
        assert served.process.wait(STALL_SECONDS / 2) == 0
        assert served.wait_for("ended")
    over.set()


def ended_with(served: Served) -> str:
    """Return the code of the first finding with which a server ends its start."""
    assert served.process.wait(SECONDS) > 0
    served.read_all()
    return served.events[-1]["findings"][0]["code"]


def test_certificates_of_the_registry_can_be_named(
    versions: Versions, connect: Connect, server: OciServer, tmp_path: Path
) -> None:
    place = str(pushed(versions, "1.0.0", connect, tmp_path))
    options = ("--store", str(tmp_path / "store"), "--ca", str(tmp_path / "none.pem"))
    with serving([place], [versions.trust], *options, ready=False) as served:
        assert ended_with(served) == "AOTC-E770"
    # A bundle that is a file asks none.
    file = str(tmp_path / "digits.aotb")
    with serving([file], [versions.trust], *options) as served:
        assert served.infer("digits", INPUTS)[0] == 200


def test_missing_bundle_is_named(versions: Versions, server: OciServer, tmp_path: Path) -> None:
    place = f"oci://{server.address}/models/nowhere:live"
    with serving([place], [versions.trust], "--store", str(tmp_path), ready=False) as served:
        assert ended_with(served).startswith("AOTC-E77")
