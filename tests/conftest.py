"""Session fixtures: each example is built once, signed with a key made for the session."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "manifests"

# By this name: some libraries install a package `tests` of their own.
pytest_plugins = ["limits"]

# scipy's LAPACK has a thread for each core, and these wait for one another in loops: for the small
# matrices of tests, on cores that are busy, that is tens of times the work. Processes that a test
# starts inherit it; what a server has by default, tests/e2e/test_examples.py has.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test builds, it builds; tests of the cache name one, and pages take `examples_cache`.
os.environ["AOTC_CACHE"] = "off"

Bundle = tuple[Path, Path]
"""A bundle and the trust policy it loads with."""

Run = Callable[..., Any]
"""Runs a command of `aotc`: the fixtures `aotc` and `refused`."""

Once = Callable[[str, Callable[[Path], object]], Path]


LONG = (
    *("e2e/", "faults/", "hostile/test_mistakes_are_noticed.py", "hostile/test_cancel_storms.py"),
    *("hostile/test_written_into.py", "hostile/test_command_line.py"),
    "hostile/test_model_files.py::test_varying_kernel_sizes_are_judged_when_built",
    "hostile/test_model_files.py::test_weights_files_hide_the_key",
    "hostile/test_amplification.py::test_whoever_reads_attestations_does_so_within",
    "hostile/test_amplification.py::test_junk_of_sigstores_costs_no_more_where",
    "hostile/test_amplification.py::test_the_most_that_fits_costs_64_mib_and_a_second",
    "hostile/test_served_connections.py::test_thousands_of_connections_use_bounded_memory",
    "hostile/test_served_connections.py::test_storm_of_connects_does_not_stop_the_server",
    "hostile/test_channels.py::test_killed_processes_leave_a_readable_state",
    "unit/capture/test_models.py::test_incomparable_results_are_refused",
    "unit/capture/test_models.py::test_rows_are_compared",
    *("unit/cli/test_command_stopping.py", "unit/compile/test_compile.py::test_loops_are_cut"),
    "unit/commands/cache/test_command_cache.py::test_reproduced_build_says_how_long",
    "unit/commands/profiles/test_choose.py::test_in_",
    "unit/commands/profiles/test_split.py::test_the_choice_is_nearly_the_best_of_all_sets",
    *("unit/pipeline/children/test_forked_builds.py", "unit/runtime/serve/test_walk.py"),
    *("unit/runtime/serve/test_ending.py", "unit/runtime/serve/test_replacing.py"),
    *("unit/runtime/serve/test_passed_sockets.py", "e2e/test_assets.py::test_card_of_the_command"),
    "unit/runtime/serving/test_resident.py::test_xla_uses_aligned_tensors_in_place[vision]",
)
"""Where the names of tests begin that `make test` leaves out: searches, faults, whole programs."""

KEPT = (
    *("e2e/test_assets.py", "e2e/test_dtypes.py", "e2e/test_jax_free.py", "e2e/test_meshes.py"),
    *("e2e/test_model_files.py", "e2e/test_recorded_results.py", "e2e/test_structures.py"),
    *("e2e/test_golden_bundles.py::test_a_golden", "e2e/test_golden_bundles.py::test_digits"),
    *("e2e/test_shapes_serving.py", "e2e/test_sources_that_change.py", "e2e/test_tuned.py"),
    "e2e/test_cached_builds.py::test_changed_entry_point_is_compiled_alone",
    "e2e/test_cached_builds.py::test_unchanged_build_runs_nothing",
    "e2e/test_distributed_build.py::test_any_executor_will_do",
    *("e2e/test_evaluations.py::test_a_metric", "e2e/test_evaluations.py::test_data_of_which"),
    "e2e/test_examples.py::test_server_without_jax_answers_as_plain_jax[digits]",
    *("e2e/test_examples.py::test_an_example", "e2e/test_examples.py::test_committed"),
    *("e2e/test_guides.py::test_every", "e2e/test_precisions.py::test_a_precision"),
    "e2e/test_precisions.py::test_weights_of_products_are_stored_in_8_bits_and_called",
    "e2e/test_reproduce.py::test_changed_or_missing_sources_are_all_named",
    "e2e/test_shapes_build.py::test_padding_that_leaks_is_refused_with_size_fill",
    "e2e/test_shared_cache.py::test_other_hosts_build_is_reused",
    "faults/test_every_write.py::test_kill_leaves_old_or_new_and_next_run_tidies_up[sign a file]",
    "faults/test_every_write.py::test_kill_leaves_old_or_new_and_next_run_tidies_up[build a new",
    "hostile/test_command_line.py::test_commands_skip_current_folder[aotc verify",
    "hostile/test_written_into.py::test_what_is_written_into_while_it_is_copied_is_copied_as_it_was_"
    "read_or_refused[xla-another root",
    "unit/runtime/serve/test_passed_sockets.py::test_next_server_reuses_socket",
    "unit/runtime/serve/test_replacing.py::test_revoking_policy_makes_it_unready",
)
"""Tests of these that it keeps: of every feature at least one. The longer beginning decides."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        longest = [max(map(len, filter(name.startswith, of)), default=-1) for of in (KEPT, LONG)]
        if longest[0] < longest[1]:
            item.add_marker("long")


