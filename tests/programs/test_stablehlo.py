"""StableHLO's own test data through the frontend and the production loader: `make test-stablehlo`.

Each module of `testdata` has a function with inputs, one with what is expected, and `main` between
them, which compares by a custom call of StableHLO's interpreter. Here `main` gets the inputs as
arguments and what it returns is compared in Python. Functions of `tests/interpret` have no inputs,
and check their values one by one; here they return these.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import CaptureError
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.frontends.stablehlo.stablehlo_frontend import StablehloFrontend
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions

CHECKOUT = os.environ.get("AOTC_STABLEHLO", "")
ONLY = os.environ.get("STABLEHLO", "")

pytestmark = [
    pytest.mark.stablehlo,
    pytest.mark.limit(4 * 3600),  # the first test reads all files
    pytest.mark.skipif(not CHECKOUT, reason="a checkout of openxla/stablehlo: test-stablehlo"),
]

ENTRY_POINTS = 100
"""Of a bundle, at most."""

BUNDLES = 28
"""As many as the test data of 2026 need."""

_CHECK = re.compile(r"^.*stablehlo\.custom_call @check\..*\n", re.MULTILINE)
_INPUTS = re.compile(r"^ *(%\w+)(?::\d+)? = call @inputs\(\) : \(\) -> (.*)\n", re.MULTILINE)
_MAIN = "func.func public @main()"
_FUNCTION = re.compile(r"func\.func (?:public |private )?@(\w+)")
_EXPECTED = re.compile(
    r"check\.expect(?:_almost)?_eq_const (%[\w#]+),\s+(dense<[^:]*>)\s*:\s+(tensor<.*>)\n"
)

LEFT_OUT = {
    **dict.fromkeys(("ceil_2", "ceil_3", "floor_2", "floor_3"), "subnormal numbers count as 0"),
    **dict.fromkeys(
        ("bitcast_convert_0", "bitcast_convert_2", "cbrt_1", "dynamic_conv_0"),
        "XLA does not translate it",
    ),
    **dict.fromkeys(("ragged_dot_0", "ragged_dot_1"), "XLA has no code for it on processors"),
}
"""Of the interpreter's tests, by file and number there."""

RTOL = {"float64": 1e-10, "complex128": 1e-10, "float32": 1e-4, "complex64": 1e-4}
"""Of what XLA computes in another way than the interpreter; narrower types have 2e-2."""


@dataclass(frozen=True)
class Case:
    """A module whose `main` takes its inputs. inputs, expected: arrays, in their order."""

    text: str
    inputs: tuple[Any, ...]
    expected: tuple[Any, ...]


ALMOST, ALMOST_RTOL = "// almost", 1e-4
"""Ends a module of the interpreter's tests that does not ask for the last digits."""


def with_arguments(text: str) -> str:
    """The module with the results of `@inputs` as arguments of `@main`, and without checks."""
    text = _CHECK.sub("", text)
    called = _INPUTS.search(text)
    if called is None:
        return text
    types = called[2].removeprefix("(").removesuffix(")").split(", ")
    name, names = called[1], [f"%given{number}" for number in range(len(types))]
    text = text.replace(called[0], "")
    for number, given in enumerate(names):
        text = re.sub(rf"{name}#{number}\b", given, text)
    main, end, others = text.partition("\n  }\n")
    if len(types) == 1:
        main = re.sub(rf"{name}\b(?!#)", names[0], main)
    arguments = ", ".join(map(": ".join, zip(names, types, strict=True)))
    return main.replace(_MAIN, f"func.func public @main({arguments})", 1) + end + others


def read(text: str, signature: str) -> Any:
    def beside(path: str) -> bytes:
        raise AssertionError(path)

    file = ModelFile("case.mlir", text.encode(), signature, beside, enable_x64=True)
    return StablehloFrontend().read(file)


def constants(text: str, signature: str) -> tuple[Any, ...]:
    if f"@{signature}()" not in text:
        return ()
    model = read(text, signature)
    return tuple(np.asarray(each) for each in jax.jit(model.function)(dict(model.weights)))


def with_results(text: str) -> str:
    """A module of the interpreter's tests whose only function with checks, now `main`, returns what
    it checks, with a function that returns what is expected of that; "" if it checks nothing.
    """
    start = text.find("func.func", text.rfind("func.func", 0, max(text.find("check.expect"), 0)))
    found = [*_EXPECTED.finditer(text)]
    if not found:
        return ""
    name = _FUNCTION.findall(text[: found[0].start()])[-1]
    kinds = ", ".join(each[3] for each in found)
    body = text[start:]
    if "check." in _EXPECTED.sub("", text) or _FUNCTION.search(body[: body.rindex("check.")], 1):
        return ""
    returned = f"return {', '.join(each[1] for each in found)} : {kinds}"
    if "check.expect_almost" in text:
        body += ALMOST
    body = re.sub(r"\b(func\.)?return *$", returned, _EXPECTED.sub("", body), count=1, flags=re.M)
    body = body.replace(f"@{name}() {{", f"@main() -> ({kinds}) {{")
    made = [f"  %{i} = stablehlo.constant {each[2]} : {each[3]}" for i, each in enumerate(found)]
    values = ", ".join(f"%{i}" for i in range(len(found)))
    expected = "\n".join([*made, f"  return {values} : {kinds}"])
    return f"{text[:start]}{body}\nfunc.func @expected() -> ({kinds}) {{\n{expected}\n}}\n"


