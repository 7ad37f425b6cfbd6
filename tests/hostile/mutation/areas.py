"""What `make mutate` removes checks from, and the tests that have to notice."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import aotc
import aotc_runtime

ROOT = Path(__file__).parents[3]

RUNTIME, TOOLCHAIN = Path(aotc_runtime.__file__).parent, Path(aotc.__file__).parent


class Area(NamedTuple):
    """Modules, and the tests that have to notice what is missing there.

    root: of the package.  attacks: whether those on bundles run before the tests.  in_file: what
    child processes run, or the import of a module, is changed in the file, in a copy of
    everything; else a function is changed in a process that has imported it, which takes less time.
    decisions: these modules decide: whatever depends on a condition has to be missed, too.  needs:
    packages that the tests import; the area is left out where one is missing.
    """

    root: Path
    places: tuple[str, ...]
    tests: tuple[str, ...]
    attacks: bool = False
    in_file: bool = False
    decisions: bool = False
    needs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        more = f" and {len(self.places) - 1} more" if len(self.places) > 1 else ""
        return f"{self.root.name}/{self.places[0]}{more}"

    def lacking(self) -> list[str]:
        """Of the packages that it needs, those that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


WITHOUT_BUILDS = (
    "-k",
    "not another_folder and not falls_to_the_next and not without_another_engine"
    " and not both_architectures",
)
"""Of the tests of engines, those that ask the loader; what the others do is mostly building."""

