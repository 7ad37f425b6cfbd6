"""Readers of the toolchain.

Of what comes from caches, registries and workers elsewhere, of what bundles say that nobody has
verified yet, and of files that people hand on.
"""

import io
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from aotc.base.child_processes import StoppedError
from aotc.base.errors import ReproducibilityError
from aotc.base.evidence import Evidence
from aotc.base.source_locations import read_locations
from aotc.base.stages import CompileJob, Executable, Module
from aotc.bundle.read.bundle_review import Claim
from aotc.bundle.sign.signer import LocalSigner
from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.capture.model_files.model_archive import Damaged
from aotc.capture.weight_files import ZIP_BEGINS, WeightsFile, npz_tensors
from aotc.commands.compat.host_matches import read_hosts
from aotc.commands.dask.executor_backend import _executable
from aotc.commands.dask.executor_messages import _digest, decode_answer
from aotc.commands.profiles.traffic_log import describe_bad, read_traffic
from aotc.commands.remote_cache.bounded_reads import HEAD_BYTES_MAX
from aotc.commands.remote_cache.cache_seal import Refusal, Seals
from aotc.commands.report_page import bundle_section
from aotc.commands.report_page.page_parts import Mark, Page, Section
from aotc.commands.report_page.page_renderer import render
from aotc.commands.reproduce.build_recipe import recipe_of
from aotc.commands.reproduce.source_check import check_files, find_manifest
from aotc.compile.binary import elf
from aotc.compile.target_files import read_target
from aotc.compile.xla import executable_records, xla_objects
from aotc.config import tuning_file
from aotc.config.build_manifest import read_build_manifest
from aotc.engines.cuda.cuda_worker import cubins
from aotc.frontends.pytorch.pytorch_frontend import PyTorch
from aotc.frontends.stablehlo import jax_export_frontend, tensorflow_frontend
from aotc.frontends.stablehlo.module_checks import refused_as_damaged
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Tasks
from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.in_toto import Statement
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.verification.public_keys import PublicKey, load_public_key
from tests.memory_files import kept_folder

ONNX, KERAS = (find_spec(name) is not None for name in ("onnx", "keras"))
"""Libraries of extras: `make fuzz FUZZ_BIN=…` takes an environment that has them."""

KEY, DATA = sha256(b"key"), b"data\nof an entry"
SIGNER = LocalSigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)))
ECDSA = LocalSigner(ec.derive_private_key(1, ec.SECP256R1()))
"""Known to whoever fuzzes: good entries stay good from run to run."""

TRUSTING = Seals(SIGNER, {SIGNER.key_id: load_public_key(SIGNER.public_pem(), "", "")})
GULLIBLE = Seals(
    SIGNER, {SIGNER.key_id: PublicKey(SIGNER.key_id, "", lambda signature, message: True)}
)
"""Takes any signature, so that what is signed is fuzzed, too."""

REQUEST = b"a request"
NAME = "cpu-x86-64-v3"


@cache
def _source() -> Path:
    """A folder with what a recipe names."""
    source = Path(kept_folder().name, "source")
    (source / "deep" / "app").mkdir(parents=True)
    (source / "deep" / "app" / "model.py").write_bytes(b"x = 1\n")
    (source / "digits.toml").write_bytes(b"")
    return source


@contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    path = Path(kept_folder().name, name)
    path.write_bytes(data)
    yield path


def sealed_entry(data: bytes) -> None:
    found = TRUSTING.open(KEY, data)
    assert isinstance(found, Refusal) or found == DATA
    for seals in (TRUSTING, GULLIBLE):
        assert seals.size(KEY, data[:HEAD_BYTES_MAX]) >= 0
        found = seals.open(KEY, data)
        assert isinstance(found, Refusal) or data.endswith(found)


def kept_entry(data: bytes) -> None:
    store = LocalStore(Path(kept_folder().name, "cache"), 2**20)
    store.put(KEY, DATA)
    (path,) = (path for path in store.folder.glob("entries/*/*") if path.is_file())
    path.write_bytes(data)
    found = store.get(KEY)
    assert found is None or data.endswith(found), "a fuzzer may come upon the digest"


