"""Tests of the modules that may write files, which are few so that results survive a kill."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

BY_NAME = {
    "write_bytes", "write_text", "touch", "mkdir", "makedirs", "mkdtemp", "mkstemp",
    "TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile",
    "rename", "renames", "symlink", "symlink_to", "hardlink_to", "unlink",
    "removedirs", "rmdir", "rmtree", "copyfile", "copy2", "copytree", "truncate",
    "chmod", "fchmod", "chown", "tofile", "savez", "savez_compressed", "FileHandler",
}  # fmt: skip
"""Functions and methods that change files whatever their arguments."""

OF_MODULES = {
    "replace": "os",
    "remove": "os",
    "link": "os",
    "copy": "shutil",
    "move": "shutil",
    "save": "np",
    "dump": "pickle",
}
"""Names that mean something harmless elsewhere, such as list.remove."""

OPENING = ("open", "fdopen", "memmap", "ZipFile", "TarFile")
READING = {"", "r", "rb", "rt"}

WRITERS = {
    "aotc/base/temporary_files.py": (
        "temporary names, and new files that get theirs when they are whole"
    ),
    "aotc/bundle/write/atomic_files.py": (
        "what is written beside its place and takes it when it is whole"
    ),
    "aotc/pipeline/cache/cache_folder.py": "makes the folder of the cache",
    "aotc/commands/remote_cache/file_blobs.py": "entries elsewhere: seals show parts of one",
    "aotc/pipeline/cache/cache_store.py": "its entries, under temporary names until they are whole",
}
"""Everything that outlives a command is written by these."""

SCRATCH = {
    "aotc/commands/export/exported_model.py": "a temporary folder of its own: a model to check",
    "aotc/commands/export/model_formats.py": "that folder",
    "aotc/base/workers/worker_parent.py": "the folder of one job",
    "aotc/base/workers/worker_child.py": "that folder, and its stdout, under another number",
    "aotc/base/workers/confined_process.py": "no file: what /proc takes about this process",
    "aotc/compile/xla/xla_compiler.py": "no file: an archive in memory",
    "aotc/pipeline/children/capture_worker.py": "the build's scratch folder",
    "aotc/pipeline/children/reference_worker.py": "the build's scratch folder",
    "aotc/pipeline/parity_check.py": ("the build's scratch folder: a policy for the parity worker"),
    "aotc/check/evaluation_files.py": "the build's scratch folder: results and rows",
    "aotc/pipeline/children/evaluation_worker.py": "the build's scratch folder",
    "aotc/commands/tune/precision_search.py": "a scratch folder: a policy for trial bundles",
    "aotc/base/msgpack_values.py": "the build's scratch folder: values of its processes",
    "aotc/pipeline/scratch_folder.py": "the build's scratch folder",
    "aotc/pipeline/children/trial_reference.py": "the build's scratch folder",
    "aotc/bundle/write/output_paths.py": (
        "asks whether a place can be written, with a file that has no name"
    ),
    "aotc/report/array_files.py": "an archive in memory, for write_atomically",
    "aotc/commands/bench/bench_processes.py": "a temporary folder of its own",
    "aotc/frontends/stablehlo/module_probe.py": (
        "a temporary folder of its own: modules of a model file"
    ),
    "aotc/frontends/stablehlo/module_probe_worker.py": "that folder: what it read, written anew",
    "aotc/commands/import_tensorflow/tensorflow_exporter.py": "the temporary folder of one import",
    "aotc/commands/import_tensorflow/tensorflow_import.py": "that folder: the job",
    "aotc/commands/record_expected/model_recorder.py": "the temporary folder of one recording",
    "aotc/commands/record_expected/recording_process.py": "that folder: the job and its calls",
    "aotc/engines/onnxruntime/onnxruntime_worker.py": "a temporary folder of its own: a graph",
    "aotc/engines/openvino/openvino_worker.py": (
        "a temporary folder of its own: a graph in its two files"
    ),
    "aotc/commands/tune/tuning_search.py": "a temporary folder of its own: bundles to start",
    "aotc/pipeline/cached_tasks.py": "the build's scratch folder: what was made before",
    "aotc/commands/channel/channel_status.py": (
        "a temporary folder of its own: of a first-time host"
    ),
    "aotc/cli/command_group.py": "/dev/null",
}
"""Others, and where what they write lies: it is gone when the command ends, however that ends."""


def writes_in(path: Path) -> Iterator[ast.Call]:
    """The calls in a file that can change files."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and _writes(node):
            yield node


