"""May these executables run here, and those of which target: every check, and that every field has
one.
"""

import json
from typing import Any

import msgspec
import pytest

from aotc_runtime.schema.bundle_manifest import BuiltWith, BundleManifest, Requirements
from aotc_runtime.schema.host_facts import Accelerator
from aotc_runtime.verification.choice_report import choice_report
from aotc_runtime.verification.host_compatibility import CHECKS, check_host, choose_target
from aotc_runtime.verification.host_findings import READS_STABLEHLO

from ..samples import REF, host, manifest

CUDA: dict[str, Any] = {
    "platform": "cuda",
    "devices": 2,
    "custom_call_targets": ["TopK", "__cublas$gemm", "cusolver_potrf_ffi"],
    "device": {
        "kinds": ["H100", "H200"],
        "memory_bytes": 500,
        "plugin": "jax-cuda13-pjrt",
        "accepts_plugin": ["0.12.0"],
        "compute_capability": "9.0",
        "driver": "13.2",
    },
}


TPU: dict[str, Any] = {
    "platform": "tpu",
    "devices": 8,
    "custom_call_targets": ["Cholesky", "tpu_custom_call"],
    "device": {
        "kinds": ["TPU v5 lite"],
        "memory_bytes": 500,
        "plugin": "libtpu",
        "accepts_plugin": ["0.0.50"],
    },
}


def tpus(**change: Any) -> Accelerator:
    """Eight chips that can just run what asks for `TPU`."""
    facts: dict[str, Any] = {
        "platform": "tpu",
        "devices": 8,
        "kinds": ("TPU v5 lite",),
        "memory_bytes": 500,
        "plugin": "0.0.50",
    }
    return Accelerator(**{**facts, **change})


def gpus(**change: Any) -> Accelerator:
    """Two devices that can just run what asks for `CUDA`."""
    facts: dict[str, Any] = {
        "platform": "cuda",
        "devices": 2,
        "kinds": ("H200",),
        "memory_bytes": 500,
        "plugin": "0.12.0",
        "compute_capability": "9.0",
        "driver": "13.2",
    }
    return Accelerator(**{**facts, **change})


GPUS = gpus()

LAPACK = {"requires": {"custom_call_targets": ["lapack_sgesdd_ffi"]}}

IREE: dict[str, Any] = {
    "target": {"platform": "iree-vulkan"},
    "requires": {
        "platform": "iree-vulkan",
        "custom_call_targets": [],
        "device": {
            "kinds": ["radeon"],
            "memory_bytes": 0,
            "plugin": "iree-base-runtime",
            "accepts_plugin": ["3.13.0"],
        },
    },
}
ON_IREE: dict[str, Any] = {"jaxlib": "9.9", "libc": "glibc 2.17"}
"""Another engine's executables need no jaxlib."""


def iree(**change: Any) -> Accelerator:
    facts: dict[str, Any] = {"devices": 1, "kinds": ("radeon",), "plugin": "3.13.0"}
    return Accelerator(platform="iree-vulkan", **{**facts, **change})


def codes(change: dict[str, Any], **facts: Any) -> list[str]:
    return [finding.code for finding in check_host(manifest(**change), host(**facts))]