def manifest_of(text: str) -> str:
    """Return a build manifest of a first version for cpu-x86-64-v3, with more keys."""
    head = 'schema = 1\nversion = "1.0.0"\ntargets = ["cpu-x86-64-v3"]'
    return f"\n{head}{text}" if text.startswith("\n") else f"{head}\n{text}"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def once(shared_folder: Path) -> Once:
    """Fill a folder of this name, once per test run whatever the number of workers."""

    def filled(name: str, fill: Callable[[Path], object]) -> Path:
        folder = shared_folder / "bundles" / name
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if not (folder / "filled").exists():
                fill(folder)
                (folder / "filled").touch()
        return folder

    return filled


@pytest.fixture(scope="session")
def examples_cache(shared_folder: Path) -> Path:
    """A build cache of the examples, for pages of the documentation that build them again."""
    return shared_folder / "examples-cache"


Built = Callable[..., Bundle]
"""Builds an example by its name: the fixture `built`."""


@pytest.fixture(scope="session")
def built(once: Once, examples_cache: Path) -> Built:
    """Build an example by name, once per test run.

    Where an example is not itself what is tested, it has less of what most of its build takes:
    `less` for `whole` in a `file` below manifests/.
    """

    def build(name: str, file: str = "", whole: str = "", less: str = "") -> Bundle:
        def fill(folder: Path) -> None:
            from aotc.bundle.sign.signer import LocalSigner
            from aotc.bundle.trust.trust_text import policy_text
            from aotc.pipeline.build import build as build_bundle
            from aotc.pipeline.cache.cache_store import LocalStore

            signer, manifests = LocalSigner.ephemeral(), MANIFESTS
            if file:
                manifests = folder / "manifests"
                shutil.copytree(MANIFESTS, manifests)
                text = (manifests / file).read_text("utf-8")
                assert text.count(whole) == 1
                (manifests / file).write_text(text.replace(whole, less), "utf-8")
            output, cache = folder / f"{name}.aotb", LocalStore(examples_cache, 10**9)
            build_bundle(manifests / f"{name}.toml", output=output, signer=signer, cache=cache)
            (folder / "trust.toml").write_text(policy_text(name, [signer.public_pem()]))

        folder = once(f"{name}-less" if file else name, fill)
        return folder / f"{name}.aotb", folder / "trust.toml"

    return build


@pytest.fixture(scope="session")
def digits_bundle(built: Built) -> Bundle:
    return built("digits")


@pytest.fixture(scope="session")
def lm_bundle(built: Built) -> Bundle:
    return built("lm", "lm/model.py", "\nLAYERS = 4\n", "\nLAYERS = 2\n")


@pytest.fixture(scope="session")
def train_bundle(built: Built) -> Bundle:
    return built("train")


@pytest.fixture(scope="session")
def gp_bundle(built: Built) -> Bundle:
    return built("gp", "gp/model.py", "jax.lax.scan(try_start, nothing, starts)[0]", "nothing")


@pytest.fixture(scope="session")
def encoder_bundle(built: Built) -> Bundle:
    return built("encoder", "encoder/model.py", "\nLAYERS = 2\n", "\nLAYERS = 1\n")


@pytest.fixture(scope="session")
def parallel_bundle(built: Built) -> Bundle:
    return built("parallel")