def _writes(call: ast.Call) -> bool:
    owner, name = "", ""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    elif isinstance(call.func, ast.Name):
        name = call.func.id
    if name in OF_MODULES:
        # Path.replace takes one argument, str.replace two, dataclasses.replace keywords.
        renames = name == "replace" and owner != "" and len(call.args) == 1 and not call.keywords
        return owner == OF_MODULES[name] or renames
    if name in OPENING:
        return not _mode_of(call, owner) <= READING
    return name in BY_NAME


def _mode_of(call: ast.Call, owner: str) -> set[str]:
    """Return possible modes: every text of an argument; of os.open, the names of its flags."""
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    if owner == "os" and isinstance(call.func, ast.Attribute) and call.func.attr == "open":
        flags = {node.attr for node in ast.walk(call.args[1]) if isinstance(node, ast.Attribute)}
        return flags & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"}
    if isinstance(call.func, ast.Name) or owner in ("os", "np", "zipfile", "tarfile"):
        given = given[1:] if call.args else given
    return {a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)}


def writers(folder: Path) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix() for path in folder.rglob("*.py") if any(writes_in(path))
    }


def test_only_these_modules_write_what_outlives_a_command() -> None:
    """The sweeps of tests/faults stop those that write results at every call: what a command leaves
    goes through them. A module that writes for a while stands in SCRATCH, with where.
    """
    found = writers(ROOT / "aotc")
    assert found - WRITERS.keys() - SCRATCH.keys() == set(), "writes through no known way"
    assert WRITERS.keys() | SCRATCH.keys() <= found, "writes nothing any more"


STORE = "runtime/serve/aotc_serve/store/blob_files.py"
"""What is fetched: it has no name of a blob until all of it is there and was hashed."""

CHANNEL = "runtime/serve/aotc_serve/channel/channel_state.py"
"""What a host keeps of a channel, which `verify --channel` asks and no load does."""


ASSETS = "runtime/aotc_runtime/serving/bundle_assets.py"
"""A private temporary folder, when the caller asks for the path of an asset."""


def test_the_runtime_writes_no_file_but_those_of_a_store_and_of_a_channel() -> None:
    found = writers(ROOT / "runtime")
    assert found == {"runtime/aotc_runtime/__main__.py", CHANNEL, STORE, ASSETS}
    (call,) = writes_in(ROOT / "runtime" / "aotc_runtime" / "__main__.py")
    assert ast.unparse(call) == "os.open(os.devnull, os.O_WRONLY)"


def test_writing_is_told_from_reading() -> None:
    """Check some calls that write and others that do not."""
    for text in (
        "open(p, 'w')", "p.open('ab')", "open(p, mode='x')", "p.open(mode='r+')", "p.write_text(t)",
        "os.open(p, os.O_RDONLY | os.O_CREAT)", "os.fdopen(d, 'wb')", "p.replace(q)",
        "np.save(p, a)", "os.remove(p)", "shutil.copy(p, q)",
        "os.replace(p, q)", "np.memmap(p, np.uint8, mode='r+')", "zipfile.ZipFile(b, 'w')",
    ):  # fmt: skip
        assert _writes(_call(text)), text
    for text in (
        "open(p)", "p.open()", "p.open('rb')", "open('w')", "os.open(p, os.O_RDONLY)",
        "t.replace('a', 'b')", "replace(job, x=1)", "msgspec.structs.replace(job, x=1)",
        "np.memmap(p, np.uint8, mode='r')", "os.fdopen(d)", "a.copy()", "a.remove(x)",
    ):  # fmt: skip
        assert not _writes(_call(text)), text


def _call(text: str) -> ast.Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    return node
