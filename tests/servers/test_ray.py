"""Bundles on a Ray cluster of two nodes: `make test-ray`."""

import importlib.util
import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.tampering import flipped
from replacing import INPUTS, Versions, X, asking
from waiting import until

import aotc_runtime
from aotc_runtime import AotcError
from tests.documented import code_of, in_shell
from tests.servers.ray_cluster import OnRay, processes, two_nodes

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "serve.md"

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="needs Ray Serve: make test-ray"
    ),
]

Bundle = tuple[Path, Path]
Array = np.ndarray[Any, Any]

REPLICA = "ray::ServeReplica:digits:bundle"


@pytest.fixture(scope="module")
def cluster() -> Iterator[OnRay]:
    with two_nodes() as found:
        yield found


@pytest.fixture(scope="module")
def expected(digits_bundle: Bundle) -> dict[str, Array]:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        return {name: np.array(value) for name, value in bundle["predict"](X).items()}


@pytest.fixture(scope="module")
def probabilities(expected: dict[str, Array]) -> bytes:
    return expected["probabilities"].tobytes()


@pytest.fixture
def versions(digits_bundle: Bundle, tmp_path: Path) -> Versions:
    return Versions(digits_bundle[0], tmp_path)


def test_routes_equal_it(cluster: OnRay, digits_bundle: Bundle, expected: dict[str, Array]) -> None:
    cluster.deploy(*digits_bundle, replicas=2, max_tensor="64K", max_body="1M")
    assert cluster.get("/v2/health/live") == (200, {"live": True})
    assert cluster.get("/v2/health/ready") == (200, {"ready": True})
    status, model = cluster.get("/v2/models/digits")
    assert status == 200 and model["versions"] == ["1.0.0"]
    assert model["parameters"]["digest"].startswith("sha256:")
    status, document, outputs = cluster.infer("digits", INPUTS, id="7")
    assert (status, document["id"]) == (200, "7")
    assert outputs == {name: value.tobytes() for name, value in expected.items()}
    values = {"name": "image", "datatype": "FP32", "shape": [8, 64], "data": X.ravel().tolist()}
    status, document = cluster.post("/v2/models/digits/infer", {"inputs": [values]})
    assert status == 200
    found = {output["name"]: np.array(output["data"]) for output in document["outputs"]}
    assert (found["label"] == expected["label"]).all()
    assert (found["probabilities"].astype(np.float32) == expected["probabilities"].ravel()).all()

    assert cluster.get("/v2/models/nope")[1]["code"] == "AOTC-E762"
    other = {"image": ("FP64", X.astype(np.float64))}
    assert cluster.infer("digits", other)[0:1] == (400,)
    large = {"image": ("FP32", np.zeros((1024, 64), np.float32))}
    assert cluster.infer("digits", large)[1]["code"] == "AOTC-E763"
    status, _, body = cluster.ask("POST", "/v2/models/digits/infer", bytes(2**20 + 1))
    assert (status, json.loads(body)["code"]) == (413, "AOTC-E763")
    assert cluster.post("/v2/repository/models/digits/unload")[0] == 403
    assert cluster.post("/v2/repository/index")[1][0]["state"] == "READY"
    status, document = cluster.get("/metrics")
    assert (status, document["code"]) == (501, "AOTC-E767")


def test_each_replica_exports_its_metrics(cluster: OnRay, digits_bundle: Bundle) -> None:
    info, served = "ray_aotc_bundle_info{", "ray_aotc_server_request_seconds_count{"
    # Nodes tell of replicas that have ended for a while.
    ended = replicas(info)
    cluster.deploy(*digits_bundle, replicas=2)
    for _ in range(10):
        assert cluster.infer("digits", INPUTS)[0] == 200
    until(lambda: len(replicas(info) - ended) == 2, "the bundle of each")
    until(
        lambda: sum(_value(s) for s in exported(served) if _replica(s) not in ended) == 10,
        "our requests, whichever replica had them",
    )


def exported(name: str) -> list[str]:
    """The samples of this name of all nodes: Ray may have put both replicas on one."""
    import ray

    found = []
    nodes = [node for node in ray.nodes() if node["Alive"]]
    assert len(nodes) == 2
    for node in nodes:
        address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        with urllib.request.urlopen(address) as answer:
            lines = answer.read().decode().splitlines()
        found += [line for line in lines if line.startswith(name)]
    return found


def replicas(name: str) -> set[str]:
    """Return the replicas that have samples of this name."""
    return set(map(_replica, exported(name)))


def _replica(sample: str) -> str:
    return sample.partition('replica="')[2].partition('"')[0]


def _value(sample: str) -> float:
    return float(sample.rpartition(" ")[2])


