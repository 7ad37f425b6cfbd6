"""What `make mutate` removes checks from, and the tests that have to notice."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import aotc
import aotc_runtime
import aotc_serve

ROOT = Path(__file__).parents[3]

RUNTIME, TOOLCHAIN = Path(aotc_runtime.__file__).parent, Path(aotc.__file__).parent
SERVE = Path(str(aotc_serve.__file__)).parent


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
            "base/canonical_json.py",
            "schema/pytrees.py",
            "system/layout_folder.py",
            "system/bundle_files.py",
            "serving/readiness.py",
        ),
        # Of policies that say nothing clear or accept the bundle, of limits and fixtures, and of
        # which of several rules it is that refuses.
        (
            "tests/unit/runtime/formats/test_bounded_toml.py",
            "tests/unit/runtime/formats/test_edges.py",
            "tests/unit/runtime/serving/test_readiness.py",
            "tests/unit/runtime/system/test_store.py",
            "tests/unit/runtime/system/test_store_files.py",
            "tests/unit/cli/test_command_trust_dates.py",
            "tests/unit/bundle/write/test_limits_at_their_edge.py",
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
        ("schema/trust_policy.py",),
        ("tests/hostile/test_who_may_speak.py", "tests/hostile/test_policy_rules.py"),
        decisions=True,
    ),
    Area(SERVE, ("channel",), ("tests/hostile/test_channels.py",)),
    Area(
        TOOLCHAIN,
        (
            "commands/channel/channel_repository.py",
            "commands/channel/channel_host.py",
            "commands/channel/channel_targets.py",
            "commands/channel/channel_key_options.py",
            "commands/channel/channel_status.py",
        ),
        (
            "tests/unit/commands/channel",
            "tests/hostile/test_channel_folders.py",
            "tests/hostile/test_channels.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("commands/registry/bundle_pull.py", "commands/registry/bundle_push.py"),
        (
            "tests/registries/test_channels.py",
            "tests/registries/test_one_target.py",
            "tests/registries/test_push_pull.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        (
            "bundle/sign/attestation.py",
            "bundle/sign/signing_keys.py",
            "bundle/sign/signer_plugins.py",
            "bundle/sign/timestamp_client.py",
            "bundle/trust/trust_state.py",
        ),
        (
            "tests/unit/bundle/sign/test_attestations.py",
            "tests/unit/bundle/sign/test_plugins.py",
            "tests/unit/bundle/sign/test_signing_keys.py",
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
        ("commands/attach/sigstore_bundle.py",),
        ("tests/hostile/test_identities.py", "-k", "attach"),
    ),
    Area(TOOLCHAIN, ("capture/npz_files.py",), ("tests/unit/capture/test_npz.py",), decisions=True),
    Area(
        TOOLCHAIN,
        ("bundle/write/hashed_weights.py",),
        ("tests/unit/bundle/write/test_hashed_once.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("pipeline/cache/cache_files.py",),
        ("tests/unit/pipeline/cache/test_kept_files.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("bundle/write/neighbor_layouts.py", "base/shared_blocks.py"),
        ("tests/unit/bundle/write/test_layouts_beside.py", "tests/unit/base/test_whole_file.py"),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        (
            "bundle/write/added_attestations.py",
            "bundle/write/bundle_writer.py",
            "bundle/write/read_back.py",
        ),
        (
            "tests/unit/bundle/write",
            "tests/unit/bundle/sign/test_endorse.py",
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
    Area(TOOLCHAIN, ("commands/pkcs11/pkcs11_uri.py",), ("tests/unit/commands/pkcs11",)),
    Area(
        TOOLCHAIN,
        ("commands/remote_cache/cache_seal.py",),
        ("tests/unit/commands/remote_cache/test_seal.py",),
    ),
    Area(
        TOOLCHAIN,
        (
            "capture/model_files/model_archive.py",
            "frontends/pytorch/torch_bindings.py",
            "frontends/pytorch/torch_plan.py",
            "frontends/pytorch/torch_results.py",
            "frontends/pytorch/torch_schema.py",
            "frontends/pytorch/torch_states.py",
            "frontends/pytorch/torch_weights.py",
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
        ("frontends/stablehlo/tensorflow_frontend.py",),
        ("tests/unit/frontends/test_tensorflow_files.py",),
    ),
    Area(
        TOOLCHAIN,
        ("capture/model_files/custom_call_checks.py",),
        ("tests/unit/capture/test_custom_call_checks.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        (
            "frontends/stablehlo/module_checks.py",
            "frontends/stablehlo/module_probe.py",
            "frontends/stablehlo/module_probe_worker.py",
        ),
        ("tests/unit/frontends/test_stablehlo_modules.py",),
        in_file=True,
    ),
    Area(
        TOOLCHAIN,
        ("base/directory_owner.py",),
        ("tests/unit/base/test_ownership.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/xla/xla_flags.py",),
        ("tests/unit/runtime/engines/test_flags.py",),
        in_file=True,
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/iree/iree_archive.py",),
        ("tests/unit/runtime/engines/test_iree_archive.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/processor_engine.py",),
        (
            "tests/unit/runtime/engines/test_processor.py",
            "tests/engines/test_engine_devices.py",
            *WITHOUT_BUILDS,
        ),
        needs=("iree",),
    ),
    Area(
        RUNTIME,
        ("engines/iree/iree_device.py",),
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
        ("engines/onnxruntime/onnx_reader.py",),
        ("tests/unit/runtime/engines/test_onnx_reading.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/onnxruntime/onnxruntime_device.py",),
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
        ("engines/openvino/openvino_reader.py",),
        ("tests/unit/runtime/engines/test_openvino_reading.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        ("engines/openvino/openvino_compilation.py", "engines/openvino/openvino_device.py"),
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
        ("engines/iree/iree_module_text.py", "engines/iree/iree_packages.py"),
        ("tests/unit/engines/test_iree_modules.py",),
    ),
    Area(
        TOOLCHAIN,
        ("bundle/sign/sbom.py",),
        ("tests/unit/bundle/sign/test_sbom.py",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("pipeline/cache/cache_store.py", "pipeline/cache/cache_folder.py"),
        ("tests/unit/pipeline/cache/test_store.py", "tests/unit/pipeline/cache/test_place.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "commands/remote_cache/remote_cache.py",
            "commands/remote_cache/remote_cache_service.py",
            "commands/remote_cache/http_blobs.py",
            "commands/remote_cache/oci_blobs.py",
            "commands/remote_cache/fsspec_blobs.py",
            "pipeline/cache/bounded_calls.py",
        ),
        (
            "tests/unit/pipeline/cache/test_bounded.py",
            "tests/unit/commands/remote_cache/test_remote.py",
            "tests/unit/commands/remote_cache/test_oci_blobs.py",
            "tests/hostile/test_hostile_caches.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("pipeline/cache/task_files.py",),
        ("tests/unit/pipeline/cache/test_task_files.py",),
    ),
    Area(
        TOOLCHAIN,
        ("commands/reproduce/build_recipe.py", "commands/reproduce/source_check.py"),
        ("tests/unit/commands/reproduce", "tests/hostile/test_hostile_recipes.py"),
    ),
    Area(
        TOOLCHAIN,
        (
            "commands/dask/executor_messages.py",
            "commands/dask/executor_worker.py",
            "commands/dask/executor_backend.py",
        ),
        ("tests/unit/commands/dask/test_distributed.py",),
    ),
    Area(
        TOOLCHAIN,
        ("bundle/trust/trust_files.py", "bundle/trust/trust_edit.py", "bundle/trust/trust_text.py"),
        (
            "tests/unit/bundle/trust/test_trust_edit.py",
            "tests/unit/cli/test_command_trust_changes.py",
            "tests/unit/cli/test_command_trust.py",
            "tests/unit/cli/test_command_trust_roles.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("compile/binary/elf.py", "compile/xla/executable_records.py"),
        ("tests/unit/compile/test_records.py",),
    ),
    Area(
        RUNTIME,
        ("formats/protobuf_wire.py",),
        ("tests/unit/compile/test_protobuf.py",),
    ),
    Area(
        RUNTIME,
        ("base/digest.py",),
        ("tests/unit/runtime/base/test_digest.py", "tests/unit/runtime/system/test_passing.py"),
    ),
    Area(RUNTIME, ("system/streamed_bundle.py",), ("tests/unit/runtime/system/test_passing.py",)),
    Area(
        RUNTIME,
        ("loader/verified.py", "system/held_maps.py"),
        ("tests/unit/runtime/loader/test_verified.py",),
    ),
    Area(RUNTIME, ("system/pipes.py",), ("tests/unit/runtime/system/test_store_files.py",)),
    Area(RUNTIME, ("base/parallel_calls.py",), ("tests/unit/runtime/base/test_digest.py",)),
    Area(
        RUNTIME,
        ("system/cpu_features.py",),
        ("tests/unit/runtime/system/test_cpu_features.py",),
        decisions=True,
    ),
    Area(TOOLCHAIN, ("base/source_locations.py",), ("tests/unit/base/test_locations.py",)),
    Area(
        TOOLCHAIN,
        ("check/value_verdict.py", "check/value_runs.py", "check/value_inputs.py"),
        (
            "tests/unit/check/test_value_verdict.py",
            "tests/unit/check/test_value_runs.py",
            "tests/unit/check/test_trial_inputs.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("capture/float64_module.py", "capture/reference_interpreter.py"),
        ("tests/unit/capture/test_wide_modules.py",),
    ),
    Area(
        TOOLCHAIN,
        ("capture/model_files/custom_call_checks.py",),
        ("tests/unit/capture/test_custom_call_checks.py",),
    ),
    Area(
        SERVE,
        ("grpc/grpc_wire.py", "inference/request_memory.py"),
        ("tests/unit/runtime/serve/test_grpc_wire.py", "tests/unit/runtime/serve/test_memory.py"),
    ),
    Area(
        TOOLCHAIN,
        ("check/plain_structures.py", "check/parity_calls.py"),
        ("tests/unit/check/test_calls_of_plain_jax.py",),
        decisions=True,
    ),
    # Most tests capture in a process of their own.
    Area(
        TOOLCHAIN,
        ("capture/jax_trees.py",),
        (
            "tests/unit/capture/test_capture_trees.py",
            "tests/unit/capture/test_registered_structures.py",
        ),
        in_file=True,
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        ("check/parity_process.py", "commands/certify/certify_process.py"),
        ("tests/unit/check/test_isolated.py", "tests/unit/commands/certify/test_isolated.py"),
    ),
    Area(
        TOOLCHAIN,
        ("base/workers/worker_parent.py", "base/workers/worker_child.py"),
        ("tests/unit/base/workers",),
        in_file=True,
    ),
    Area(
        TOOLCHAIN,
        ("bundle/compat/host_files.py",),
        ("tests/unit/bundle/compat/test_host_files.py",),
    ),
    Area(
        TOOLCHAIN,
        ("commands/certify/certify_environments.py", "base/package_install.py"),
        (
            "tests/unit/commands/certify/test_environments.py",
            "tests/unit/base/test_installing.py",
            "tests/unit/commands/certify/test_command_certify.py::test_without_a_key_nothing_is_added",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("commands/merge/merged_bundle.py",),
        (
            "tests/unit/commands/merge/test_merged_bundles.py",
            "tests/unit/commands/merge/test_command_merge.py",
        ),
    ),
    Area(TOOLCHAIN, ("config/tuning_file.py",), ("tests/unit/config/test_tuning_file.py",)),
    Area(
        TOOLCHAIN,
        ("commands/profiles/traffic_log.py",),
        ("tests/unit/commands/profiles/test_log.py",),
    ),
    Area(TOOLCHAIN, ("config/manifest_values.py",), ("tests/unit/config/test_values.py",)),
    Area(
        TOOLCHAIN,
        ("bundle/compat/compat_matrix.py",),
        ("tests/unit/bundle/compat",),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        (
            "commands/certify/certify_bundle.py",
            "bundle/read/host_matches.py",
            "bundle/sign/certificate_claims.py",
        ),
        (
            "tests/unit/commands/certify/test_certify_predicates.py",
            "tests/unit/commands/certify/test_command_certify.py",
            "tests/unit/commands/compat/test_command_compat.py",
        ),
        decisions=True,
    ),
    # It runs in environments of its own.
    Area(
        TOOLCHAIN,
        ("commands/certify/certify_worker.py",),
        (
            "tests/unit/commands/certify/test_isolated.py",
            "tests/unit/commands/certify/test_command_certify.py",
        ),
        in_file=True,
    ),
    Area(
        TOOLCHAIN,
        ("bundle/sign/bundle_signing.py", "bundle/trust/trust_check.py"),
        (
            "tests/unit/bundle/sign",
            "tests/unit/cli/test_command_trust_roles.py",
            "tests/unit/commands/extract/test_extracted_bundles.py",
            "tests/unit/cli/test_command_sign.py",
            "tests/unit/cli/test_command_trust_changes.py",
        ),
    ),
    Area(
        TOOLCHAIN,
        ("commands/profiles/traffic_check.py",),
        ("tests/unit/commands/profiles/test_command_profiles.py",),
    ),
    Area(
        TOOLCHAIN,
        (
            "pipeline/children/user_process.py",
            "pipeline/children/program_worker.py",
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
        (
            "bundle/read/json_differences.py",
            "bundle/read/module_differences.py",
            "bundle/read/opened_bundle.py",
            "bundle/read/bundle_facts.py",
        ),
        ("tests/unit/bundle/read", "tests/unit/commands/diff/test_diff.py"),
        decisions=True,
    ),
    Area(
        TOOLCHAIN,
        (
            "commands/diff/bundle_diff.py",
            "commands/diff/diff_rules.py",
            "bundle/read/executable_numbers.py",
        ),
        (
            "tests/unit/commands/diff/test_diff.py",
            "tests/unit/commands/diff/test_command_diff.py",
        ),
        decisions=True,
    ),
    # Without the tests that build.
    Area(
        TOOLCHAIN,
        ("check/gates.py",),
        ("tests/unit/check/test_gates.py", "-k", "not a_build"),
        decisions=True,
    ),
    # Read when a module is imported.
    Area(
        TOOLCHAIN,
        ("config/gate_limits.py", "config/field_types.py"),
        ("tests/unit/config",),
        in_file=True,
    ),
    Area(
        RUNTIME,
        (
            "serving/device_arrays.py",
            "schema/result_records.py",
            "serving/flattened_arguments.py",
            "serving/call_signature.py",
            "serving/served_call.py",
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
            "serving/loaded_bundle.py",
            "serving/executable_calls.py",
            "serving/foreign_arrays.py",
        ),
        (
            "tests/unit/runtime/serving/test_loaded.py",
            "tests/unit/runtime/serving/test_processes.py",
            "tests/unit/runtime/serving/test_call_metrics.py",
            "tests/e2e/test_dtypes.py",
            "tests/e2e/test_keys.py",
            "tests/e2e/test_shapes_serving.py",
        ),
        in_file=True,
    ),
    Area(
        RUNTIME,
        ("serving/loaded_bundle.py", "serving/bundle_slot.py"),
        (
            "tests/unit/runtime/serving/test_loaded.py",
            "tests/unit/runtime/serving/test_slot.py",
            "tests/unit/runtime/serving/test_concurrency.py",
        ),
    ),
    Area(
        SERVE,
        ("http_client.py", "oci", "store"),
        (
            "tests/registries/test_blobs.py",
            "tests/registries/test_clients.py",
            "tests/registries/test_credentials.py",
            "tests/registries/test_http_client.py",
            "tests/registries/test_one_target.py",
            "tests/registries/test_push_pull.py",
            "tests/registries/test_references.py",
            "tests/registries/test_references_in_commands.py",
            "tests/registries/test_store.py",
            "tests/registries/test_store_commands.py",
        ),
    ),
    # Meshes need more devices than a process of tests has.
    Area(
        RUNTIME,
        ("serving/resident_bundle.py", "serving/sharding_checks.py"),
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
            "serving/routing/padded_arrays.py",
            "serving/routing/split_calls.py",
        ),
        (
            "tests/unit/runtime/serving/routing/test_router.py",
            "tests/unit/runtime/serving/routing/test_padding.py",
        ),
        decisions=True,
    ),
    Area(
        SERVE,
        ("inference/protocol_tensors.py",),
        ("tests/unit/runtime/serve/test_tensors.py",),
    ),
    Area(
        SERVE,
        ("ray/pinned_deployment.py", "service/served_loading.py"),
        ("tests/unit/runtime/serve/test_deployment.py",),
    ),
    Area(
        SERVE,
        (
            "http/request_bodies.py",
            "http/http_connections.py",
            "inference/inference_requests.py",
            "http/json_inference.py",
            "http/http_app.py",
            "http/http_messages.py",
            "inference/error_statuses.py",
        ),
        (
            "tests/unit/runtime/serve/test_at_once.py",
            "tests/unit/runtime/serve/test_connections.py",
            "tests/unit/runtime/serve/test_rest.py",
            "tests/unit/runtime/serve/test_replacing.py",
            "tests/hostile/test_served_connections.py",
        ),
        in_file=True,
    ),
    Area(
        RUNTIME,
        ("serving/routing/background_compiler.py",),
        ("tests/unit/runtime/serving/routing/test_background.py",),
        decisions=True,
    ),
    Area(
        RUNTIME,
        (
            "serving/routing/call_sizes.py",
            "serving/routing/padding_masks.py",
            "serving/routing/routed_calls.py",
            "serving/routing/fallback_calls.py",
            "serving/routing/symbolic_compiler.py",
        ),
        (
            "tests/unit/runtime/serving/routing/test_sizes.py",
            "tests/unit/runtime/serving/routing/test_padding.py",
            "tests/e2e/test_shapes_serving.py",
        ),
        decisions=True,
    ),
)
