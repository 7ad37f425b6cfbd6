"""The import budget: which package pays for which module."""

from __future__ import annotations

import pytest

from benchmarks.import_budget import READY, by_group, milliseconds_of_numpy, parse

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
    assert by_group(parse(PRINTED), frozenset()) == pytest.approx(
        {
            ("python", "import"): 0.1,
            ("numpy", "import"): 2.4,
            ("msgspec", "import"): 0.3,
            ("aotc_runtime", "import"): 0.6,
            ("jaxlib", "load"): 5.7,
            ("python", "load"): 0.05,
        }
    )


def test_what_numpy_or_jaxlib_would_import_anyway_counts_for_nobody() -> None:
    found = by_group(parse(PRINTED), frozenset({"json", "msgspec", "tomllib"}))
    assert found["shared", "import"] == pytest.approx(0.3)
    assert ("msgspec", "import") not in found
    assert found["numpy", "import"] == pytest.approx(2.4), "it asked for json itself"
    assert found["python", "load"] == pytest.approx(0.05)


def test_numpy_alone_is_what_it_imports_and_itself() -> None:
    printed = f"""\
import time:       100 |        100 | site
import time:       400 |        400 |     json
import time:        40 |         40 |     re
import time:      2000 |       2440 |   numpy
{READY}
import time:      5000 |       5000 |   jaxlib
"""
    assert milliseconds_of_numpy(parse(printed)) == pytest.approx(2.44)
