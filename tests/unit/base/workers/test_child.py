"""The child's side of a job."""

import sys

from tests.running import python

IMPORTED = """
import sys
before = set(sys.modules)
import aotc.base.workers.worker_child
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_it_runs_where_only_the_runtime_is_beside_its_modules() -> None:
    packages = {*python("-c", IMPORTED).stdout.split()} - sys.stdlib_module_names
    assert packages - {"typing_extensions"} == {"aotc", "aotc_runtime", "msgspec"}
