"""A bundle whose executables two engines made, whatever is fastest here."""

from collections.abc import Mapping
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.config.tuning_file import Recorded, TunedExecutable, TunedTarget, TuningFile
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.schema.bundle_manifest import (
    XLA,
    BundleManifest,
    MeasuredCandidate,
    Tuned,
    engine_name,
)
from aotc_runtime.schema.manifest_labels import executable_key

TARGET = "cpu-x86-64-v3"


def tuning(built: Mapping[str, Built], main: str, choice: Mapping[str, str]) -> Recorded:
    """A tuning file that takes these engines for the executables. built: by engine, of all of
    them.  main: the target's engine.  choice: engine by label.
    """
    manifest = built[main].bundle.manifests[TARGET]
    file = TuningFile(
        aotc_tuning=1,
        jaxlib=manifest.built_with.jaxlib,
        executables=tuple(_executables(manifest, main, choice)),
        untuned_targets={},
        targets={TARGET: TunedTarget(main, _tools(built, choice))},
    )
    return Recorded(file, "tuning.json")


def _tools(built: Mapping[str, Built], choice: Mapping[str, str]) -> dict[str, str]:
    made = (built[engine].bundle.manifests[TARGET].built_with for engine in {*choice.values()})
    return {name: version for each in made for name, version in each.tools.items()}


def _executables(
    manifest: BundleManifest, main: str, choice: Mapping[str, str]
) -> list[TunedExecutable]:
    found = []
    for name, entry_point in manifest.entry_points.items():
        for place, record in enumerate(entry_point.profiles):
            label = executable_key(name, record.sizes).label
            engine = choice[label]
            way = f"{engine}-default"
            tuned = Tuned(
                choice=way,
                options={},
                captured=(),
                candidates=(MeasuredCandidate(name=way, p50_us="1.0", relative="1.0", wins=0),),
                rounds=1,
                margin="0.03",
                processor="here",
                threads=1,
                jaxlib=manifest.built_with.jaxlib,
            )
            beside = {} if engine == main else {"engine": engine}
            digest = record.module.digest
            found.append(TunedExecutable(TARGET, name, place, label, digest, tuned, **beside))
    return found


def make_mixed(
    manifest: Path, folder: Path, other: str, signer: LocalSigner | None = None
) -> tuple[Built, Recorded]:
    """mixed.aotb and its policy, trust.toml, in a folder: `step` by XLA and the small `predict`,
    the large one by another engine. manifest: of `sums`, which lists both.
    """
    signer = signer or LocalSigner.ephemeral()
    text = manifest.read_text(encoding="utf-8")
    built = {}
    for engine in (XLA, other):
        single = manifest.with_name(f"{engine}.toml")
        single.write_text(text.replace(f'["{XLA}", "{other}"]', f'["{engine}"]'), encoding="utf-8")
        built[engine] = build(single, folder / f"{engine}.aotb", BuildOptions(signer=signer))
        assert engine_name(built[engine].bundle.manifests[TARGET].target) == engine
    choice = {"predict[batch=1]": XLA, "predict[batch=4]": other, "step": XLA}
    recorded = tuning(built, XLA, choice)
    mixed = build(manifest, folder / "mixed.aotb", BuildOptions(signer=signer, tuning=recorded))
    (folder / "trust.toml").write_text(policy_text("sums", [signer.public_pem()]))
    return mixed, recorded
