"""A library that custom calls need is missed before anything is loaded, not when it is called."""

import json
from typing import Any

import pytest

from aotc_runtime.system import host_probe
from tests.conftest import Bundle
from tests.running import printed

WITHOUT_SCIPY = {
    "a finder that finds none": """
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder)
""",
    "an entry of None": "sys.modules['scipy'] = None",
}

LOAD = """
import json, sys
{without}
import aotc_runtime
try:
    aotc_runtime.load({bundle!r}, trust={policy!r})
    print(json.dumps([]))
except aotc_runtime.AotcError as error:
    print(json.dumps([finding.code for finding in error.findings]))
"""


def loading(bundle: Bundle, without: str) -> Any:
    code = LOAD.format(bundle=str(bundle[0]), policy=str(bundle[1]), without=without)
    return json.loads(printed(code))


@pytest.mark.parametrize("without", WITHOUT_SCIPY.values(), ids=WITHOUT_SCIPY.keys())
def test_missing_scipy_is_refused(without: str, gp_bundle: Bundle, digits_bundle: Bundle) -> None:
    assert loading(gp_bundle, without) == ["AOTC-E510"]
    assert loading(digits_bundle, without) == []


def test_looking_for_a_library_does_not_import_it() -> None:
    code = (
        "import sys\nfrom aotc_runtime.engines.engine_registry import detect\n"
        "print(detect().libraries, 'scipy' in sys.modules)"
    )
    assert printed(code).strip() == "('scipy',) False"


def test_what_is_not_installed_cannot_be_imported() -> None:
    assert not host_probe.is_installed("no_such_package")
