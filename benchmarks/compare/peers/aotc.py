"""Ours: a signed bundle, verified and checked against its fixtures before the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.pipeline.build_options import Tuning


def prepare(
    case: Path,
    name: str = "model",
    tuning: Tuning | None = None,
    manifest: str = "manifest.toml",
) -> Sequence[Path]:
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text
    from aotc.pipeline.build import build
    from aotc.pipeline.build_options import BuildOptions

    signer = LocalSigner.ephemeral()
    bundle = case / f"{name}.aotb"
    build(case / "program" / manifest, bundle, BuildOptions(signer=signer, tuning=tuning))
    (case / f"{name}.trust.toml").write_text(policy_text("*", [signer.public_pem()]))
    return [bundle]


def imports() -> None:
    import aotc_runtime  # noqa: F401


def load(case: Path, name: str = "model") -> Callable[[Any], Any]:
    import aotc_runtime

    policy = case / f"{name}.trust.toml"
    run: Callable[[Any], Any] = aotc_runtime.load(case / f"{name}.aotb", trust=policy)["run"]
    return run


def leaves(result: Any) -> Sequence[Any]:
    if isinstance(result, dict):
        return [leaf for key in sorted(result) for leaf in leaves(result[key])]
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def version() -> str:
    from importlib.metadata import version

    return f"aotc-runtime {version('aotc-runtime')}, jaxlib {version('jaxlib')}"
