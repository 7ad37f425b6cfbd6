"""Target files: the machine to compile for, which is never the host by accident.

A target is searched by name in a `targets` folder beside the manifest or above it, then among the
built-in ones; or given as a path.
"""

from pathlib import Path
from typing import Any, Literal

import tomlkit
from msgspec.structs import replace
from pydantic import ConfigDict, create_model

from aotc.base.errors import BuildManifestError, raise_if, refusal
from aotc.compile.compiler_registry import kind_of, platforms
from aotc.compile.cpu.cpu_kind import CpuKind
from aotc.compile.target_model import TargetModel
from aotc.config import toml_document as toml
from aotc.config.manifest_problem import spell
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import closest
from aotc_runtime.schema.bundle_manifest import Target

NATIVE = "native"
SCHEMA = 1


def builtin_folder() -> Path:
    """Return the folder of aotc's own targets: in the package, or at the top of a checkout."""
    packaged = Path(__file__).resolve().parents[1] / "targets"
    return packaged if packaged.is_dir() else packaged.parents[1] / "targets"


def search_folders(manifest_folder: Path) -> list[Path]:
    """Return folders in which a target name is looked up, first match wins."""
    folders = [manifest_folder / "targets", manifest_folder.parent / "targets", builtin_folder()]
    return [f for i, f in enumerate(folders) if f.is_dir() and f not in folders[:i]]


def target_files(manifest_folder: Path) -> list[Path]:
    """Return all target files in search order, sorted within a folder.

    A target's name is the file's `stem`.
    """
    found: dict[str, Path] = {}
    for folder in search_folders(manifest_folder):
        for path in sorted(folder.glob("*.toml")):
            # A pipe of that name would be waited for without end.
            if path.is_file():
                found.setdefault(path.stem, path)
    return list(found.values())


def list_targets(manifest_folder: Path) -> tuple[dict[Path, TargetModel], list[Finding]]:
    """Return all targets by file, and findings for invalid files, which do not affect others."""
    models: dict[Path, TargetModel] = {}
    findings: list[Finding] = []
    for path in target_files(manifest_folder):
        try:
            models[path] = _read(path)
        except BuildManifestError as error:
            findings += error.findings
    return models, findings


def known_targets(manifest_folder: Path) -> list[Target]:
    """Return all targets under the names of their files."""
    models, _ = list_targets(manifest_folder)
    return [replace(target_of(model), name=path.stem) for path, model in models.items()]


def find_target(name: str, manifest_folder: Path, where: str) -> Path:
    """Return the file of a target. Raises BuildManifestError (AOTC-E811)."""
    close: str | None = None
    why = ""
    if name.endswith(".toml") or "/" in name:
        path = manifest_folder / name
        if path.is_file():
            return path
        if path.exists():
            why = ", which is not a file"
        choices = f"the path of a target file, relative to {manifest_folder}"
    else:
        known = {path.stem: path for path in target_files(manifest_folder)}
        if name in known:
            return known[name]
        close = closest(name, [NATIVE, *sorted(known)])
        choices = f"{NATIVE}, or one of: {', '.join(sorted(known))}"
    hint = f"did you mean `{close}`?" if close else None
    raise refusal("AOTC-E811", where, f"{spell(name)}{why}", expected=choices, hint=hint)


def read_target(name: str, manifest_folder: Path, where: str = "targets") -> Target:
    """Return the target of this name or path.

    Raises BuildManifestError: AOTC-E811 no such target, E812 unknown processor, triple, feature or
    tuning attribute, and those of `read_build_manifest` for the file itself.
    """
    return target_of(_read(find_target(name, manifest_folder, where)))


def target_of(model: TargetModel) -> Target:
    """Return the schema value of a target file."""
    return kind_of(model.platform).target(model)


def file_text(target: Target, name: str) -> str:
    """Return a target file of this name for machines like a described one."""
    keys: dict[str, object] = {
        "schema": SCHEMA,
        "name": name,
        "platform": target.platform,
        "triple": target.triple,
        "devices": target.devices if target.devices > 1 else "",
        **kind_of(target.platform).keys(target),
        "options": target.options,
    }
    texts = {key: each for key, each in keys.items() if isinstance(each, str) and "\n" in each}
    keys |= {key: tomlkit.string(f"\n{text}", multiline=True) for key, text in texts.items()}
    stated = {key: value for key, value in keys.items() if value not in ("", {})}
    return tomlkit.dumps(dict(sorted(stated.items(), key=lambda item: isinstance(item[1], dict))))


def _read(path: Path) -> TargetModel:
    document = toml.read(path, "target file")
    toml.require_schema(document, SCHEMA)
    platform = document.data.get("platform", CpuKind.platform)
    if not isinstance(platform, str) or platform not in platforms():
        # A model that only requires a known platform.
        fields: dict[str, Any] = {"platform": (Literal[*platforms()], ...)}
        config = ConfigDict(extra="ignore", frozen=True, strict=True)
        toml.parse(document, create_model("AnyPlatform", __config__=config, **fields))
    kind = kind_of(str(platform))
    model: TargetModel = toml.parse(document, kind.model)
    raise_if(kind.check(document, model))
    return model
