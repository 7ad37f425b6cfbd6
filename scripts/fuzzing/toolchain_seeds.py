"""Good inputs of the toolchain's readers."""

import base64
import gzip
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from aotc.base.evidence import EngineChoice, Figure, LeftOutEngine, MeasuredEngine, SizeFigure
from aotc.base.stages import Executable
from aotc.commands.dask.executor_messages import Answer
from aotc.compile.target_files import builtin_folder
from aotc.compile.xla import xla_objects
from aotc.config import tuning_file
from aotc.config.tuning_file import TunedExecutable, TunedTarget, TuningFile
from aotc.pipeline.cache.cache_store import MAGIC, _digest
from aotc_runtime.base.digest import sha256
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.formats.host_facts_json import host_document
from aotc_runtime.formats.in_toto import PROVENANCE_TYPE, SBOM_TYPE, STATEMENT_TYPE
from aotc_runtime.schema.bundle_manifest import Cost, MeasuredCandidate, Memory, Tuned
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified

from .toolchain import DATA, KERAS, KEY, NAME, ONNX, PT2, TRUSTING, _members, keras_members

CODE = b"machine code"
EXECUTABLE = Executable(
    CODE, sha256(CODE), ("avx",), (), (), Memory(1, 2, 3, 4, 5), Cost(1, 2, 3), {"k": 1}, 0.5
)
TUNED = Tuned(
    choice="default",
    options={"xla_flag": ""},
    captured=(),
    candidates=(MeasuredCandidate(name="default", p50_us="12.5", relative="1.000", wins=0),),
    rounds=9,
    margin="0.03",
    processor="znver5",
    threads=2,
    jaxlib="0.12.0",
)
TUNING = TuningFile(
    aotc_tuning=1,
    jaxlib="0.12.0",
    executables=(TunedExecutable(NAME, "f", 0, "f", sha256(b""), TUNED),),
    untuned_targets={"elsewhere": "its host is another"},
)
FIGURE, SIZES = Figure(median="2.5", least="1.0", most="9.0"), SizeFigure(median=2, least=1, most=9)
CHOICE = EngineChoice(
    objective="start",
    engine="xla",
    engines=(
        MeasuredEngine(
            engine="xla",
            latency_us=FIGURE,
            start_ms=FIGURE,
            memory_bytes=SIZES,
            relative="1.000",
            wins=0,
        ),
        LeftOutEngine(engine="iree", reason="it crashed"),
    ),
    rounds=9,
    starts=5,
    margin="0.03",
)
CHOSEN = msgspec.structs.replace(TUNING, targets={NAME: TunedTarget("xla", {}, CHOICE)})
REPORT = {
    "entry_points": {
        "predict": {"shapes": [{"sizes": {"batch": 1}, "count": 3}]},
        "other": {"shapes": [{"sizes": {}, "count": 1}]},
    }
}
MANIFEST = b"""schema = 1
name = "small"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[weights.params]
init = "small:init"
[dimensions.batch]
range = [1, 64]
profiles = [1, 8]
[entry_points.f]
function = "small:f"
bind = { params = "params" }
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.y = [{ shape = ["batch"], dtype = "int32" }, { a = { shape = [], dtype = "bool" } }]
tolerance = { rtol = 1e-5, atol = 1e-6 }
out_of_profile = { batch = "pad" }
[gates]
max_custom_calls = 0
"""


TFHLO = json.dumps(
    {
        "format": 1,
        "tensorflow": "2.21.0",
        "saved_model": "sha256:0",
        "signature": "serving_default",
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}],
        "outputs": ["y"],
        "modules": [{"shapes": [[1, 4]], "weights": ["w"], "file": "modules/0.mlirbc"}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [4], "file": "weights/0"}],
    }
).encode()


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, one=np.arange(6, dtype=np.float32).reshape(2, 3), other=np.array(True))
    return file.getvalue()


