"""Verifying and loading run no code of the bundle: an audit hook forbids whatever could."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from tests.running import printed

from .archives import on_disk
from .tampering import MemoryBundle, signed, take_apart

LOADING = """
import json, os, sys
import msgspec
import numpy
import aotc_runtime

ALLOWED = ("aotc_runtime", "numpy", "jaxlib", "ml_dtypes", "msgspec", "cryptography",
           "cffi_backend", "scipy", "iree", "onnxruntime", "openvino")
STANDARD = sys.stdlib_module_names
FORBIDDEN = ("compile", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn",
             "os.fork", "os.forkpty", "socket.", "pickle.", "marshal.load", "code.__new__",
             "shelve.", "ftplib.", "urllib.", "webbrowser.", "pty.", "os.remove", "os.rename",
             "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.truncate", "shutil.", "tempfile.")
PACKAGES = os.path.dirname(os.path.dirname(numpy.__file__))
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
seen, refused = set(), []

ANNOTATIONS = os.path.join(os.path.dirname(msgspec.__file__), "_utils.py")

def importing():
    frame = sys._getframe()
    while frame is not None:
        # msgspec and typing evaluate the annotations of this reader's own types.
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_code.co_filename == ANNOTATIONS and "class_annotations" in frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False

def hook(event, arguments):
    seen.add(event)
    bad = event.startswith(FORBIDDEN)
    if event in ("exec", "compile", "marshal.loads", "code.__new__"):
        # What the import system executes is checked when it is imported.
        bad = not importing()
    elif event == "import":
        name, path = arguments[0].split(".")[0], arguments[1]
        bad = name not in STANDARD and name.lstrip("_") not in ALLOWED and name not in ALLOWED
    elif event == "ctypes.dlopen":
        bad = arguments[0] is not None and not str(arguments[0]).startswith((PACKAGES, "lib"))
    elif event == "open":
        bad = isinstance(arguments[2], int) and bool(arguments[2] & WRITING)
    if bad:
        refused.append((event, repr(arguments)[:200]))
        raise RuntimeError(f"forbidden: {event} {arguments!r:.200}")

load = aotc_runtime.load  # imported now, as servers do
sys.addaudithook(hook)
with load(sys.argv[1], trust=sys.argv[2]) as bundle:
    result = bundle["predict"](numpy.zeros((1, 64), numpy.float32))
    kind = type(result).__name__
    label = result["label"] if kind == "dict" else result.label
    assert label.shape == (1,) and "label" in repr(result)
try:
    __import__("aotc")
except RuntimeError:
    refused.clear()
else:
    refused.append("the hook forbids nothing")
sys.stdout.write(json.dumps({"refused": refused, "seen": sorted(seen), "kind": kind}))
"""


NODES: dict[str, dict[str, Any]] = {
    "dict": {},
    "Answer": {"node": "namedtuple", "type": "Answer"},
    "Record": {"node": "record", "type": "models.Answer"},
}
"""What the entry point gives: the class of the result at the user's, and its node."""


def giving(kind: str, bundle: MemoryBundle, signer: LocalSigner) -> MemoryBundle:
    """The bundle, with its two outputs as fields of something else than a dict."""
    documents = take_apart(bundle)
    result = documents.manifest["entry_points"]["predict"]["result"]
    if NODES[kind]:
        fields = list(result["items"])
        items = list(result["items"].values())
        result.clear()
        result |= {**NODES[kind], "fields": fields, "items": items}
    return signed(documents, signer)


@pytest.mark.parametrize(
    ("form", "kind"), [("archive", "dict"), ("folder", "Answer"), ("archive", "Record")]
)
def test_loading_and_calling_executes_compiles_unpickles_spawns_and_writes_nothing(
    form: str, kind: str, genuine: MemoryBundle, ours: LocalSigner, tmp_path: Path
) -> None:
    path = on_disk(giving(kind, genuine, ours), form, tmp_path)
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("digits", [ours.public_pem()]))
    said = json.loads(printed(LOADING, path, policy))
    assert (said["refused"], said["kind"]) == ([], kind)
    assert {"open", "import"} <= set(said["seen"]), "the hook was asked"


XLA = """
import sys
import aotc_runtime

try:
    aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
except aotc_runtime.TrustError as error:
    print(error.code, "jaxlib._jax" in sys.modules)
else:
    print("loaded", "jaxlib._jax" in sys.modules)
"""


def test_other_name_is_refused_before_xla(digits_bundle: tuple[Path, Path], tmp_path: Path) -> None:
    """A third of a gigabyte of native code starts only for a bundle that is trusted."""
    bundle, policy = digits_bundle
    other = tmp_path / "other.toml"
    other.write_text(policy.read_text().replace('name = "digits"', 'name = "other"', 1))
    for trust, told in ((other, "AOTC-E306 False"), (policy, "loaded True")):
        command = [sys.executable, "-c", XLA, str(bundle), str(trust)]
        assert subprocess.check_output(command, text=True).strip() == told