@pytest.mark.parametrize(
    ("change", "facts", "expected"),
    [
        ({}, {"jaxlib": "0.12.0"}, []),
        ({}, {"jaxlib": "0.11.2"}, []),
        ({}, {"jaxlib": "0.12.0.1"}, ["AOTC-E401"]),
        ({}, {"jaxlib": "0.12"}, ["AOTC-E401"]),
        ({"accepts_jaxlib": []}, {}, ["AOTC-E401"]),
        ({}, {"platform": "cuda"}, ["AOTC-E501"]),
        ({}, {"architecture": "aarch64"}, ["AOTC-E501"]),
        ({"requires": CUDA}, {"accelerators": (GPUS,)}, []),
        (
            {"requires": {**CUDA, "custom_call_targets": ["lapack_spotrf_ffi"]}},
            {"accelerators": (GPUS,)},
            ["AOTC-E504"],
        ),
        ({"requires": TPU}, {"accelerators": (GPUS, tpus())}, []),
        (
            {"requires": {**TPU, "custom_call_targets": ["lapack_spotrf_ffi"]}},
            {
                "accelerators": (
                    tpus(devices=4, kinds=("TPU v4",), plugin="0.0.48", memory_bytes=1),
                )
            },
            ["AOTC-E503", "AOTC-E403", "AOTC-E508", "AOTC-E554", "AOTC-E504"],
        ),
        ({"requires": CUDA}, {}, ["AOTC-E501", "AOTC-E405"]),
        ({"requires": CUDA}, {"accelerators": (gpus(devices=0),)}, ["AOTC-E501"]),
        ({"requires": {**CUDA, "devices": 3}}, {"accelerators": (GPUS,)}, ["AOTC-E503"]),
        ({"requires": CUDA}, {"accelerators": (gpus(plugin=""),)}, ["AOTC-E405"]),
        ({"requires": CUDA}, {"accelerators": (gpus(plugin="0.12.1"),)}, ["AOTC-E403"]),
        ({"requires": CUDA}, {"accelerators": (gpus(kinds=("H100", "L4")),)}, ["AOTC-E508"]),
        ({"requires": CUDA}, {"accelerators": (gpus(kinds=()),)}, ["AOTC-E508"]),
        ({"requires": CUDA}, {"accelerators": (gpus(compute_capability="8.0"),)}, ["AOTC-E508"]),
        ({"requires": CUDA}, {"accelerators": (gpus(driver="12.9"),)}, ["AOTC-E509"]),
        ({"requires": CUDA}, {"accelerators": (gpus(driver=""),)}, ["AOTC-E509"]),
        ({"requires": CUDA}, {"accelerators": (gpus(driver="13.10"),)}, []),
        ({"requires": CUDA}, {"accelerators": (gpus(memory_bytes=499),)}, ["AOTC-E554"]),
        (
            {"requires": CUDA},
            {"accelerators": (gpus(platform="rocm"),)},
            ["AOTC-E501", "AOTC-E405"],
        ),
        ({}, {"os": "linux", "libc": "glibc 2.27"}, []),
        ({}, {"os": "darwin"}, ["AOTC-E501"]),
        ({}, {"libc": "musl 1.2.5"}, ["AOTC-E501"]),
        ({"target": {"triple": "x86_64-unknown-linux-musl"}}, {"libc": "musl 1.2.5"}, []),
        (
            {"target": {"triple": "x86_64-unknown-linux-musl"}},
            {"libc": "glibc 2.40"},
            ["AOTC-E501"],
        ),
        ({"target": {"triple": "x86_64-unknown-linux"}}, {"libc": "musl 1.2.5"}, []),
        ({}, {"libc": "glibc 2.26"}, ["AOTC-E507"]),
        ({}, {"libc": "glibc 2.9"}, ["AOTC-E507"]),
        ({}, {"libc": "glibc unknown"}, []),
        ({}, {"bundle_format": "1.0"}, []),
        ({}, {"bundle_format": "1.1"}, []),
        ({"format_version": "1.10"}, {"bundle_format": "1.9"}, ["AOTC-E402"]),
        ({}, {"bundle_format": "2.0"}, ["AOTC-E402"]),
        ({}, {"isa": frozenset({"avx2"})}, ["AOTC-E502"]),
        ({"requires": {"isa": []}}, {"isa": frozenset()}, []),
        ({"target": {"tuning": ["prefer-512-bit"]}}, {}, []),
        ({}, {"devices": 0}, ["AOTC-E503"]),
        ({"requires": {"devices": 4}}, {"devices": 4}, []),
        ({"requires": {"devices": 4}}, {"devices": 3}, ["AOTC-E503"]),
        ({"requires": {"devices": 4}}, {"devices": 1, "devices_fixed": False}, []),
        ({"requires": {"custom_call_targets": ["xla_ffi_python_cpu_callback"]}}, {}, ["AOTC-E504"]),
        ({"requires": {"custom_call_targets": ["TopK2"]}}, {}, ["AOTC-E504"]),
        ({"requires": {"custom_call_targets": ["my_lapack_x"]}}, {}, ["AOTC-E504"]),
        (LAPACK, {"libraries": ()}, ["AOTC-E510"]),
        (LAPACK, {"libraries": ("scipy",)}, []),
        (LAPACK, {"libraries": None}, []),
        ({"requires": {"custom_call_targets": ["TopK"]}}, {"libraries": ()}, []),
        (IREE, ON_IREE | {"accelerators": (iree(),)}, []),
        (IREE, ON_IREE | {"accelerators": (iree(plugin="3.12.0"),)}, ["AOTC-E403"]),
        (IREE, ON_IREE | {"accelerators": (iree(kinds=("geforce",)),)}, ["AOTC-E508"]),
        (IREE, ON_IREE | {"accelerators": (iree(devices=0),)}, ["AOTC-E501"]),
        (IREE, ON_IREE, ["AOTC-E501", "AOTC-E405"]),
        ({}, {"memory_bytes": 999}, ["AOTC-E551"]),
        ({"requires": {"memory_bytes": 0}}, {"memory_bytes": 0}, []),
    ],
)
def test_mismatch_codes(change: dict[str, Any], facts: dict[str, Any], expected: list[str]) -> None:
    assert codes(change, **facts) == expected


