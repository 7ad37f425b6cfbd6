"""Target files: the machine to compile for, never the host's by accident.

A target is looked up by name in a `targets` folder beside the manifest or above it, then among the
built-in ones; or given as a path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from aotc.config import document as toml
from aotc.config import isa, tpu
from aotc.config.problem import shorten, spell
from aotc.config.target_models import (
    LINUX,
    MODELS,
    AnyPlatform,
    CpuModel,
    CudaModel,
    RocmModel,
    TargetModel,
    TpuModel,
)
from aotc.errors import BuildManifestError, raise_if
from aotc_runtime.errors import Finding
from aotc_runtime.schema.device import CudaDevice, RocmDevice, TargetDevice, TpuDevice
from aotc_runtime.schema.manifest import Target
from aotc_runtime.words import closest

NATIVE = "native"
TRIPLES = (LINUX,)
SCHEMA = 1


def builtin_folder() -> Path:
    """Where the targets that come with aotc lie: in the package, or at the top of a checkout."""
    packaged = Path(__file__).resolve().parents[1] / "targets"
    return packaged if packaged.is_dir() else packaged.parents[1] / "targets"


def search_folders(manifest_folder: Path) -> list[Path]:
    """Folders in which a target name is looked up, first match wins."""
    folders = [manifest_folder / "targets", manifest_folder.parent / "targets", builtin_folder()]
    return [f for i, f in enumerate(folders) if f.is_dir() and f not in folders[:i]]


def target_files(manifest_folder: Path) -> list[Path]:
    """Every file that can be named, in search order, sorted within a folder; its name as a target
    is `stem`, whatever the file calls it.
    """
    found: dict[str, Path] = {}
    for folder in search_folders(manifest_folder):
        for path in sorted(folder.glob("*.toml")):
            # A pipe of that name would be waited for without end.
            if path.is_file():
                found.setdefault(path.stem, path)
    return list(found.values())


def list_targets(manifest_folder: Path) -> tuple[dict[Path, TargetModel], list[Finding]]:
    """Every target that can be named, by its file; and what is wrong with the other files, of which
    none keeps the rest from being used.
    """
    models: dict[Path, TargetModel] = {}
    findings: list[Finding] = []
    for path in target_files(manifest_folder):
        try:
            models[path] = _read(path)
        except BuildManifestError as error:
            findings += error.findings
    return models, findings


def known_targets(manifest_folder: Path) -> list[Target]:
    """Every target that can be named, under the name by which it can."""
    models, _ = list_targets(manifest_folder)
    return [replace(target_of(model), name=path.stem) for path, model in models.items()]


def find_target(name: str, manifest_folder: Path, where: str) -> Path:
    """The file of a target. Raises BuildManifestError (AOTC-E811)."""
    close: str | None = None
    why = "not there"
    if name.endswith(".toml") or "/" in name:
        path = manifest_folder / name
        if path.is_file():
            return path
        if path.exists():
            why = "no file"
        choices = f"the path of a target file, relative to {manifest_folder}"
    else:
        for folder in search_folders(manifest_folder):
            if (folder / f"{name}.toml").is_file():
                return folder / f"{name}.toml"
        known = sorted(path.stem for path in target_files(manifest_folder))
        close = closest(name, [NATIVE, *known])
        choices = f"{NATIVE}, or one of: {', '.join(known)}"
    raise BuildManifestError(
        Finding(
            code="AOTC-E811",
            where=where,
            expected=choices,
            found=f"{spell(name)}, which is {why}",
            hint=f"did you mean {close}?" if close else "`aotc targets list` shows every target",
        )
    )


def read_target(name: str, manifest_folder: Path, where: str = "targets") -> Target:
    """The target of this name or path.

    Raises BuildManifestError: AOTC-E811 no such target, E812 unknown processor, triple, feature or
    tuning attribute, and those of `read_build_manifest` for the file itself.
    """
    return target_of(_read(find_target(name, manifest_folder, where)))


def target_of(model: TargetModel) -> Target:
    """The schema value of a target file."""
    options = dict(sorted(model.options.items()))
    if isinstance(model, CpuModel):
        return Target(
            name=model.name,
            platform=model.platform,
            triple=model.triple,
            cpu=model.cpu,
            features=tuple(sorted(set(model.features))),
            tuning=tuple(sorted(set(model.tuning))),
            threads=model.threads,
            options=options,
            devices=model.devices,
        )
    return Target(
        name=model.name,
        platform=model.platform,
        triple=model.triple,
        cpu="",
        features=(),
        tuning=(),
        threads=1,
        options=options,
        device=_device(model),
        devices=model.devices,
    )


def _device(model: CudaModel | TpuModel | RocmModel) -> TargetDevice:
    kinds = tuple(sorted(set(model.kinds)))
    match model:
        case CudaModel():
            return CudaDevice(
                description=model.device,
                compute_capability=model.compute_capability,
                kinds=kinds,
                changes=dict(sorted(model.changes.items())),
                text=model.text,
            )
        case TpuModel():
            return TpuDevice(topology=model.topology, kinds=kinds)
        case RocmModel():
            return RocmDevice(architecture=model.architecture, kinds=kinds)


def file_text(target: Target, name: str) -> str:
    """A target file of this name for machines like a described one: a processor's features without
    those that no code is made of, which other machines of the kind may lack.
    """
    document: dict[str, object] = {
        "schema": 1,
        "name": name,
        "platform": target.platform,
        "triple": target.triple,
    }
    match target.device:
        case CudaDevice() as gpu:
            document |= {"device": gpu.description, "compute_capability": gpu.compute_capability}
            document |= {"kinds": list(gpu.kinds)}
        case TpuDevice() as chips:
            document |= {"topology": chips.topology, "kinds": list(chips.kinds)}
        case RocmDevice() as gpu:
            document |= {"architecture": gpu.architecture, "kinds": list(gpu.kinds)}
        case _:
            document |= {
                "cpu": target.cpu,
                "features": [each for each in target.features if each not in isa.UNUSED],
                "tuning": list(target.tuning),
                "threads": target.threads,
            }
    if target.devices > 1:
        document["devices"] = target.devices
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in document.items()]
    if isinstance(target.device, CudaDevice):
        # JSON's escapes are TOML's, and a text of many lines is easier to read as one.
        text = json.dumps(target.device.text).replace("\\n", "\n").strip('"')
        lines += [f'text = """\n{text}"""\n'] if target.device.text else []
        lines += _table("changes", target.device.changes)
    return "".join([*lines, *_table("options", target.options)])


def _table(name: str, items: Mapping[str, str]) -> list[str]:
    if not items:
        return []
    rows = [f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in items.items()]
    return [f"\n[{name}]\n", *rows]


def _read(path: Path) -> TargetModel:
    document = toml.read(path, "target file")
    toml.require_schema(document, SCHEMA)
    model = _parse(document)
    raise_if(_check(document, model))
    return model


def _parse(document: toml.Document) -> TargetModel:
    platform = document.data.get("platform")
    if platform is None:
        return toml.parse(document, CpuModel)
    if not isinstance(platform, str) or platform not in MODELS:
        platform = toml.parse(document, AnyPlatform).platform
    return toml.parse(document, MODELS[platform])


def _check(document: toml.Document, model: TargetModel) -> Iterator[Finding]:
    def unknown(path: tuple[str | int, ...], what: str, known: str, found: str) -> Finding:
        expected = f"{what}: {known}"
        return document.finding(
            "AOTC-E812", path, expected=expected, found=shorten(found), hint="correct the name"
        )

    if model.triple not in TRIPLES:
        yield unknown(("triple",), "one of", ", ".join(TRIPLES), model.triple)
    if isinstance(model, TpuModel):
        yield from _check_tpu(document, model)
    if not isinstance(model, CpuModel):
        return
    if model.cpu not in isa.CPUS:
        yield unknown(("cpu",), "a processor LLVM knows", ", ".join(isa.CPUS), model.cpu)
    for index, feature in enumerate(model.features):
        if feature not in isa.FEATURES:
            known = ", ".join(sorted(isa.FEATURES))
            yield unknown(("features", index), "an LLVM feature without sign", known, feature)
    for index, attribute in enumerate(model.tuning):
        if not isa.is_tuning(attribute):
            yield unknown(("tuning", index), "a tuning attribute", "prefer-no-gather…", attribute)


def _check_tpu(document: toml.Document, model: TpuModel) -> Iterator[Finding]:
    def wrong(path: tuple[str | int, ...], expected: str, found: str, hint: str) -> Finding:
        return document.finding("AOTC-E812", path, expected=expected, found=found, hint=hint)

    try:
        topology = tpu.parse(model.topology)
    except tpu.UnknownTopologyError as error:
        yield wrong(("topology",), error.expected, spell(model.topology), error.hint)
        return
    if model.devices > topology.devices:
        yield wrong(
            ("devices",),
            f"at most the {topology.devices} of {model.topology}",
            str(model.devices),
            "correct the number, or name a larger topology",
        )
    kind = topology.generation.kind
    if kind not in model.kinds:
        yield wrong(
            ("kinds",),
            f"{spell(kind)}, the devices of {model.topology}",
            ", ".join(map(spell, model.kinds)),
            f"add {spell(kind)}",
        )
