"""The programs of docs/guides/export.md, in Node, C++ and Rust: `make test-clients`."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from tests.conftest import MANIFESTS, ROOT, Once
from tests.documented import code_of, in_shell

PAGE = ROOT / "docs" / "guides" / "export.md"
CLIENTS = Path(os.environ.get("AOTC_CLIENTS", ROOT / "out" / "clients"))
HEADERS = Path(os.environ.get("AOTC_ONNXRUNTIME_HEADERS", "/usr/include/onnxruntime"))

CPP = """
#include <array>
#include <iostream>
#include <vector>
#include <onnxruntime_cxx_api.h>

int main() {{
{code}
for (int i = 0; i < 80; i++) std::cout << probabilities[i] << " ";
}}
"""
CARGO = """
[package]
name = "client"
version = "0.1.0"
edition = "2024"

[dependencies]
"""


@pytest.fixture
def folder(once: Once, tmp_path: Path) -> Path:
    """A folder in which the page's command has run; `lib` in it has ONNX Runtime's library."""
    import onnxruntime

    def fill(folder: Path) -> None:
        shutil.copytree(MANIFESTS / "digits", folder / "digits")
        text = (MANIFESTS / "digits.toml").read_text()
        manifest = folder / "digits.toml"
        manifest.write_text(text.replace("targets = ", 'engines = ["onnxruntime"]\ntargets = '))
        signer = LocalSigner.ephemeral()
        build(manifest, folder / "digits.aotb", BuildOptions(signer=signer))
        (folder / "trust.toml").write_text(policy_text("digits", [signer.public_pem()]))

    built = once("onnx-digits", fill)
    for name in ("digits.aotb", "trust.toml"):
        shutil.copy(built / name, tmp_path)
    in_shell(code_of("console", PAGE), tmp_path)
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    (tmp_path / "lib").mkdir()
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / "lib" / name).symlink_to(library)
    return tmp_path


def node(folder: Path) -> str:
    """Return what the program of Node prints."""
    if not (CLIENTS / "node_modules" / "onnxruntime-node").exists() or not shutil.which("node"):
        pytest.skip("needs node and npm: make test-clients")
    (folder / "node_modules").symlink_to(CLIENTS / "node_modules")
    (folder / "client.mjs").write_text(code_of("js", PAGE))
    return in_shell("node client.mjs", folder).partition("[")[2]


def cpp(folder: Path) -> str:
    """Return what the program of C++ prints, with the library of this Python."""
    if not HEADERS.is_dir() or not shutil.which("g++"):
        pytest.skip("needs g++ and ONNX Runtime's headers (HEADERS): make test-clients")
    (folder / "client.cpp").write_text(CPP.format(code=code_of("cpp", PAGE)))
    link = "-L lib -lonnxruntime -Wl,-rpath,lib"
    in_shell(f"g++ -std=c++20 -I '{HEADERS}' client.cpp {link} -o client", folder)
    return in_shell("./client", folder)


def rust(folder: Path) -> str:
    """Return what the program of Rust prints, with the library of this Python."""
    if not shutil.which("cargo"):
        pytest.skip("needs cargo: make test-clients")
    (folder / "src").mkdir()
    (folder / "src" / "main.rs").write_text(code_of("rust", PAGE))
    (folder / "Cargo.toml").write_text(CARGO + code_of("toml", PAGE))
    fetched = subprocess.run(["cargo", "fetch"], cwd=folder, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"needs crates.io, or a copy of its crates: {fetched.stderr[-200:]}")
    return in_shell("cargo run --quiet", folder, ORT_DYLIB_PATH="lib/libonnxruntime.so")


@pytest.mark.parametrize("client", [node, cpp, rust])
def test_a_program_of_the_page_gets_the_results_of_the_model(
    client: Callable[[Path], str], folder: Path
) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "digits-onnx" / "model.onnx"))
    (expected,) = session.run(["probabilities"], {"image": np.zeros((8, 64), np.float32)})
    printed = [float(each) for each in re.findall(r"\d[\d.e+-]*", client(folder))]
    np.testing.assert_allclose(np.reshape(printed, (8, 10)), expected, rtol=1e-4, atol=1e-6)