def test_every_mismatch_is_reported_at_once() -> None:
    entry = msgspec.to_builtins(manifest())["entry_points"]["predict"]
    change = {
        "requires": {"custom_call_targets": ["lapack_sgesdd_ffi", "unknown"]},
        "entry_points": {"predict": {**entry, "symbolic": symbolic("9.0.0")}},
    }
    facts = {
        "jaxlib": "0.11.2",
        "platform": "tpu",
        "isa": frozenset[str](),
        "devices": 0,
        "memory_bytes": 0,
        "libc": "glibc 2.17",
        "bundle_format": "0.9",
        "libraries": (),
    }
    found = codes({**change, "accepts_jaxlib": ["0.12.0"]}, **facts)
    assert found == [f"AOTC-E{n}" for n in (402, 401, 404, 501, 507, 502, 503, 504, 510, 551)]
    accelerated = codes(
        {"requires": CUDA},
        accelerators=(gpus(kinds=("L4",), plugin="", driver="12.9", memory_bytes=0),),
    )
    assert accelerated == [f"AOTC-E{n}" for n in (405, 508, 509, 554)]
    # Of accelerators there is one check, and one of custom calls finds two reasons.
    assert len(found) == len(CHECKS)


def symbolic(stablehlo: str | None) -> dict[str, Any]:
    """A module that calls of other sizes are compiled from."""
    version = {} if stablehlo is None else {"stablehlo": stablehlo}
    return {"module": REF, "arguments": [{"from": "input", "leaf": 0, "aliased": False}], **version}


@pytest.mark.parametrize(
    ("stablehlo", "jaxlib", "expected"),
    [
        ("1.20.0", "0.11.2", []),
        ("1.20.1", "0.11.2", ["AOTC-E404"]),
        ("1.22.0", "0.11.2", ["AOTC-E404"]),
        ("1.22.0", "0.12.0", []),
        ("1.100.0", "0.12.0", ["AOTC-E404"]),
        (None, "0.12.0", []),
        ("1.100.0", "0.99.0", ["AOTC-E401"]),
    ],
)
def test_symbolic_module_version(stablehlo: str | None, jaxlib: str, expected: list[str]) -> None:
    entry = msgspec.to_builtins(manifest())["entry_points"]["predict"]
    change = {"entry_points": {"predict": {**entry, "symbolic": symbolic(stablehlo)}}}
    assert codes(change, jaxlib=jaxlib) == expected


def test_what_jaxlib_reads_is_what_it_says() -> None:
    from jaxlib.mlir.dialects import stablehlo
    from jaxlib.version import __version__

    says = tuple(map(int, str(stablehlo.get_current_version()).split(".")))
    assert READS_STABLEHLO.get(__version__, says) == says


IGNORED = {
    "built_with.aotc": "wrote the files, left nothing in the executables",
    "built_with.jax": "traces programs, is not loaded by the server",
    "built_with.jaxlib": "accepts_jaxlib says which versions are accepted",
    "built_with.jaxlib_commit": "the version stands for it; kept for reports",
    "built_with.xla": "follows from the jaxlib version",
    "built_with.ifrt": "follows from the jaxlib version",
    "built_with.stablehlo": "that of the builder; symbolic.stablehlo is that of a module",
    "built_with.tools": "requires.device says which versions of the plugin are accepted",
}
"""Fields of the manifest that decide nothing on a host, each with the reason."""

NEEDS_IREE = {
    "kinds": ["local-sync"],
    "memory_bytes": 0,
    "plugin": "iree-base-runtime",
    "accepts_plugin": ["3.13.0"],
}

UNMET: dict[str, Any] = {
    "platform": "tpu",
    "architecture": "riscv64",
    "isa": ["amx-tile"],
    "devices": 2,
    "custom_call_targets": ["unknown"],
    "memory_bytes": 1001,
    "device": CUDA["device"],
    "engines": {"iree": NEEDS_IREE},
}
"""For each field of `requires`, something the sample's host does not offer."""


