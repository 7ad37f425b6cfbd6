"""Target files for TPUs."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from aotc.compile.compiler_protocol import Backend, TargetKind, device_target, plugin_requirements
from aotc.compile.target_model import Kinds, TargetModel, Text
from aotc.config.manifest_problem import Problem, spell
from aotc.config.toml_document import Document
from aotc.engines.tpu import tpu_topologies
from aotc.engines.tpu.tpu_wheels import PLUGIN
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target, TpuDevice


class TpuModel(TargetModel):
    """Chips of a TPU slice. topology: as libtpu names it, "v5e:2x2"."""

    platform: Literal["tpu"]
    topology: Text
    kinds: Kinds


class TpuKind(TargetKind[TpuModel]):
    """Slices of TPUs, by their topology."""

    model = TpuModel
    lowered_for = "tpu"
    checked = "compiled only"

    def target(self, model: TpuModel) -> Target:
        """Return the schema value of a target file."""
        kinds = tuple(sorted(set(model.kinds)))
        return device_target(model, TpuDevice(topology=model.topology, kinds=kinds))

    def keys(self, target: Target) -> Mapping[str, object]:
        """Return the keys of a target file for such slices."""
        device = _device(target)
        return {"topology": device.topology, "kinds": list(device.kinds)}

    def check(self, document: Document, model: TpuModel) -> Iterator[Finding]:
        """Topologies that there are not, with more devices than they have, or of other kinds."""
        yield from super().check(document, model)
        wrong = partial(Problem, "AOTC-E812", cause="tpu-topology-is-invalid")
        name, kinds = spell(model.topology), ", ".join(map(spell, model.kinds))
        try:
            topology = tpu_topologies.parse(model.topology)
        except tpu_topologies.UnknownTopologyError as error:
            problem = wrong(("topology",), error.hint, expected=error.expected, found=name)
            yield document.finding(problem)
            return
        if model.devices > topology.devices:
            expected = f"at most the {topology.devices} of {model.topology}"
            hint = "correct the number, or name a larger topology"
            problem = wrong(("devices",), hint, expected=expected, found=str(model.devices))
            yield document.finding(problem)
        kind = spell(topology.generation.kind)
        if topology.generation.kind not in model.kinds:
            expected = f"{kind}, the devices of {model.topology}"
            problem = wrong(("kinds",), f"add {kind}", expected=expected, found=kinds)
            yield document.finding(problem)

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements:
        """Return the kinds of chips, and the version of libtpu."""
        return plugin_requirements(_device(target).kinds, PLUGIN, built_with, memory_bytes)

    def fixed_devices(self, target: Target) -> str:
        """Return the topology."""
        return _device(target).topology

    def backend(self) -> Backend:
        """XLA:TPU of the installed libtpu."""
        from aotc.engines.tpu.tpu_compiler import TpuBackend

        return TpuBackend()


def _device(target: Target) -> TpuDevice:
    assert isinstance(target.device, TpuDevice), "a target of the platform tpu has a TPU device"
    return target.device