def task_result(data: bytes) -> None:
    store = LocalStore(Path(kept_folder().name, "cache"), 2**20)
    store.put(KEY, data)
    found = Tasks(store, {}).recall(KEY, Executable)
    assert found is None or isinstance(found, Executable)


def worker_answer(data: bytes) -> None:
    target = read_target(NAME, Path(), "x")
    job = CompileJob("f", Module(b"", sha256(b""), "1.0.0", ()), target)
    answer = decode_answer(REQUEST, _digest(REQUEST, data) + data)
    assert decode_answer(REQUEST, data) is None
    if answer is not None:
        try:
            assert sha256(_executable(job, answer).serialized)
        except StoppedError:
            assert answer.stopped


def recipe(data: bytes) -> None:
    read = recipe_of([data], (), "x")
    source = _source()
    try:
        manifest = find_manifest(source, read)
    except ReproducibilityError:
        manifest = source / "digits.toml"
    for finding in check_files(manifest, source, read, None):
        assert finding.code in ("AOTC-E942", "AOTC-E943")


def claim(data: bytes) -> None:
    statement = decode_foreign(data, Statement, where="x")
    predicate = Claim((), (), statement.predicateType, bytes(statement.predicate)).predicate
    stands = bundle_section._as_it_stands("What it says", predicate)
    parts = (*bundle_section._slsa(predicate), *bundle_section._bill(predicate), stands)
    page = Page("x", KEY, Mark("x", "bad"), (Section("x", "x", parts),))
    assert b"</html>" in render(page)[-20:]
    read_locations(predicate)


def evidence(data: bytes) -> None:
    assert canonical_json.encode(canonical_json.decode(data, Evidence, where="x")) == data


def executable(data: bytes) -> None:
    """Executables that explain, diff and report take apart; another layout is opaque to them."""
    for read in (xla_objects.contents, xla_objects.canonical, xla_objects.compile_options):
        with suppress(xla_objects.UnknownLayoutError):
            read(data)
    with suppress(ValueError):
        parts = list(executable_records.messages(data))
        assert sum(map(len, parts)) <= 64 * len(data)
        list(map(xla_objects.assignment_of_module, parts))
    assert sum(map(len, cubins(data))) <= 100 * len(data)


def machine_code(data: bytes) -> None:
    with suppress(ValueError):
        assert sum(len(f.code) + len(f.name) for f in elf.functions(data)) <= 4 * len(data)


def tuning(data: bytes) -> None:
    with _file("tuning.json", data) as path:
        recorded = tuning_file.read(path)
        target = read_target(NAME, Path(), "x")
        job = CompileJob("f", Module(b"", sha256(b""), "1.0.0", ()), target)
        key, jaxlib = ExecutableKey("f"), recorded.file.jaxlib
        engine, beside = tuning_file.engines_of(recorded, NAME, ("xla",))
        assert engine in (None, "xla") and not beside
        tools = {name: each.tools for name, each in recorded.file.targets.items()}
        tuning_file.choices(recorded, {NAME: {key: job}}, {key: 0}, jaxlib, tools)


def traffic(data: bytes) -> None:
    with _file("traffic", data) as path:
        found = read_traffic(path, "predict", ("batch",))
    assert found.requests > 0 and found.points.shape == (len(found.counts), 1)
    assert "\n" not in "".join(describe_bad(found)).replace("\\n", "")


def host(data: bytes) -> None:
    with _file("host.json", data) as path:
        assert read_hosts([path]).keys() == {"host"}


def build_manifest(data: bytes) -> None:
    with _file("app.toml", data) as path:
        read_build_manifest(path)


def target(data: bytes) -> None:
    with _file("machine.toml", data) as path:
        read_target(path.name, path.parent, "x")


PT2 = Path(__file__).parents[2] / "tests" / "unit" / "frontends" / "pytorch" / "files" / "tied.pt2"


@cache
def _members() -> Mapping[str, bytes]:
    with zipfile.ZipFile(PT2) as file:
        return {name: file.read(name) for name in file.namelist()}