def texts() -> Iterator[tuple[str, str]]:
    """Every module by name."""
    folder = Path(CHECKOUT, "stablehlo")
    for path in sorted(folder.glob("testdata/*.mlir")):
        yield re.sub(r"\W", "_", path.stem), with_arguments(path.read_text())
    for path in sorted(folder.glob("tests/interpret/**/*.mlir")):
        for number, text in enumerate(path.read_text().split("// -----")):
            if "func.func" in text:
                yield f"interpret_{path.stem}_{number}", with_results(text)


def case_of(text: str) -> Case | str:
    """Or why it is left out."""
    if not text:
        return "checks nothing that is a constant, or in several functions"
    try:
        model = read(text, "main")
        case = Case(text, constants(text, "inputs"), constants(text, "expected"))
    except CaptureError as error:
        for reason in ("run_parallel", "!quant.", "infeed"):
            if reason in text:
                return f"{error.code} {reason}"
        return f"{error.code} {error.findings[0].found[:40]}"
    if called := re.search(r"custom_call @([\w.]+)", text):
        return f"calls {called[1]}"
    if not case.expected:
        return "expects nothing"
    if any(each.dtype.name in ("int2", "uint2") for each in case.expected):
        return "AOTC-E832 arrays of two bits"
    assert len(model.inputs) == len(case.inputs)
    return case


@pytest.fixture(scope="module")
def sorted_out() -> tuple[dict[str, Case], Counter[str]]:
    """Cases by name, and how many were left out for which reason."""
    cases, left_out = dict[str, Case](), Counter[str]()
    jax.config.update("jax_enable_x64", True)
    try:
        for name, text in texts():
            if ONLY not in name:
                continue
            found = LEFT_OUT.get(name.removeprefix("interpret_")) or case_of(text)
            if isinstance(found, Case):
                cases[name] = found
            else:
                left_out[found] += 1
    finally:
        jax.config.update("jax_enable_x64", False)
    assert cases
    return cases, left_out


def test_nothing_is_left_out_without_a_reason(
    sorted_out: tuple[Mapping[str, Case], Counter[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    cases, left_out = sorted_out
    with capsys.disabled():
        print(f"\n{len(cases)} cases; left out:")
        for reason, count in left_out.most_common():
            print(f"{count:5} {reason}")
    assert len(cases) > left_out.total()


def manifest(names: list[str]) -> Iterator[str]:
    yield 'schema = 1\nname = "testdata"\nversion = "1.0.0"\nenable_x64 = true'
    yield 'targets = ["cpu-x86-64-v3"]'
    for name in names:
        yield f'[entry_points.c_{name}]\nsource = "{name}.mlir"\nweights = "all"'
        yield f'fixtures.file = "{name}.npz"'


@pytest.mark.parametrize("bundle", range(BUNDLES))
def test_modules_give_in_the_production_loader_what_they_expect(
    bundle: int, sorted_out: tuple[Mapping[str, Case], Counter[str]], tmp_path: Path
) -> None:
    cases = sorted_out[0]
    count = -(-len(cases) // ENTRY_POINTS)
    assert count <= BUNDLES
    names = [*cases][bundle::count] if bundle < count else []
    if not names:
        pytest.skip("other bundles hold all that STABLEHLO selects")
    for name in names:
        (tmp_path / f"{name}.mlir").write_text(cases[name].text)
        given = {f"arg{n}": array for n, array in enumerate(cases[name].inputs)}
        np.savez(tmp_path / f"{name}.npz", **given)
    (tmp_path / "x.toml").write_text("\n".join(manifest(names)))
    signer = LocalSigner.ephemeral()
    build(tmp_path / "x.toml", tmp_path / "x.aotb", BuildOptions(signer=signer))
    (tmp_path / "trust.toml").write_text(policy_text("testdata", [signer.public_pem()]))
    wrong = {}
    with aotc_runtime.load(tmp_path / "x.aotb", trust=tmp_path / "trust.toml") as loaded:
        for name in names:
            found = loaded[f"c_{name}"](*cases[name].inputs)
            for one, other in zip(found, cases[name].expected, strict=True):
                rtol = RTOL.get(other.dtype.name, 2e-2)
                if ALMOST in cases[name].text:
                    rtol = max(rtol, ALMOST_RTOL)
                wide = np.complex128 if np.iscomplexobj(other) else np.float64
                if one.dtype != other.dtype or not np.allclose(
                    one.astype(wide), other.astype(wide), rtol=rtol, atol=1e-6, equal_nan=True
                ):
                    wrong[name] = (one, other)
    assert not wrong
