"""Rules of imports. The layers themselves are checked by import-linter in `make lint`."""

import ast
import json
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import Bundle
from tests.running import printed

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime" / "aotc_runtime"
SERVE = ROOT / "runtime" / "serve" / "aotc_serve"
TOOLCHAIN = ROOT / "aotc"
ALLOWED = {
    *("aotc_runtime", "aotc_serve", "cryptography", "iree", "jaxlib", "ml_dtypes", "msgspec"),
    *("numpy", "onnxruntime", "openvino"),
}
TIMESTAMPS = {"rfc3161_client"}
"""An extra: imported where a policy names authorities."""
CHANNEL, IDENTITIES = {"tuf"}, {"sigstore", "sigstore_models"}
"""Extras: imported where a channel is asked, and where a policy names identities."""
EXPORTERS = {"prometheus_client", "opentelemetry"}
"""Extras: their modules are imported by nobody but the user."""
SERVERS = EXPORTERS | {"google", "grpc", "httptools", "starlette", "urllib3", "uvicorn", "uvloop"}
"""Imported by aotc-serve alone: urllib3 by its client, all others by the command `serve`."""
RAY = {"ray"}
"""An extra: imported by what deploys on a cluster alone."""
FORBIDDEN = ("aotc", "click", "jax", "pydantic", "rich")


@cache
def names_in(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Top-level packages that a file imports, also inside functions; names that it calls."""
    found, called = set[str](), set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    return frozenset(found), frozenset(called)


def imports_of(path: Path) -> frozenset[str]:
    return names_in(path)[0]


@pytest.mark.parametrize(
    "path", sorted([*RUNTIME.rglob("*.py"), *SERVE.rglob("*.py")]), ids=lambda p: p.stem
)
def test_runtime_files_import_only_standard_library_and_thin_dependencies(path: Path) -> None:
    allowed = ALLOWED | EXPORTERS if path.parent.name == "exporters" else ALLOWED
    allowed = allowed | SERVERS if path.is_relative_to(SERVE) else allowed
    allowed = allowed | RAY if path.name == "ray_app.py" else allowed
    allowed = allowed | TIMESTAMPS if path.name == "signature_timestamps.py" else allowed
    allowed = allowed | CHANNEL if path.parent.name == "channel" else allowed
    allowed = allowed | IDENTITIES if path.name == "sigstore_identities.py" else allowed
    assert imports_of(path) - set(sys.stdlib_module_names) <= allowed


def modules_after(code: str) -> set[str]:
    """Names of all modules loaded in a fresh process that ran the code."""
    probe = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(printed(probe, folder=ROOT).splitlines()[-1]))


def test_the_runtime_loads_no_toolchain_module_where_all_are_installed() -> None:
    loaded = modules_after(
        "import aotc_runtime\nfrom aotc_runtime.engines.engine_registry import detect\ndetect()"
    )
    assert not loaded & set(FORBIDDEN)


def test_verify_and_inspect_need_no_jax_and_no_pydantic(digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    for arguments in (["verify", str(bundle), "--trust", str(policy)], ["inspect", str(bundle)]):
        loaded = modules_after(
            "import sys\nfrom aotc.cli.main import main\n"
            f"sys.argv = ['aotc', *{arguments!r}]\n"
            "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code"
        )
        assert not loaded & {"jax", "pydantic"}, arguments


def makers(*names: str) -> set[str]:
    """Files of the runtime and of aotc-serve that call a class of one of these names."""
    return {
        path.relative_to(root).as_posix()
        for root in (RUNTIME, SERVE)
        for path in root.rglob("*.py")
        if not names_in(path)[1].isdisjoint(names)
    }


STAGES = ("Parsed", "Attested", "Signed", "Unpacked", "Accepted", "Evaluated", "Compatible")


def test_only_verification_makes_its_stages_and_proofs() -> None:
    assert makers(*STAGES, "VerifiedBlob", "VerifiedBundle") == {"verification/verify_bundle.py"}


def test_only_make_ready_makes_loaded_bundles() -> None:
    assert makers("LoadedBundle") == {"serving/loaded_bundle.py"}


def test_only_the_plan_reads_target_files() -> None:
    """A file that is replaced during a build has no effect: its stages are told what it held."""
    readers = {p for p in TOOLCHAIN.rglob("*.py") if "read_target" in names_in(p)[1]}
    assert readers == {TOOLCHAIN / "pipeline" / "build_plan.py"}


def test_jaxlib_is_named_by_the_engine_that_it_is_and_its_guard_alone() -> None:
    users = {
        path.relative_to(root).as_posix()
        for root in (RUNTIME, SERVE)
        for path in root.rglob("*.py")
        if "jaxlib" in imports_of(path)
    }
    assert "engines/xla/xla_client.py" in users
    outside = {path for path in users if not path.startswith("engines/xla/")}
    assert outside == {"system/processor_check.py"}


@pytest.mark.parametrize("package", ["iree", "onnxruntime", "openvino"])
def test_the_package_of_an_engine_is_named_by_that_alone(package: str) -> None:
    users = {
        path.relative_to(root).as_posix()
        for root in (RUNTIME, SERVE)
        for path in root.rglob("*.py")
        if package in imports_of(path)
    }
    assert users == {f"engines/{package}/{package}_engine.py"}


def test_the_public_names_are_exactly_what_all_lists() -> None:
    import aotc_runtime

    assert list(aotc_runtime.__all__) == sorted(aotc_runtime.__all__)
    modules = {path.stem for path in RUNTIME.iterdir()}
    visible = {name for name in dir(aotc_runtime) if not name.startswith("_")} - modules
    assert visible | {"load"} == set(aotc_runtime.__all__)
    for name in aotc_runtime.__all__:
        assert getattr(aotc_runtime, name).__module__.startswith("aotc_runtime.")


def test_the_runtime_distribution_requires_neither_jax_nor_pydantic_nor_click() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text())["project"]
    names = {requirement.split()[0] for requirement in project["dependencies"]}
    assert names == {"cryptography", "msgspec", "numpy"}
    extra = {requirement.split()[0] for requirement in project["optional-dependencies"]["xla"]}
    assert extra == {"jaxlib"}
    extra = {requirement.split()[0] for requirement in project["optional-dependencies"]["iree"]}
    assert extra == {"iree-base-runtime", "ml_dtypes"}
    for engine in ("onnxruntime", "openvino"):
        extra = {requirement.split()[0] for requirement in project["optional-dependencies"][engine]}
        assert extra == {"ml_dtypes", engine}


BY_THEMSELVES = {
    "aotc_serve/http/http_app.py",  # a dictionary
    "aotc/base/msgpack_values.py",
    "aotc/base/workers/worker_child.py",  # which has one thread when it does
}
"""Where values of a type are decoded without the lock of
`aotc_runtime.base.canonical_json.decoder`.
"""


def test_structures_that_threads_decode_are_described_by_one_at_a_time() -> None:
    found = {
        path.relative_to(package.parent).as_posix()
        for package, decode in (
            (RUNTIME, "msgspec.json.decode("),
            (SERVE, "msgspec.json.decode("),
            (TOOLCHAIN, "msgpack.decode("),
        )
        for path in package.rglob("*.py")
        if any(decode in line and "type=" in line for line in path.read_text("utf-8").splitlines())
    }
    assert found == BY_THEMSELVES