def pt2_archive(data: bytes) -> None:
    PyTorch().read(ModelFile("x.pt2", data, None, lambda _: b"", False))


def pt2_program(data: bytes) -> None:
    """The graph of an archive that is good otherwise."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, member in _members().items():
            file.writestr(name, data if name.endswith("models/model.json") else member)
    pt2_archive(made.getvalue())


def npz_weights(data: bytes) -> None:
    """Arrays of weights, as far as a file is taken for one that has them."""
    if data.startswith(ZIP_BEGINS):
        with suppress(Damaged):
            list(npz_tensors(WeightsFile.__new__(WeightsFile), memoryview(data)))


def tfhlo_document(data: bytes) -> None:
    """Description of an archive's modules and weights, which are good."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("model.json", data)
        file.writestr("modules/0.mlirbc", b"a module")
        file.writestr("weights/0", bytes(16))
    tfhlo_archive(made.getvalue())


def tfhlo_archive(data: bytes) -> None:
    """Modules are read in a process of their own, which takes too long here."""
    with suppress(Damaged):
        tensorflow_frontend.read_description(ModelFile("x.tfhlo", data, None, lambda _: b"", False))


def exported_function(data: bytes) -> None:
    """Read a file of jax.export, which promises nothing of what it raises."""
    file = ModelFile("x.jax", data, None, lambda _: b"", False)
    with refused_as_damaged(file.text, "x"):
        jax_export_frontend.describe(file)


def onnx_model(data: bytes) -> None:
    """Read, and traced with what it says of its inputs."""
    from aotc.frontends.onnx.onnx_frontend import OnnxFrontend

    model = OnnxFrontend().read(ModelFile("x.onnx", data, None, lambda _: b"", False))
    arrays = [
        jax.ShapeDtypeStruct(
            tuple(size if isinstance(size, int) else 2 for size in each.shape),
            np.dtype(np.int32) if each.dtype == np.int64 else each.dtype,
        )
        for each in model.inputs
    ]
    if sum(math.prod(each.shape) for each in arrays) < 2**31:
        jax.eval_shape(model.function, dict(model.weights), *arrays)


def onnx_document(data: bytes) -> None:
    """A model as protobuf writes it in JSON, where another value is soon made."""
    from google.protobuf import json_format
    from onnx import ModelProto

    try:
        message = json_format.Parse(data, ModelProto())
    except (json_format.ParseError, ValueError, RecursionError):
        return
    onnx_model(message.SerializeToString())


def _keras_file(**members: bytes) -> None:
    from aotc.frontends.keras.keras_frontend import KerasFrontend

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, member in {**keras_members(), **members}.items():
            file.writestr(name, member)
    KerasFrontend().read(ModelFile("x.keras", made.getvalue(), None, lambda _: b"", False))


@cache
def keras_members() -> Mapping[str, bytes]:
    """Of a file that is good."""
    from aotc.frontends.keras.keras_loading import import_keras

    keras = import_keras()
    x = keras.Input((6,), name="x")
    y = keras.layers.Dense(4, "relu", name="first")(x)
    model = keras.Model(x, keras.layers.Dense(2, name="second")(y))
    path = Path(kept_folder().name, "good.keras")
    model.save(path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def keras_config(data: bytes) -> None:
    """The configuration of a file that is good otherwise."""
    _keras_file(**{"config.json": data})


def keras_weights(data: bytes) -> None:
    """The weights of a file that is good otherwise."""
    _keras_file(**{"model.weights.h5": data})


READERS: Mapping[str, Callable[[bytes], object]] = {
    reader.__name__: reader
    for reader in (
        sealed_entry,
        kept_entry,
        task_result,
        worker_answer,
        recipe,
        claim,
        evidence,
        executable,
        machine_code,
        tuning,
        traffic,
        host,
        build_manifest,
        target,
        pt2_archive,
        pt2_program,
        tfhlo_document,
        tfhlo_archive,
        exported_function,
        *((onnx_model, onnx_document) if ONNX else ()),
        *((keras_config, keras_weights) if KERAS else ()),
        npz_weights,
    )
}
