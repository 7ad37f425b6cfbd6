"""Size of what runs of the loader for an import, a load and an exact call."""

import ast
import json
from pathlib import Path

import pytest

from tests.conftest import Bundle
from tests.running import printed

MODULES_MAX, LINES_MAX = 45, 3_830

LAZY = {
    "aotc_serve": "channel oci store",
    "aotc_runtime.base": "codes rendering suggestions",
    "aotc_runtime.engines": "device_features engine_options engine_protocol engine_survey",
    "aotc_runtime.engines.xla": "xla_features xla_platforms xla_reader",
    "aotc_runtime": "exporters",
    "aotc_runtime.formats": "blob_source certificate_predicate extended_tensors slsa_provenance",
    "aotc_runtime.loader": "verify_report",
    "aotc_runtime.schema": """
        certified_releases fallback_policies fill_numbers result_records served_kernels shard_layout
        size_expressions tensor_text""",
    "aotc_runtime.serving": """
        bundle_assets bundle_slot call_metrics call_signature checked_calls device_arrays
        executable_calls flattened_arguments loaded_report number_distance routing
        serving_refusals""",
    "aotc_runtime.system": "cpu_features pipes",
    "aotc_runtime.verification": """
        bundle_examination bundle_versions certificate_rules choice_report engine_releases
        host_findings missing_signatures parsed_keys policy_consistency policy_files policy_refusals
        policy_rules policy_types provenance_rules rare_consistency signature_timestamps
        sigstore_identities""",
}
"""Modules, and folders of modules, that most servers never need: by the folder that they are in."""

SERVE = """
import json, sys
import numpy
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
bundle["predict"](numpy.zeros((8, 64), numpy.float32))
own = {name: module.__file__ for name, module in sys.modules.items()
       if name.partition(".")[0] == "aotc_runtime"}
assert not {"aotc", "click", "jax", "prometheus_client", "pydantic", "scipy"} & {*sys.modules}
print(json.dumps(own))
"""


@pytest.fixture(scope="module")
def loaded(digits_bundle: Bundle) -> dict[str, str]:
    """The modules of the loader that a server of digits runs, with their files."""
    return json.loads(printed(SERVE, *digits_bundle))


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


@pytest.mark.parametrize(
    "name", [f"{folder}.{name}" for folder, names in LAZY.items() for name in names.split()]
)
def test_what_most_servers_never_need_is_not_loaded(name: str, loaded: dict[str, str]) -> None:
    __import__(name)
    assert not [module for module in loaded if f"{module}.".startswith(f"{name}.")]
