"""A small bundle manifest and the host it fits, to be changed field by field."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from aotc_runtime.base.errors import AotcError, family_of
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts

REF = {"digest": "sha256:" + "0" * 64, "size": 1}

PROFILE: dict[str, Any] = {
    "sizes": {"batch": 2},
    "input_shapes": [[2, 3]],
    "output_shapes": [[2]],
    "arguments": [{"from": "input", "leaf": 0, "aliased": False}],
    "module": REF,
    "executable": REF,
    "fixture": REF,
    "parity": {"status": "not-run-here", "reason": "a sample"},
    "memory": {
        "argument_bytes": 24,
        "output_bytes": 8,
        "temp_bytes": 0,
        "alias_bytes": 0,
        "code_bytes": 0,
    },
    "cost": {"flops": 6, "transcendentals": 0, "bytes_accessed": 32},
    "custom_call_targets": [],
    "thunks": {"kernel": 1},
}

DOCUMENT: dict[str, Any] = {
    "format_version": "1.0",
    "name": "sample",
    "version": "1.2.0",
    "target": {
        "name": "cpu-x86-64-v3",
        "platform": "cpu",
        "triple": "x86_64-unknown-linux-gnu",
        "cpu": "x86-64-v3",
        "features": ["avx2", "fma"],
        "tuning": ["prefer-256-bit"],
        "threads": 8,
        "options": {},
    },
    "requires": {
        "platform": "cpu",
        "architecture": "x86_64",
        "isa": ["avx2", "fma"],
        "devices": 1,
        "custom_call_targets": ["TopK", "lapack_sgeqrf_ffi"],
        "memory_bytes": 1000,
    },
    "built_with": {
        "aotc": "0.1.0",
        "jax": "0.12.0",
        "jaxlib": "0.12.0",
        "jaxlib_commit": "abc",
        "xla": 505,
        "ifrt": 76,
        "stablehlo": "1.22.0",
    },
    "accepts_jaxlib": ["0.11.2", "0.12.0"],
    "dimensions": {"batch": {"minimum": 1, "maximum": 2, "multiple_of": 1}},
    "weights": {},
    "entry_points": {
        "predict": {
            "function": "sample:predict",
            "parameters": [
                {
                    "name": "x",
                    "kind": "positional_or_keyword",
                    "tree": {"node": "leaf", "index": 0},
                    "donated": False,
                }
            ],
            "inputs": [
                {"path": "x", "dtype": "float32", "shape": ["batch", 3], "weak_type": False}
            ],
            "result": {"node": "leaf", "index": 0},
            "outputs": [
                {"path": "result", "dtype": "float32", "shape": ["batch"], "weak_type": False}
            ],
            "dimensions": ["batch"],
            "relations": [],
            "out_of_profile": {},
            "bound": {},
            "static": {},
            "tolerance": {"rtol": "1e-05", "atol": "1e-06"},
            "lifted": [],
            "profiles": [PROFILE],
        }
    },
}


def manifest(**change: Any) -> BundleManifest:
    """The sample with some of its top-level fields replaced; dicts are merged."""
    document = json.loads(json.dumps(DOCUMENT))
    for name, value in change.items():
        document[name] = {**document.get(name, {}), **value} if isinstance(value, dict) else value
    return msgspec.convert(document, BundleManifest)


def host(**change: Any) -> HostFacts:
    """A host that can just run the sample."""
    facts: dict[str, Any] = {
        "platform": "cpu",
        "architecture": "x86_64",
        "cpu": "made up",
        "isa": frozenset({"avx2", "fma", "sse2"}),
        "jaxlib": "0.12.0",
        "devices": 1,
        "devices_fixed": True,
        "memory_bytes": 1000,
    }
    return HostFacts(**{**facts, **change})


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[AotcError]]:
    """Expect the exception of this code."""
    with pytest.raises(family_of(code)) as caught:
        yield caught
    assert caught.value.code == code
