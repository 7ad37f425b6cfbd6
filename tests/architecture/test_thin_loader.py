"""Size of what runs of the loader for an import, a load and an exact call."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Bundle

MODULES_MAX, LINES_MAX = 45, 3_905

LAZY = (
    "aotc_serve.channel",
    "aotc_runtime.base.codes",
    "aotc_runtime.engines.device_features",
    "aotc_runtime.engines.engine_options",
    "aotc_runtime.engines.engine_protocol",
    "aotc_runtime.engines.engine_survey",
    "aotc_runtime.engines.xla.xla_features",
    "aotc_runtime.engines.xla.xla_platforms",
    "aotc_runtime.engines.xla.xla_reader",
    "aotc_runtime.exporters",
    "aotc_runtime.formats.blob_source",
    "aotc_runtime.formats.extended_tensors",
    "aotc_runtime.formats.slsa_provenance",
    "aotc_runtime.base.rendering",
    "aotc_serve.oci",
    "aotc_runtime.loader.verify_report",
    "aotc_runtime.schema.certified_releases",
    "aotc_runtime.schema.fallback_policies",
    "aotc_runtime.schema.size_expressions",
    "aotc_runtime.schema.fill_numbers",
    "aotc_runtime.schema.served_kernels",
    "aotc_runtime.schema.shard_layout",
    "aotc_runtime.schema.tensor_text",
    "aotc_runtime.serving.device_arrays",
    "aotc_runtime.serving.checked_calls",
    "aotc_runtime.schema.result_records",
    "aotc_runtime.serving.number_distance",
    "aotc_runtime.serving.executable_calls",
    "aotc_runtime.serving.flattened_arguments",
    "aotc_runtime.serving.foreign_arrays",
    "aotc_runtime.serving.loaded_report",
    "aotc_runtime.serving.serving_refusals",
    "aotc_runtime.serving.routing",
    "aotc_runtime.serving.call_signature",
    "aotc_runtime.serving.bundle_assets",
    "aotc_runtime.serving.bundle_slot",
    "aotc_runtime.serving.call_metrics",
    "aotc_serve.store",
    "aotc_runtime.system.cpu_features",
    "aotc_runtime.system.pipes",
    "aotc_runtime.verification.certificate_rules",
    "aotc_runtime.verification.choice_report",
    "aotc_runtime.verification.bundle_examination",
    "aotc_runtime.verification.sigstore_identities",
    "aotc_runtime.verification.rare_consistency",
    "aotc_runtime.verification.host_findings",
    "aotc_runtime.verification.parsed_keys",
    "aotc_runtime.verification.policy_consistency",
    "aotc_runtime.verification.policy_files",
    "aotc_runtime.verification.policy_refusals",
    "aotc_runtime.verification.policy_types",
    "aotc_runtime.verification.provenance_rules",
    "aotc_runtime.verification.engine_releases",
    "aotc_runtime.verification.policy_rules",
    "aotc_runtime.verification.missing_signatures",
    "aotc_runtime.verification.bundle_versions",
    "aotc_runtime.base.suggestions",
)
"""Modules, and folders of modules, that most servers never need."""

SERVE = """
import json, sys
import numpy
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
bundle["predict"](numpy.zeros((8, 64), numpy.float32))
own = {name: module.__file__ for name, module in sys.modules.items()
       if name.partition(".")[0] == "aotc_runtime"}
print(json.dumps(own))
"""


@pytest.fixture(scope="module")
def loaded(digits_bundle: Bundle) -> dict[str, str]:
    """The modules of the loader that a server of digits runs, with their files."""
    command = [sys.executable, "-c", SERVE, *map(str, digits_bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_server_runs_few_modules_of_few_lines(loaded: dict[str, str]) -> None:
    assert len(loaded) <= MODULES_MAX
    assert sum(code_lines(Path(file)) for file in loaded.values()) <= LINES_MAX


def code_lines(file: Path) -> int:
    """Return the number of lines that are neither blank nor in docstrings."""
    text = file.read_text("utf-8")
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and number not in documented for number, line in lines)


@pytest.mark.parametrize("name", LAZY)
def test_what_most_servers_never_need_is_not_loaded(name: str, loaded: dict[str, str]) -> None:
    __import__(name)
    assert not [module for module in loaded if f"{module}.".startswith(f"{name}.")]
