"""Findings about a host that cannot run a bundle's executables, and checks that few bundles need.

Imported where a host does not fit, or a bundle needs accelerators, custom calls or policies for
other sizes. The texts are here instead of in the catalogue, which takes many milliseconds to read:
a load that succeeds checks all targets of a bundle, including those that cannot run here. Imports
inside functions are for findings and custom calls, which a load of another engine does without.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, DeviceRequirements, Split
from aotc_runtime.schema.fallback_policies import without_compiling
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts, version_numbers

PLUGIN_MISSING = "AOTC-E405 engine-package-is-not-installed"
FEW_STARTED = "AOTC-E503 xla-was-started-with-too-few-devices"
CAPABILITY = "AOTC-E508 compute-capability-does-not-match"

TITLES = {
    "AOTC-E401": "jaxlib version is not accepted",
    "AOTC-E402": "runtime does not read this format",
    "AOTC-E403": "engine version is not accepted",
    "AOTC-E404": "jaxlib is too old for a module",
    "AOTC-E405": "jaxlib is not installed",
    PLUGIN_MISSING: "engine package is not installed",
    "AOTC-E501": "host platform does not match",
    "AOTC-E502": "processor features are missing",
    "AOTC-E503": "too few devices",
    FEW_STARTED: "XLA was started with too few devices",
    "AOTC-E504": "unsupported custom calls",
    "AOTC-E507": "C library is too old for jaxlib",
    "AOTC-E508": "accelerator does not match",
    CAPABILITY: "compute capability does not match",
    "AOTC-E509": "GPU driver is too old",
    "AOTC-E510": "scipy is not installed",
    "AOTC-E551": "not enough free memory",
    "AOTC-E554": "not enough free device memory",
}
"""Titles of the catalogue, by code and cause. A test compares them with it."""


def place(manifest: BundleManifest) -> str:
    """Return the location of findings about a target: "digits 1.0.0 for cpu-x86-64-v3"."""
    return f"{manifest.name} {manifest.version} for {manifest.target.name}"


def _about(manifest: BundleManifest, name: str, expected: str, found: str, hint: str) -> Finding:
    """Return a finding about a target.

    `name` is a key of `TITLES`: the code, and the cause if it has one.
    """
    code = name.partition(" ")[0]
    return Finding(code, place(manifest), expected, found, hint, TITLES[name])


def other_jaxlib(manifest: BundleManifest, host: HostFacts) -> Finding:
    """AOTC-E405 for a host without jaxlib, E401 for one with a version that is not accepted."""
    accepted, built_with = manifest.accepts_jaxlib, manifest.built_with.jaxlib
    found = f"jaxlib {host.jaxlib}"
    if host.jaxlib == NOT_INSTALLED:
        version = f"=={accepted[-1]}" if accepted else ""
        hint = f"in a clone, run `pip install './runtime[xla]' jaxlib{version}`"
        return _about(manifest, "AOTC-E405", "", "", hint)
    expected = f"jaxlib {' or '.join(accepted)} (built with {built_with})"
    hint = f"rebuild with jaxlib {host.jaxlib}"
    hint = f"run `pip install jaxlib=={accepted[-1]}`, or {hint}" if accepted else hint
    return _about(manifest, "AOTC-E401", expected, found, hint)


READS_STABLEHLO = {"0.11.2": (1, 20, 0), "0.12.0": (1, 22, 0), "0.12.0.1": (1, 22, 0)}
"""By jaxlib version, the newest portable artifact it reads: `stablehlo.get_current_version()`.
Asking would import MLIR, which takes 160 ms. What another version reads is not known here."""


def newer_modules(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Yield modules of a later version than the host's jaxlib reads."""
    reads = READS_STABLEHLO.get(host.jaxlib)
    for name, entry_point in manifest.entry_points.items():
        if entry_point.symbolic is UNSET or entry_point.symbolic.stablehlo is UNSET:
            continue
        needs = entry_point.symbolic.stablehlo
        if reads is not None and version_numbers(needs) > reads:
            where, expected = f"{place(manifest)}, {name}", f"StableHLO {needs}"
            found = f"StableHLO {'.'.join(map(str, reads))} with jaxlib {host.jaxlib}"
            hint = "install a newer jaxlib, or build with an older one"
            yield Finding("AOTC-E404", where, expected, found, hint, TITLES["AOTC-E404"])


def newer_format(manifest: BundleManifest, host: HostFacts) -> Finding:
    """AOTC-E402."""
    expected = f"bundle format {manifest.format_version}"
    found = f"bundle format {host.bundle_format} with aotc-runtime {host.runtime}"
    hint = "update aotc-runtime on that host"
    return _about(manifest, "AOTC-E402", expected, found, hint)


def other_platform(manifest: BundleManifest, needs: Sequence[str], has: Sequence[str]) -> Finding:
    """AOTC-E501."""
    hint = "build for a target of this host"
    return _about(manifest, "AOTC-E501", " ".join(needs), " ".join(has), hint)


def older_libc(floor: Sequence[int], host: HostFacts) -> Finding:
    """AOTC-E507."""
    expected = "glibc " + ".".join(map(str, floor)) + " or newer"
    hint = "run on a newer system, or in a container"
    where, title = "this host's C library", TITLES["AOTC-E507"]
    return Finding("AOTC-E507", where, expected, host.libc, hint, title)