def test_every_field_of_requires_and_built_with_is_checked_or_ignored_with_a_reason() -> None:
    fields = {f"requires.{name}" for name in Requirements.__struct_fields__}
    fields |= {f"built_with.{name}" for name in BuiltWith.__struct_fields__}
    checked = {f"requires.{name}" for name in UNMET if codes({"requires": {name: UNMET[name]}})}
    assert checked | IGNORED.keys() == fields
    assert not checked & IGNORED.keys()
    assert all(IGNORED.values())


def test_every_engine_that_lacks_is_named_with_its_package() -> None:
    both = {"iree": NEEDS_IREE, "slate": {**NEEDS_IREE, "plugin": "slate", "accepts_plugin": ["1"]}}
    found = check_host(manifest(requires={"engines": both}), host())
    assert [each.code for each in found] == ["AOTC-E405", "AOTC-E405"]
    hints = [each.hint for each in found]
    assert hints == ["run `pip install iree-base-runtime==3.13.0`", "run `pip install slate==1`"]
    iree = Accelerator(platform="iree", devices=1, kinds=("local-sync",), plugin="3.13.0")
    (left,) = check_host(manifest(requires={"engines": both}), host(accelerators=(iree,)))
    assert left.expected == "slate 1"


PAD = {"policy": "pad", "fill": {}, "mask": "", "length": "", "proof": []}


@pytest.mark.parametrize(
    ("policy", "factor"),
    [
        (PAD, 1),
        ({"policy": "compile", "most": 1, "seconds": 1, "meanwhile": PAD}, 1),
        ({"policy": "split", "proof": []}, 3),
    ],
    ids=["cut", "cut meanwhile", "another part, and all joined"],
)
def test_padded_results_count_as_memory(policy: dict[str, Any], factor: int) -> None:
    document = msgspec.to_builtins(manifest())
    document["entry_points"]["predict"]["out_of_profile"] = {"batch": policy}
    bundle = msgspec.convert(document, BundleManifest)
    more = factor * bundle.entry_points["predict"].profiles[0].memory.output_bytes
    (short,) = check_host(bundle, host(memory_bytes=1000 + more - 1))
    assert short.code == "AOTC-E551" and f"{1000 + more} bytes" in short.expected
    assert check_host(bundle, host(memory_bytes=1000 + more)) == []


def targets(**isa: list[str]) -> dict[str, Any]:
    return {
        name: manifest(target={"name": name}, requires={"isa": features})
        for name, features in isa.items()
    }


def chosen(bundle: dict[str, Any], *isa: str) -> str:
    choice = choose_target(bundle, host(isa=frozenset(isa)), None)
    assert choice.findings == ()
    return choice.target


def test_the_best_target_is_the_one_with_most_features_that_this_host_has() -> None:
    bundle = targets(v2=["sse2"], v3=["sse2", "avx2"], v4=["sse2", "avx2", "fma", "avx512f"])
    assert chosen(bundle, "avx2", "fma", "sse2") == "v3"
    assert chosen(bundle, "avx2", "fma", "sse2", "avx512f") == "v4"
    assert chosen(bundle, "sse2") == "v2"


def test_equal_targets_are_chosen_by_name() -> None:
    assert chosen(targets(b=["avx2"], a=["avx2"]), "avx2") == "a"


def test_a_wanted_target_is_judged_alone() -> None:
    choice = choose_target(targets(v3=["avx2"], v4=["avx512f"]), host(), "v4")
    assert choice.target == "v4" and [f.code for f in choice.findings] == ["AOTC-E502"]
    assert [candidate.target for candidate in choice.candidates] == ["v4"]


def test_a_choice_tells_every_candidate_best_first_with_the_reasons_against_it() -> None:
    bundle = targets(v2=["sse2"], v3=["sse2", "avx2"], v4=["avx512f", "avx512bw"])
    document = json.loads(json.dumps(choice_report(choose_target(bundle, host(), None, ["v5"]))))
    assert document["rule"] == "most processor features"
    assert document["absent"] == ["v5"]
    told = [(c["target"], c["fits"], c["features"]) for c in document["candidates"]]
    assert told == [("v3", True, 2), ("v2", True, 1), ("v4", False, 2)]
    (reason,) = document["candidates"][-1]["findings"]
    assert reason["code"] == "AOTC-E502" and "avx512bw, avx512f" in reason["expected"]
    assert choice_report(choose_target(bundle, host(), "v3"))["rule"] == "named"
