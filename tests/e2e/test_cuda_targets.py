"""Every example is compiled for GPUs that are not here; the same bytes each time.

Needs the wheels of the extra `cuda13`, which `make test-cuda` installs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from aotc.backends.cuda import wheels
from aotc.backends.cuda.compile import CudaBackend
from aotc.build.target_check import check_target
from aotc.config.target import list_targets, read_target
from aotc.packing.exchange import read_bundle
from aotc_runtime.schema.device import CudaDevice
from aotc_runtime.schema.manifest import ParityNotRun

_, MISSING = wheels.find(version("jaxlib"))

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(bool(MISSING), reason="no CUDA wheels here; `make test-cuda` installs them"),
]
