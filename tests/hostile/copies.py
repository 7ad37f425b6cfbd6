"""Commands that copy a bundle, each as a function of where it lies."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import merge_bundles
from aotc_runtime.system.streamed_bundle import open_streamed

TARGET, SIGNER = "cpu-x86-64-v3", LocalSigner.ephemeral()


def extracted(path: Path, form: Form) -> Path:
    extract(open_streamed(path), [TARGET], path.with_name("new"), form)
    return path.with_name("new")


def merged(path: Path, form: Form) -> Path:
    merge_bundles([path], path.with_name("new"), form, None, None, datetime.now(UTC))
    return path.with_name("new")


def endorsed(path: Path, form: Form) -> Path:
    endorse(path, SIGNER)
    return path


COPIES: dict[str, Callable[[Path, Form], Path]] = {
    "extract": extracted,
    "merge": merged,
    "sign": endorsed,
}
"""Where the copy lies, of a bundle and the form that it is to have."""