AREAS = (
    Area(
        RUNTIME,
        (
            "formats",
            "verification",
            "canonical.py",
            "schema/tree.py",
            "system/layout_folder.py",
            "system/store.py",
            "serving/readiness.py",
        ),
        # Of policies that say nothing clear or accept the bundle, of limits and fixtures, and of
        # which of several rules it is that refuses.
        (
            "tests/unit/runtime/formats/test_bounded_toml.py",
            "tests/unit/runtime/formats/test_edges.py",
            "tests/unit/runtime/serving/test_dtypes_and_compare.py",
            "tests/unit/runtime/system/test_layout_folder.py",
            "tests/unit/runtime/system/test_store.py",
            "tests/unit/runtime/system/test_store_files.py",
            "tests/unit/cli/test_command_trust_dates.py",
            "tests/unit/packing/test_limits_at_their_edge.py",
            "tests/registries/test_one_target.py",
            "tests/unit/runtime/verification",
            "tests/hostile/test_archives.py",
            "tests/hostile/test_certificates.py",
            "tests/hostile/test_contradictions.py",
            "tests/hostile/test_identities.py",
            "tests/hostile/test_policy_rules.py",
            "tests/hostile/test_readiness.py",
            "tests/hostile/test_shape_contradictions.py",
            "tests/hostile/test_timestamps.py",
            "tests/hostile/test_who_may_speak.py",
        ),
        attacks=True,
    ),
    Area(
        RUNTIME,
        ("schema/policy.py",),
        ("tests/hostile/test_who_may_speak.py", "tests/hostile/test_policy_rules.py"),
        decisions=True,
    ),
    Area(RUNTIME, ("channel",), ("tests/hostile/test_channels.py",)),
    Area(
        TOOLCHAIN,
        (
            "workshops/channel/repository.py",
            "workshops/channel/host.py",
            "workshops/channel/naming.py",
            "workshops/channel/keys.py",
            "workshops/channel/telling.py",
        ),
        (
            "tests/unit/workshops/channel",
            "tests/hostile/test_channel_folders.py",
            "tests/hostile/test_channels.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("workshops/registries/pull.py", "workshops/registries/push.py"),
        (
            "tests/registries/test_channels.py",
            "tests/registries/test_one_target.py",
            "tests/registries/test_push_pull.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        (
            "signing/attest.py",
            "signing/keys.py",
            "signing/plugins.py",
            "signing/timestamping.py",
            "signing/trust_state.py",
        ),
        (
            "tests/unit/signing/test_attestations.py",
            "tests/unit/signing/test_plugins.py",
            "tests/unit/signing/test_signing_keys.py",
            "tests/unit/cli/test_command_keygen.py",
            "tests/unit/cli/test_command_sign.py",
            "tests/unit/cli/test_command_trust_changes.py",
            "tests/unit/cli/test_command_trust_dates.py",
            "tests/unit/cli/test_command_trust_roles.py",
            "tests/hostile/test_timestamps.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("workshops/attest/sigstore_bundle.py",),
        ("tests/hostile/test_identities.py", "-k", "attach"),
    ),
    Area(TOOLCHAIN, ("capture/npz.py",), ("tests/unit/capture/test_npz.py",), decisions=True),
    Area(
        TOOLCHAIN,
        ("packing/hashed_once.py",),
        ("tests/unit/packing/test_hashed_once.py",),
        decisions=True,
    ),
    Area(TOOLCHAIN, ("cache/files.py",), ("tests/unit/cache/test_kept_files.py",), decisions=True),
    Area(
        TOOLCHAIN,
        ("packing/beside.py", "whole_file.py"),
        ("tests/unit/packing/test_layouts_beside.py", "tests/unit/test_whole_file.py"),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("packing/attestations.py", "packing/bundle.py", "packing/read_back.py"),
        (
            "tests/unit/packing",
            "tests/unit/bundles/test_endorse.py",
            "tests/unit/cli/test_command_sign.py",
            "tests/hostile/test_copied_weights.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("cli/key_option.py", "cli/passphrase.py"),
        ("tests/unit/cli/test_command_keygen.py", "tests/unit/cli/test_command_sign.py"),
        in_file=True,
    ),
    Area(TOOLCHAIN, ("workshops/pkcs11/uri.py",), ("tests/unit/workshops/pkcs11",)),
    Area(TOOLCHAIN, ("workshops/remote/seal.py",), ("tests/unit/workshops/remote/test_seal.py",)),
    Area(
        TOOLCHAIN,
        (
            "frontends/archive.py",
            "frontends/pytorch/bindings.py",
            "frontends/pytorch/plan.py",
            "frontends/pytorch/results.py",
            "frontends/pytorch/schema.py",
            "frontends/pytorch/states.py",
            "frontends/pytorch/weights.py",
        ),
        (
            "tests/unit/frontends/pytorch/test_hostile_files.py",
            "tests/unit/frontends/pytorch/test_file_parts.py",
            "tests/unit/frontends/pytorch/test_changing_models.py",
            "tests/unit/frontends/pytorch/test_written_files.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("frontends/tensorflow.py",),
        ("tests/unit/frontends/test_tensorflow_files.py",),
    ),
    Area(
        TOOLCHAIN,
        ("frontends/kernels.py",),
        ("tests/unit/frontends/test_kernels.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("frontends/modules.py", "frontends/probe.py", "frontends/probe_worker.py"),
        ("tests/unit/frontends/test_stablehlo_modules.py",),
        in_file=True,
    ),
    Area(TOOLCHAIN, ("ownership.py",), ("tests/unit/test_ownership.py",), decisions=True),
    Area(
        TOOLCHAIN,
        ("process_guard.py",),
        (
            "tests/unit/pipeline/test_process_guard.py",
            "tests/unit/pipeline/test_processes.py",
            "tests/unit/workers/test_forked.py",
        ),
        in_file=True,
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/xla/flags.py",),
        ("tests/unit/runtime/engines/test_flags.py",),
        in_file=True,
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/iree/archive.py", "engines/iree/elements.py", "engines/processor.py"),
        (
            "tests/unit/runtime/engines/test_iree_archive.py",
            "tests/unit/runtime/engines/test_processor.py",
        ),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/iree/device.py",),
        (
            "tests/engines/test_iree_bundles.py",
            "tests/engines/test_engine_bundles.py",
            "tests/engines/test_engine_devices.py",
            *WITHOUT_BUILDS,
            "-m",
            "iree",
        ),
        needs=("iree",),
    ),
    Area(
        RUNTIME,
        ("engines/onnxruntime/reading.py",),
        ("tests/unit/runtime/engines/test_onnx_reading.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/onnxruntime/device.py",),
        (
            "tests/engines/test_onnx_bundles.py",
            "tests/engines/test_engine_bundles.py",
            "tests/engines/test_engine_devices.py",
            *WITHOUT_BUILDS,
            "-m",
            "onnx",
        ),
        needs=("onnx", "onnxruntime"),
    ),
    Area(
        RUNTIME,
        ("engines/openvino/reading.py",),
        ("tests/unit/runtime/engines/test_openvino_reading.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/openvino/compiling.py", "engines/openvino/device.py"),
        (
            "tests/engines/test_openvino_loading.py",
            "tests/engines/test_openvino_semantics.py",
            "tests/engines/test_engine_bundles.py",
            "tests/engines/test_engine_devices.py",
            *WITHOUT_BUILDS,
            "-m",
            "openvino",
        ),
        needs=("onnx", "openvino"),
    ),
    Area(
        TOOLCHAIN,
        ("backends/iree/module_text.py", "backends/iree/packages.py"),
        ("tests/unit/backends/test_iree_modules.py",),
    ),
    Area(
        TOOLCHAIN,
        ("signing/sbom.py",),
        ("tests/unit/signing/test_sbom.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("cache/store.py", "cache/place.py"),
        ("tests/unit/cache/test_store.py", "tests/unit/cache/test_place.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "workshops/remote/remote.py",
            "workshops/remote/sharing.py",
            "workshops/remote/http_requests.py",
            "workshops/remote/http_blobs.py",
            "workshops/remote/oci_blobs.py",
            "workshops/remote/fsspec_blobs.py",
            "cache/bounded.py",
        ),
        (
            "tests/unit/cache/test_bounded.py",
            "tests/unit/workshops/remote/test_remote.py",
            "tests/unit/workshops/remote/test_oci_blobs.py",
            "tests/hostile/test_hostile_caches.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("pipeline/watching/remembered.py",),
        ("tests/unit/pipeline/watching/test_remembered.py",),
    ),
    Area(
        TOOLCHAIN,
        ("workshops/reproduce/recipe.py", "workshops/reproduce/source_check.py"),
        ("tests/unit/workshops/reproduce", "tests/hostile/test_hostile_recipes.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "workshops/dask/wire.py",
            "workshops/dask/worker.py",
            "workshops/dask/executor_backend.py",
        ),
        ("tests/unit/workshops/dask/test_distributed.py",),
    ),
    Area(
        TOOLCHAIN,
        ("bundles/trust_files.py", "signing/trust_edit.py", "signing/trust_file.py"),
        (
            "tests/unit/signing/test_trust_edit.py",
            "tests/unit/cli/test_command_trust_changes.py",
            "tests/unit/cli/test_command_trust.py",
            "tests/unit/cli/test_command_trust_roles.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("workshops/attest/model_signature.py", "workshops/attest/openssf.py"),
        (
            "tests/unit/workshops/attest/test_model_signatures.py",
            "tests/unit/workshops/attest/test_command_attest.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("backends/xla/elf.py", "backends/xla/records.py"),
        ("tests/unit/backends/test_records.py", "tests/unit/pipeline/watching/test_native_code.py"),
    ),
    Area(
        RUNTIME,
        ("digest.py",),
        ("tests/unit/runtime/test_digest.py", "tests/unit/runtime/system/test_passing.py"),
    ),
    Area(RUNTIME, ("system/passing.py",), ("tests/unit/runtime/system/test_passing.py",)),
    Area(RUNTIME, ("verified.py", "system/held.py"), ("tests/unit/runtime/test_verified.py",)),
    Area(RUNTIME, ("system/pipes.py",), ("tests/unit/runtime/system/test_store_files.py",)),
    Area(RUNTIME, ("system/parallel.py",), ("tests/unit/runtime/system/test_parallel.py",)),
    Area(
        RUNTIME,
        ("system/cpu_features.py",),
        ("tests/unit/runtime/system/test_cpu_features.py",),
        decisions=True,
    ),
    Area(RUNTIME, ("serving/loading.py",), ("tests/unit/runtime/serving/test_loading.py",)),
    Area(TOOLCHAIN, ("locations.py",), ("tests/unit/test_locations.py",)),
    Area(
        TOOLCHAIN,
        ("parity/structures.py", "parity/calls.py"),
        ("tests/unit/parity/test_calls_of_plain_jax.py",),
        decisions=True,
    ),
    # Most tests capture in a process of their own.
    Area(
        TOOLCHAIN,
        ("capture/tree.py",),
        (
            "tests/unit/capture/test_capture_trees.py",
            "tests/unit/capture/test_registered_structures.py",
        ),
        in_file=True,
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("parity/isolated.py", "workshops/certify/isolated.py"),
        ("tests/unit/parity/test_isolated.py", "tests/unit/workshops/certify/test_isolated.py"),
    ),
    Area(
        TOOLCHAIN,
        ("workers/parent.py", "workers/child.py"),
        ("tests/unit/workers",),
        in_file=True,
    ),
    Area(TOOLCHAIN, ("compat/host_files.py",), ("tests/unit/compat/test_host_files.py",)),
    Area(
        TOOLCHAIN,
        ("workshops/certify/environments.py", "installing.py"),
        (
            "tests/unit/workshops/certify/test_environments.py",
            "tests/unit/test_installing.py",
            "tests/unit/workshops/certify/test_command_certify.py::test_without_a_key_nothing_is_added",
        ),
    ),
    Area(
        TOOLCHAIN,
        (
            "workshops/merge/fixtures_match.py",
            "workshops/merge/merge.py",
            "workshops/merge/merging.py",
            "workshops/merge/same_source.py",
        ),
        (
            "tests/unit/workshops/merge/test_merged_bundles.py",
            "tests/unit/workshops/merge/test_command_merge.py",
        ),
    ),
    Area(TOOLCHAIN, ("config/tuning_file.py",), ("tests/unit/config/test_tuning_file.py",)),
    Area(
        TOOLCHAIN,
        ("workshops/suggest/traffic/lines.py", "workshops/suggest/traffic/log.py"),
        ("tests/unit/workshops/suggest/test_log.py",),
    ),
    Area(TOOLCHAIN, ("config/values.py",), ("tests/unit/config/test_values.py",)),
    Area(TOOLCHAIN, ("compat/matrix.py",), ("tests/unit/compat",), decisions=True),
    Area(
        TOOLCHAIN,
        ("workshops/certify/certify.py", "review/hosts.py", "signing/certificates.py"),
        (
            "tests/unit/workshops/certify/test_certify_predicates.py",
            "tests/unit/workshops/certify/test_command_certify.py",
            "tests/unit/workshops/compat/test_command_compat.py",
        ),
        decisions=True,
    ),
    # It runs in environments of its own.
    Area(
        TOOLCHAIN,
        ("workshops/certify/worker.py",),
        (
            "tests/unit/workshops/certify/test_isolated.py",
            "tests/unit/workshops/certify/test_command_certify.py",
        ),
        in_file=True,
    ),
    Area(
        TOOLCHAIN,
        ("bundles/endorse.py", "bundles/trust_check.py"),
        (
            "tests/unit/bundles",
            "tests/unit/cli/test_command_trust_roles.py",
            "tests/unit/workshops/extract/test_extracted_bundles.py",
            "tests/unit/cli/test_command_sign.py",
            "tests/unit/cli/test_command_trust_changes.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("workshops/suggest/coverage.py",),
        ("tests/unit/workshops/suggest/test_command_profiles.py",),
    ),
    Area(
        TOOLCHAIN,
        (
            "pipeline/children/child.py",
            "pipeline/children/recorded.py",
            "pipeline/children/capture_worker.py",
            "pipeline/children/reference_worker.py",
            "pipeline/children/trial_reference.py",
        ),
        (
            "tests/unit/pipeline/children",
            "tests/unit/capture/test_capture_refusals.py::"
            "test_a_program_that_sets_what_the_manifest_says_is_refused",
            "tests/unit/capture/test_capture_refusals.py::"
            "test_a_program_that_sets_it_while_fixtures_are_made_is_refused_too",
            "tests/unit/capture/test_capture_refusals.py::"
            "test_a_function_that_sets_it_for_itself_is_refused_although_the_next_one_sets_it_back",
            "tests/e2e/test_sources_that_change.py",
            "tests/e2e/test_shapes_build.py::"
            "test_padding_that_leaks_is_refused_with_size_fill_output_and_error",
            "tests/e2e/test_shapes_build.py::"
            "test_a_size_at_which_the_function_fails_is_no_size_to_accept",
            "tests/e2e/test_cached_builds.py::"
            "test_chance_that_a_library_brings_is_found_by_running_twice",
            "tests/e2e/test_cached_builds.py::"
            "test_entry_points_that_cannot_be_captured_are_all_reported_and_the_others_built",
            "tests/unit/capture/test_models.py::"
            "test_profiles_that_the_file_was_not_exported_for_are_refused",
            "tests/unit/capture/test_capture_platforms.py",
            "tests/unit/capture/test_capture_fixtures.py::test_random_integers_need_a_range",
            "tests/e2e/test_model_files.py::"
            "test_results_that_the_framework_did_not_give_are_refused",
        ),
        in_file=True,
    ),
    Area(
        TOOLCHAIN,
        ("review/documents.py", "review/modules.py", "review/opened.py", "review/compare.py"),
        ("tests/unit/review", "tests/unit/workshops/diff/test_diff.py"),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("workshops/diff/diff.py", "workshops/diff/rules.py", "review/numbers.py"),
        (
            "tests/unit/workshops/diff/test_diff.py",
            "tests/unit/workshops/diff/test_command_diff.py",
        ),
        decisions=True,
    ),
    # Without the tests that build.
    Area(
        TOOLCHAIN,
        ("pipeline/gates.py",),
        ("tests/unit/pipeline/test_gates.py", "-k", "not a_build"),
        decisions=True,
    ),
    # Read when a module is imported.
    Area(
        TOOLCHAIN,
        ("config/gates.py", "config/fields.py"),
        ("tests/unit/config",),
        in_file=True,
    ),
    Area(
        RUNTIME,
        (
            "serving/arrays.py",
            "serving/containers.py",
            "serving/flattening.py",
            "serving/signature.py",
            "serving/trees.py",
        ),
        (
            "tests/unit/capture/test_registered_structures.py",
            "tests/unit/runtime/serving/test_arguments.py",
            "tests/unit/runtime/serving/test_device_arrays.py",
            "tests/unit/runtime/serving/test_loaded.py",
        ),
        decisions=True,
    ),
    # Some of it only matters beside jax, in a process of its own.
    Area(
        RUNTIME,
        (
            "serving/checked_calls.py",
            "serving/entry_point.py",
            "serving/execution.py",
            "serving/foreign_arrays.py",
        ),
        (
            "tests/unit/runtime/serving/test_loaded.py",
            "tests/unit/runtime/serving/test_processes.py",
            "tests/unit/runtime/serving/test_entry_point.py",
            "tests/e2e/test_dtypes.py",
            "tests/e2e/test_keys.py",
            "tests/e2e/test_shapes_serving.py",
        ),
        in_file=True,
    ),
    Area(
        RUNTIME,
        ("serving/loaded.py", "serving/slot.py"),
        (
            "tests/unit/runtime/serving/test_loaded.py",
            "tests/unit/runtime/serving/test_slot.py",
            "tests/unit/runtime/serving/test_concurrency.py",
        ),
    ),
    Area(
        RUNTIME,
        ("registries", "store"),
        (
            "tests/registries/test_blobs.py",
            "tests/registries/test_clients.py",
            "tests/registries/test_credentials.py",
            "tests/registries/test_one_target.py",
            "tests/registries/test_push_pull.py",
            "tests/registries/test_references.py",
            "tests/registries/test_references_in_commands.py",
            "tests/registries/test_store.py",
            "tests/registries/test_store_commands.py",
            "tests/registries/test_transport.py",
        ),
    ),
    # Meshes need more devices than a process of tests has.
    Area(
        RUNTIME,
        ("serving/resident.py", "serving/sharded.py"),
        (
            "tests/unit/runtime/serving/test_resident.py",
            "tests/unit/runtime/engines/test_accelerated.py",
            "tests/hostile/test_meshes.py",
            "tests/e2e/test_dtypes.py",
            "tests/e2e/test_meshes.py::test_a_mesh_of_one_device_is_a_program_on_one_device",
            "tests/e2e/test_meshes.py::"
            "test_executables_for_more_devices_than_xla_has_are_not_deserialized",
        ),
        in_file=True,
    ),
    Area(
        RUNTIME,
        (
            "serving/routing/router.py",
            "serving/routing/padding.py",
            "serving/routing/splitting.py",
        ),
        (
            "tests/unit/runtime/serving/routing/test_router.py",
            "tests/unit/runtime/serving/routing/test_padding.py",
        ),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("servers/tensors.py",),
        ("tests/unit/runtime/servers/test_tensors.py",),
    ),
    Area(
        RUNTIME,
        ("servers/deployment.py", "servers/loading.py", "servers/relaying.py"),
        (
            "tests/unit/runtime/servers/test_deployment.py",
            "tests/unit/runtime/servers/test_relaying.py",
        ),
    ),
    Area(
        RUNTIME,
        (
            "servers/bodies.py",
            "servers/connections.py",
            "servers/inference.py",
            "servers/json_inference.py",
            "servers/rest.py",
            "servers/rest_messages.py",
            "servers/statuses.py",
        ),
        (
            "tests/unit/runtime/servers/test_at_once.py",
            "tests/unit/runtime/servers/test_connections.py",
            "tests/unit/runtime/servers/test_rest.py",
            "tests/unit/runtime/servers/test_replacing.py",
            "tests/hostile/test_served_connections.py",
        ),
        in_file=True,
    ),
    Area(
        RUNTIME,
        ("serving/compiling/background.py",),
        ("tests/unit/runtime/serving/compiling/test_background.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        (
            "serving/routing/sizes.py",
            "serving/routing/masks.py",
            "serving/routing/calls.py",
            "serving/routing/fallback.py",
            "serving/compiling/symbolic.py",
        ),
        (
            "tests/unit/runtime/serving/routing/test_sizes.py",
            "tests/unit/runtime/serving/routing/test_masks.py",
            "tests/e2e/test_shapes_serving.py",
        ),
        decisions=True,
    ),
)