def missing_features(manifest: BundleManifest, host: HostFacts, missing: Sequence[str]) -> Finding:
    """AOTC-E502."""
    hint = "add a target for this processor (`aotc targets list`) and build again"
    return _about(manifest, "AOTC-E502", ", ".join(missing), host.cpu, hint)


def too_few_devices(manifest: BundleManifest, has: int) -> Finding:
    """AOTC-E503."""
    needs = manifest.requires.devices
    name, hint = "AOTC-E503", "run where enough devices are visible"
    if manifest.requires.device is UNSET:
        name, hint = FEW_STARTED, f"pass `devices={needs}` to the first load of the process"
    return _about(manifest, name, f"{needs} devices", str(has), hint)


def device_findings(
    manifest: BundleManifest, platform: str, needs: DeviceRequirements, host: HostFacts
) -> Iterator[Finding]:
    """Yield every reason why the devices of a platform cannot run a target.

    The codes are AOTC-E403 and E405 plugin, E508 kind, E509 driver, E554 memory.
    """
    has = host.accelerator(platform)
    if has.plugin not in needs.accepts_plugin:
        expected = f"{needs.plugin} {' or '.join(needs.accepts_plugin)}"
        found, name = (
            (f"{needs.plugin} {has.plugin}", "AOTC-E403") if has.plugin else ("", PLUGIN_MISSING)
        )
        hint = "rebuild with the installed plugin"
        if needs.accepts_plugin:
            hint = f"run `pip install {needs.plugin}=={needs.accepts_plugin[-1]}`"
        yield _about(manifest, name, expected, found, hint)
    if not has.devices:
        return
    strange = sorted(set(has.kinds) - set(needs.kinds))
    hint = "add a target for these devices and build again"
    if strange or not has.kinds:
        expected, found = " or ".join(needs.kinds), ", ".join(strange) or "unknown"
        yield _about(manifest, "AOTC-E508", expected, found, hint)
    if needs.compute_capability and needs.compute_capability != has.compute_capability:
        expected = needs.compute_capability
        yield _about(manifest, CAPABILITY, expected, has.compute_capability or "unknown", hint)
    if needs.driver and version_numbers(has.driver) < version_numbers(needs.driver):
        expected, found = f"a driver for CUDA {needs.driver} or newer", "unknown"
        if has.driver:
            found = f"{has.driver_release or 'a driver'} for CUDA {has.driver}"
        hint = "update the driver, or build with a plugin for its CUDA version"
        yield _about(manifest, "AOTC-E509", expected, found, hint)
    memory = needs.memory_bytes + padding_bytes(manifest)
    if has.memory_bytes < memory:
        expected = f"{memory} bytes on each device"
        hint = "free device memory, or build smaller profiles"
        yield _about(manifest, "AOTC-E554", expected, f"{has.memory_bytes} bytes", hint)


def unserved_calls(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Yield custom calls that this runtime cannot register (AOTC-E504).

    Also yields Python packages behind them that the host lacks, if these are known (AOTC-E510).
    """
    from aotc_runtime.schema.served_kernels import LAPACK, SERVED, is_served

    platform, targets = manifest.requires.platform, manifest.requires.custom_call_targets
    if unknown := [target for target in targets if not is_served(platform, target)]:
        expected = "one of: " + SERVED.get(platform, "none")
        hint = "update aotc-runtime"
        yield _about(manifest, "AOTC-E504", expected, ", ".join(unknown), hint)
    needing = [target for target in targets if target.startswith(LAPACK)]
    if needing and host.libraries is not None and "scipy" not in host.libraries:
        expected = f"LAPACK of scipy, for {', '.join(needing)}"
        yield _about(manifest, "AOTC-E510", expected, "", "run `pip install scipy`")


JOINED = 3
"""The results of the second part, and those of both parts joined, in multiples of one part's."""


def padding_bytes(manifest: BundleManifest) -> int:
    """Return the bytes that a padded or split call needs beyond a call of a profile.

    A padded call needs its results once more, cut; copies of its inputs are counted for the profile
    already. A split call of two parts needs the results of the second part, and all results joined.
    """
    needs = 0
    for entry_point in manifest.entry_points.values():
        if policies := without_compiling(entry_point).values():
            factor = JOINED if any(isinstance(policy, Split) for policy in policies) else 1
            needs = max(needs, *(factor * p.memory.output_bytes for p in entry_point.profiles))
    return needs


def too_little_memory(manifest: BundleManifest, host: HostFacts, needs: int) -> Finding:
    """Return AOTC-E551 for a target that needs this many bytes."""
    hint = "raise the memory limit of the container or of `load`, or build smaller profiles"
    expected, found = f"{needs} bytes", f"{host.memory_bytes} bytes"
    return _about(manifest, "AOTC-E551", expected, found, hint)


def missing_target(
    manifests: Mapping[str, BundleManifest], wanted: str, absent: Sequence[str]
) -> Finding:
    """AOTC-E505 for a target that is not there: left out of this copy, or never in the bundle."""
    expected = "one of: " + ", ".join(sorted(manifests))
    if wanted in absent:
        cause = "target-was-left-out-of-this-copy"
        return finding("AOTC-E505", "target", wanted, cause=cause, expected=expected)
    from aotc_runtime.base.suggestions import did_you_mean

    hint = did_you_mean(wanted, manifests, "choose one that `aotc inspect` lists")
    return finding("AOTC-E505", "target", wanted, expected=expected, hint=hint)
