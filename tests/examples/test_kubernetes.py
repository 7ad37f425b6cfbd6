"""The containers of examples/kubernetes and examples/kserve, started with their arguments and asked
by their probes.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tls_server import tls_context
from waiting import SECONDS

from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.docker_credentials import NOBODY
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
from tests.conftest import ROOT, Bundle
from tests.examples import started
from tests.registries.oci_server import OciServer

REFERENCE = re.compile(r"oci://registry\.example\.org/models/digits@sha256:0{64}")
INPUTS = {"image": ("FP32", np.ones((8, 64), np.float32))}


def documents(name: str, kind: str) -> list[dict[str, Any]]:
    every = yaml.safe_load_all((started.EXAMPLES / name).read_text("utf-8"))
    return [each for each in every if each["kind"] == kind]


def pod(name: str) -> dict[str, Any]:
    (deployment,) = documents(name, "Deployment")
    return deployment["spec"]["template"]["spec"]


def pushed(bundle: Bundle, registry: OciServer) -> str:
    place = parse(f"oci://{registry.address}/models/digits")
    with Repository(place, HttpClient(), lambda: NOBODY) as there:
        return str(push(open_streamed(bundle[0]), there, None, 0.0).place)


@pytest.mark.parametrize("python", started.PYTHONS)
def test_init_container_allows_offline(python: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    spec = pod("kubernetes/deployment.yaml")
    (init,), (serve,) = spec["initContainers"], spec["containers"]
    (reference,) = {a for a in init["args"] if a.startswith("oci://")}
    assert reference in serve["args"] and REFERENCE.fullmatch(reference)
    registry = OciServer()
    places = started.copied(digits_bundle, tmp_path)
    places |= {reference: pushed(digits_bundle, registry), "/store": tmp_path / "store"}
    verify = started.program(python, init["args"], places)
    done = subprocess.run(verify, capture_output=True, text=True, check=True)
    assert "digits 1.0.0 may be loaded here" in done.stdout and "not hashed" not in done.stdout
    registry.close()
    command = started.program(python, serve["args"], {**places, "8000": "0", "9000": "0"})
    with started.server(command, HOME="/nonexistent") as served:
        assert bool(served.grpc) == (python != sys.executable)
        served.wait_for("ready")
        assert served.infer("digits", INPUTS)[0] == 200
        started.lives_by_its_probes(served, serve, spec["terminationGracePeriodSeconds"])


def test_unsigned_stops_init(digits_bundle: Bundle, train_bundle: Bundle, tmp_path: Path) -> None:
    (init,) = pod("kubernetes/deployment.yaml")["initContainers"]
    (reference,) = {a for a in init["args"] if a.startswith("oci://")}
    registry = OciServer()
    places = started.copied((digits_bundle[0], train_bundle[1]), tmp_path)
    places |= {reference: pushed(digits_bundle, registry), "/store": tmp_path / "store"}
    verify = started.program(sys.executable, init["args"], places)
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 5 and "AOTC-E3" in done.stderr
    registry.close()


@pytest.mark.parametrize("python", started.PYTHONS)
def test_image_volume_bundle_is_served(python: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    spec = pod("kubernetes/image-volume.yaml")
    (serve,) = spec["containers"]
    command = started.program(python, serve["args"], started.copied(digits_bundle, tmp_path))
    with started.server([*command, "--port=0"]) as served:
        served.wait_for("ready")
        started.lives_by_its_probes(served, serve, spec["terminationGracePeriodSeconds"])


def by_kserve(path: str, name: str) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return a service's arguments of the server as KServe joins them, its pod, and its model."""
    (runtime,) = documents("kserve/digits.yaml", "ServingRuntime")
    services = documents(path, "InferenceService")
    (predictor,) = [s["spec"]["predictor"] for s in services if s["metadata"]["name"] == name]
    model, (serve,) = predictor["model"], runtime["spec"]["containers"]
    (format_,) = runtime["spec"]["supportedModelFormats"]
    assert model["modelFormat"]["name"] == format_["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    return [*serve["args"], *model["args"]], predictor, model


@pytest.mark.parametrize("python", started.PYTHONS)
@pytest.mark.parametrize("name", ["digits", "digits-oci"])
def test_kserve_serves_the_folder(
    python: str, name: str, digits_bundle: Bundle, tmp_path: Path
) -> None:
    arguments, _, _ = by_kserve(f"kserve/{name}.yaml", "digits")
    (runtime,) = documents("kserve/digits.yaml", "ServingRuntime")
    (serve,) = runtime["spec"]["containers"]
    places = started.copied(digits_bundle, tmp_path) | {"8080": "0"}
    with started.server(started.program(python, arguments, places)) as served:
        served.wait_for("ready")
        assert served.infer("digits", INPUTS)[0] == 200
        # Kubernetes' own grace, where a manifest says nothing, is 30 s; KServe's runtimes have 300.
        started.lives_by_its_probes(served, serve, 300)


def test_kserves_image_is_verified_first(
    digits_bundle: Bundle, train_bundle: Bundle, tmp_path: Path
) -> None:
    _, predictor, model = by_kserve("kserve/digits-oci.yaml", "digits")
    (volume,), (verify,) = predictor["volumes"], predictor["initContainers"]
    # As KServe names the volume and the folder of it (ConfigureOciNativeToContainer).
    image = model["storageUri"].removeprefix("oci+native://")
    assert volume == {
        "name": "mnt-models",
        "image": {"reference": image, "pullPolicy": "IfNotPresent"},
    }
    (mount,) = [m for m in verify["volumeMounts"] if m["name"] == volume["name"]]
    assert (mount["mountPath"], mount["subPath"]) == ("/mnt/models", "models")
    assert "COPY digits.aotb /models/" in (started.EXAMPLES / "docker" / "Dockerfile").read_text(
        "utf-8"
    )
    for folder, policy, code in (("good", digits_bundle[1], 0), ("bad", train_bundle[1], 5)):
        (tmp_path / folder).mkdir()
        places = started.copied((digits_bundle[0], policy), tmp_path / folder)
        done = subprocess.run(started.program(sys.executable, verify["args"], places), check=False)
        assert done.returncode == code


def test_kserves_storage_initializer_verifies_what_was_pushed(
    digits_bundle: Bundle, train_bundle: Bundle, tmp_path: Path
) -> None:
    arguments, _, model = by_kserve("kserve/digits-oci.yaml", "digits-pushed")
    (storage,) = documents("kserve/digits-oci.yaml", "ClusterStorageContainer")
    (known,), container = storage["spec"]["supportedUriFormats"], storage["spec"]["container"]
    assert model["storageUri"].startswith(known["prefix"])
    assert container["name"] == "storage-initializer", "as KServe finds it"
    registry = OciServer()
    reference = pushed(digits_bundle, registry)
    for folder, policy, code in (("bad", train_bundle[1], 5), ("good", digits_bundle[1], 0)):
        (tmp_path / folder).mkdir()
        places = started.copied((digits_bundle[0], policy), tmp_path / folder)
        places |= {"/mnt/models": tmp_path / folder / "store", "8080": "0"}
        places[model["storageUri"].removeprefix("aotc://")] = reference.removeprefix("oci://")
        # KServe's arguments come after the container's command.
        asked = [*container["command"], model["storageUri"], "/mnt/models"]
        command = started.program(sys.executable, asked, places)[1:]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(command, env={**os.environ, "PATH": path}, check=False)
        assert done.returncode == code
    registry.close()
    with started.server(
        started.program(sys.executable, arguments, places), HOME="/nonexistent"
    ) as served:
        served.wait_for("ready")
        assert served.infer("digits", INPUTS)[0] == 200


def test_the_service_reaches_the_ports_of_the_deployment() -> None:
    (service,) = documents("kubernetes/deployment.yaml", "Service")
    (container,) = pod("kubernetes/deployment.yaml")["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {p["targetPort"]: p["port"] for p in service["spec"]["ports"]} == ports


@pytest.mark.parametrize("name", ["deployment", "image-volume", "node-labels"])
def test_every_container_of_ours_is_confined_and_mounts_what_there_is(name: str) -> None:
    for kind in ("Deployment", "DaemonSet"):
        for document in documents(f"kubernetes/{name}.yaml", kind):
            spec = document["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsNonRoot"]
            volumes = {volume["name"] for volume in spec["volumes"]}
            for container in [*spec.get("initContainers", []), *spec["containers"]]:
                confined = container["securityContext"]
                assert confined["readOnlyRootFilesystem"]
                assert confined["allowPrivilegeEscalation"] is False
                assert confined["capabilities"] == {"drop": ["ALL"]}
                assert "memory" in container["resources"]["limits"]
                mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounted <= volumes


# Labels of nodes


def script() -> str:
    (config,) = documents("kubernetes/node-labels.yaml", "ConfigMap")
    return str(config["data"]["label.py"])


def test_a_node_is_labelled_with_what_it_is(tmp_path: Path) -> None:
    text = script().replace("/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path))
    (tmp_path / "token").write_text("a token", "utf-8")
    with started.Kept() as cluster:
        cluster.socket = tls_context(tmp_path).wrap_socket(cluster.socket, server_side=True)
        (tmp_path / "ca.pem").rename(tmp_path / "ca.crt")
        given = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(cluster.server_port),
            "NODE": "worker-1",
            "PATH": str(Path(sys.executable).parent),
        }
        subprocess.run([sys.executable, "-c", text], env=given, check=True, timeout=SECONDS)
    ((path, headers, data),) = cluster.taken
    change = json.loads(data)
    assert path == "/api/v1/nodes/worker-1" and headers["Authorization"] == "Bearer a token"
    assert headers["Content-Type"] == "application/merge-patch+json"
    described = subprocess.run(
        [str(Path(sys.executable).parent / "aotc-runtime"), "host-info", "--json"],
        check=True,
        capture_output=True,
    )
    facts = json.loads(described.stdout)["facts"]
    labels = change["metadata"]["labels"]
    assert labels["aotc.dev/jaxlib"] == facts["jaxlib"]
    for name in ("cpu-x86-64-v3", "cpu-x86-64-v4"):
        runs = set(features(name)) <= set(facts["isa"])
        assert labels[f"aotc.dev/{name}"] == str(runs).lower()
    value = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
    assert all(value.fullmatch(each) for each in labels.values())


def features(target: str) -> list[str]:
    document = tomllib.loads((ROOT / "targets" / f"{target}.toml").read_text("utf-8"))
    return document["features"]


def test_the_labels_tell_the_targets_of_this_repository_apart() -> None:
    found: dict[str, Any] = {}
    exec(script().partition("host = json")[0], found)
    targets = found["TARGETS"]
    assert targets["cpu-x86-64-v3"] <= set(features("cpu-x86-64-v3"))
    assert targets["cpu-x86-64-v3"] & set(features("cpu-x86-64-v2")) == set()
    beyond = set(features("cpu-x86-64-v4")) - set(features("cpu-x86-64-v3"))
    assert targets["cpu-x86-64-v4"] == targets["cpu-x86-64-v3"] | beyond


def test_pods_are_sent_to_nodes_that_the_labels_are_for() -> None:
    (label,) = pod("kubernetes/deployment.yaml")["nodeSelector"]
    found: dict[str, Any] = {}
    exec(script().partition("host = json")[0], found)
    assert label.removeprefix("aotc.dev/") in found["TARGETS"]
