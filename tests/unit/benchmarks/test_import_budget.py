"""The import budget: which package pays for which module."""

from __future__ import annotations

import pytest

from benchmarks.import_budget import READY, by_group, parse

PRINTED = f"""\
import time: self [us] | cumulative | imported package
import time:       100 |        100 | site
import time:       400 |        400 |     json
import time:      2000 |       2400 |   numpy
import time:       300 |        300 |   msgspec
import time:       600 |       3300 | aotc_runtime
{READY}
import time:       700 |        700 |   ml_dtypes
import time:      5000 |       5700 | jaxlib
import time:        50 |         50 | tomllib
something else on stderr
"""


def test_modules_of_the_standard_library_count_for_the_package_that_asked_first() -> None:
    assert by_group(parse(PRINTED)) == pytest.approx(
        {
            ("python", "import"): 0.1,
            ("numpy", "import"): 2.4,
            ("msgspec", "import"): 0.3,
            ("aotc_runtime", "import"): 0.6,
            ("jaxlib", "load"): 5.7,
            ("python", "load"): 0.05,
        }
    )