def seeds(bundle: Path) -> Mapping[str, list[bytes]]:
    """By the reader's name."""
    contents, envelopes = read_unverified(open_bundle(bundle))
    manifest = next(iter(contents.manifests.values()))
    assert manifest.evidence is not UNSET
    profile = next(iter(manifest.entry_points.values())).profiles[0]
    made = bytes(contents.blobs[profile.executable.digest])
    statements = [base64.b64decode(json.loads(each)["payload"]) for each in envelopes]
    return {
        "sealed_entry": [TRUSTING.seal(KEY, DATA)],
        "kept_entry": [MAGIC + _digest(KEY, DATA) + DATA],
        "task_result": [msgspec.msgpack.encode(EXECUTABLE)],
        "worker_answer": [*map(msgspec.msgpack.encode, _answers())],
        "recipe": [*_builds(statements)],
        "claim": [*statements, _json(_BILL)],
        "evidence": [bytes(contents.blobs[manifest.evidence.digest])],
        "executable": [made],
        "machine_code": [*xla_objects.contents(made).objects[:2]],
        "tuning": [tuning_file.encode(TUNING), tuning_file.encode(CHOSEN)],
        "traffic": [*_logs()],
        "host": [_json(host_document(detect_all()))],
        "build_manifest": [MANIFEST],
        "tfhlo_document": [TFHLO],
        "tfhlo_archive": [_tfhlo()],
        "exported_function": [(MANIFESTS / "smooth" / "smooth.jax").read_bytes()],
        **(
            {
                "onnx_model": [(MANIFESTS / "bert" / "bert.onnx").read_bytes(), _onnx()],
                "onnx_document": [_onnx_document()],
            }
            if ONNX
            else {}
        ),
        **(
            {
                "keras_config": [keras_members()["config.json"]],
                "keras_weights": [keras_members()["model.weights.h5"]],
            }
            if KERAS
            else {}
        ),
        "pt2_archive": [PT2.read_bytes()],
        "npz_weights": [_npz()],
        "pt2_program": [
            data for name, data in _members().items() if name.endswith("models/model.json")
        ],
        "target": [(builtin_folder() / f"{NAME}.toml").read_bytes()],
    }


_BILL = {
    "_type": STATEMENT_TYPE,
    "subject": [{"name": "x", "digest": {"sha256": "0" * 64}}],
    "predicateType": SBOM_TYPE,
    "predicate": {
        "specVersion": "1.6",
        "components": [
            {
                "type": "library",
                "name": "numpy",
                "version": "2.4.0",
                "purl": "pkg:pypi/numpy@2.4.0",
                "hashes": [{"alg": "SHA-256", "content": "0" * 64}],
            }
        ],
    },
}


MANIFESTS = Path(__file__).parents[2] / "manifests"


def _tfhlo() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in {
            "model.json": TFHLO,
            "modules/0.mlirbc": b"",
            "weights/0": bytes(16),
        }.items():
            file.writestr(name, data)
    return made.getvalue()


def _onnx() -> bytes:
    """A model with a loop, shapes that are computed and a table."""
    from onnx import TensorProto
    from onnx.helper import make_node

    from tests.frontends.onnx_files.making import INT64, graph, simple, value

    on, flag = TensorProto.BOOL, ()
    body = graph(
        [make_node("Identity", ["goes"], ["on"]), make_node("Add", ["sum", "x"], ["added"])],
        [value("i", flag, INT64), value("goes", flag, on), value("sum")],
        [value("on", flag, on), value("added")],
    )
    nodes = [
        make_node("Loop", ["trips", "", "x"], ["last"], body=body),
        make_node("Gemm", ["last", "w"], ["product"], transB=1, alpha=0.5),
        make_node("Reshape", ["product", "sizes"], ["y"]),
    ]
    w = np.full((4, 3), 0.5, np.float32)
    made = simple(nodes, trips=np.array(3), sizes=np.array([-1, 2]), w=w)
    return bytes(made.SerializeToString())


def _onnx_document() -> bytes:
    from google.protobuf import json_format
    from onnx import ModelProto

    text: str = json_format.MessageToJson(ModelProto.FromString(_onnx()), indent=None)
    return text.encode()


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _answers() -> Iterator[Answer]:
    yield Answer(executable=EXECUTABLE)


def _builds(statements: list[bytes]) -> Iterator[bytes]:
    for statement in map(json.loads, statements):
        if statement["predicateType"] == PROVENANCE_TYPE:
            yield _json(statement["predicate"])


def _logs() -> Iterator[bytes]:
    lines = b'{"batch": 3}\n{"batch": 4, "count": 7}\n{"sizes": {"batch": 1}, "count": 2}\n'
    yield lines
    yield b"batch,count\n3,7\n4,1\n"
    yield _json(REPORT)
    yield gzip.compress(lines, mtime=0)