def test_killed_replica_errs(cluster: OnRay, digits_bundle: Bundle, probabilities: bytes) -> None:
    cluster.deploy(*digits_bundle, replicas=2)
    statuses: list[int] = []
    for _ in range(2):
        until(lambda: len(processes(REPLICA)) == cluster.running() == 2, "both run")
        os.kill(processes(REPLICA)[0], signal.SIGKILL)
        start = len(statuses)
        until(
            lambda start=start: (
                asked(cluster, probabilities, statuses) and statuses[start:][-20:] == [200] * 20
            ),
            "calls of the other one",
        )


def asked(cluster: OnRay, probabilities: bytes, statuses: list[int]) -> bool:
    """Return whether a call was answered; one that was not has an error, and no wrong answer."""
    try:
        status, _, outputs = cluster.infer("digits", INPUTS)
    except (OSError, HTTPException, ValueError):
        status, outputs = 500, {}  # Ray's own text is no JSON
    statuses.append(status)
    assert status in (500, 503) or outputs["probabilities"] == probabilities
    return status == 200


def test_a_new_bundle_takes_the_place_of_the_old_one_without_a_lost_request(
    cluster: OnRay, versions: Versions, tmp_path: Path, probabilities: bytes
) -> None:
    for number in (0, 1):
        versions.write(f"1.{number}.0", tmp_path / f"{number}.aotb")
    cluster.deploy(tmp_path / "0.aotb", versions.trust, replicas=2)
    with asking(cluster, probabilities) as got:
        until(lambda: len(got) > 20, "calls of the old one")
        cluster.deploy(tmp_path / "1.aotb", versions.trust, replicas=2)
        until(lambda: {version for _, version in got[-20:]} == {"1.1.0"}, "only new ones")
    assert {version for _, version in got} == {"1.0.0", "1.1.0"}


def test_a_refused_bundle_leaves_the_old_one_serving_and_says_its_code(
    cluster: OnRay, digits_bundle: Bundle, versions: Versions, tmp_path: Path, probabilities: bytes
) -> None:
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    cluster.deploy(place, versions.trust)
    with asking(cluster, probabilities) as got:
        # By who deploys: not signed by a key of the policy, and damaged.
        with pytest.raises(AotcError, match="AOTC-E30"):
            cluster.deploy(digits_bundle[0], versions.trust)
        damaged = tmp_path / "damaged.aotb"
        damaged.write_bytes(flipped(place.read_bytes()))
        with pytest.raises(AotcError, match="AOTC-E"):
            cluster.deploy(damaged, versions.trust)
        start = len(got)
        until(lambda: len(got) > start + 20, "calls after it was refused")
    assert {version for _, version in got} == {"1.0.0"}


@pytest.mark.parametrize(
    ("instead", "code"), [("another", "AOTC-E783"), ("damaged", "AOTC-E2"), ("none", "AOTC-E1")]
)
def test_a_replica_that_does_not_find_what_was_pinned_never_serves(
    cluster: OnRay,
    versions: Versions,
    tmp_path: Path,
    probabilities: bytes,
    instead: str,
    code: str,
) -> None:
    from ray import serve

    from aotc_serve.ray.ray_app import app

    versions.write("1.0.0", tmp_path / "old.aotb")
    cluster.deploy(tmp_path / "old.aotb", versions.trust)
    place = tmp_path / "new.aotb"
    versions.write("1.1.0", place)
    built = app({"bundle": str(place), "trust": str(versions.trust)})
    if instead == "another":
        versions.write("1.2.0", place)
    elif instead == "damaged":
        (tmp_path / "changed").write_bytes(flipped(place.read_bytes()))
        (tmp_path / "changed").replace(place)
    else:
        place.unlink()
    with asking(cluster, probabilities) as got:
        with pytest.raises(RuntimeError):
            serve.run(built, name="digits", route_prefix="/")
        assert code in cluster.deployment().message
        start = len(got)
        until(lambda: len(got) > start + 20, "calls after it was refused")
    assert {version for _, version in got} == {"1.0.0"}
    assert cluster.running() == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_work_as_they_stand(
    cluster: OnRay, digits_bundle: Bundle, tmp_path: Path, probabilities: bytes
) -> None:
    shutil.copy(digits_bundle[0], tmp_path / "digits.aotb")
    shutil.copy(digits_bundle[1], tmp_path / "trust.toml")
    commands = code_of("sh", PAGE, "Several machines").replace("8000", str(cluster.port))
    in_shell(commands, tmp_path, RAY_ADDRESS=cluster.address)
    assert cluster.running() == 2
    assert cluster.infer("digits", INPUTS)[2]["probabilities"] == probabilities
