"""Packages that compiling for CUDA needs beside jaxlib (the extra `cuda13`), and their paths."""

from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from aotc.base.errors import finding, raise_if

PLUGIN = "jax-cuda13-pjrt"
KERNELS = "jax-cuda13-plugin"
ASSEMBLER = "nvidia-cuda-nvcc"
LIBRARY = "nvidia-nvvm"
LINKER = "nvidia-nvjitlink"

NEEDED = {
    PLUGIN: ("xla_cuda_plugin.so", "XLA for CUDA devices"),
    KERNELS: ("cuda_plugin_extension.so", "jax's own kernels, such as those of linear algebra"),
    ASSEMBLER: ("ptxas", "the assembler"),
    LIBRARY: ("libdevice.10.bc", "the library of mathematical functions"),
}
"""Distribution to the file in it that is used, and what that is."""

UNPACKER = "cramjam"
"""Not among the versions of a bundle: what it unpacks does not depend on its version."""

HINT = (
    "from a clone: `pip install ./runtime ./runtime/serve '.[cuda13]'` "
    "(1.3 GB with jaxlib; it needs no GPU)"
)


@dataclass(frozen=True, slots=True)
class Wheels:
    """plugin: path of its library.  versions: by distribution, of all that decides on the bytes."""

    plugin: Path
    versions: dict[str, str]


def find(jaxlib: str) -> Wheels:
    """Return the installed wheels. Raises CompileError (AOTC-E907)."""
    found = {name: _distribution(name) for name in (*NEEDED, UNPACKER)}
    files = {name: _file(found[name], file) for name, (file, _) in NEEDED.items()}
    findings = [
        finding("AOTC-E907", name, "", expected=f"{file}, {what}", hint=HINT)
        for name, (file, what) in NEEDED.items()
        if files[name] is None
    ]
    findings += [
        finding(
            "AOTC-E907",
            name,
            installed.version,
            cause="compiler-version-does-not-match-jaxlib",
            expected=jaxlib,
            hint=f"run `pip install {PLUGIN}=={jaxlib} {KERNELS}=={jaxlib}`",
        )
        for name in (PLUGIN, KERNELS)
        if (installed := found[name]) and installed.version != jaxlib
    ]
    if found.pop(UNPACKER) is None:
        what = "what unpacks executables, for the evidence of what is in them"
        findings.append(finding("AOTC-E907", UNPACKER, "", expected=what, hint=HINT))
    raise_if(findings)
    plugin = files[PLUGIN]
    assert plugin is not None, "without findings there are all files"
    # XLA links with nvJitLink instead of ptxas where it finds it, which gives other bytes.
    every = {**found, LINKER: _distribution(LINKER)}
    return Wheels(plugin, {name: each.version for name, each in sorted(every.items()) if each})


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _file(installed: Distribution | None, name: str) -> Path | None:
    """Return a file of a distribution, wherever in it, if it is really there."""
    for file in (installed.files or ()) if installed else ():
        if file.name == name and (path := Path(str(file.locate()))).is_file():
            return path
    return None
