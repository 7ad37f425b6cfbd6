"""Weights that Orbax has saved: a folder with `_METADATA` and arrays in zarr, in an OCDBT database
or in files.

Native code reads the arrays (tensorstore, which comes with orbax-checkpoint), in a process of its
own: a damaged checkpoint can end that and nothing else, and what it opens is not the program's.
https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpoint_format.html has the format.
"""

from __future__ import annotations

import resource
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path

import jax.numpy as jnp
from msgspec import Struct

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import refusal
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import confined_process as apart
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.confined_process import Apart
from aotc.capture.checkpoint_tensors import require_none
from aotc.capture.weight_files import StoredTensor, WeightsFile
from aotc.config.build_manifest import SourceFile
from aotc.config.checkpoint_files import files_below
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.base.limits import TENSOR_HEADER_BYTES_MAX, TENSOR_RANK_MAX
from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.system.streamed_bundle import PIECE_BYTES

ARRAYS = ("jax.Array", "np.ndarray", "scalar")
"""Types of leaves that are arrays."""

NOTHING = ("None", "Dict", "List", "Tuple", "NamedTuple", "Mapping")
"""Types of leaves that hold nothing: None, and containers that are empty."""

COMPRESSED_MAX = 2**15
"""How many bytes one of a file can stand for: zstd writes 128 KiB that are all the same in 4 bytes.
"""

OTHER_FILES = 512
"""Files that a process has open beside those of a checkpoint."""

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""Signals by which native code ends that has met what it does not expect."""

LINES_SHOWN = 15

INVALID = "orbax-checkpoint-is-invalid"
"""The cause of AOTC-E830 for a damaged or unfinished checkpoint."""


class _Step(Struct, frozen=True):
    key: str
    key_type: int


class _Value(Struct, frozen=True):
    value_type: str
    skip_deserialize: bool = False


class _Leaf(Struct, frozen=True):
    key_metadata: tuple[_Step, ...]
    value_metadata: _Value


class _Metadata(Struct, frozen=True):
    """What is read of `_METADATA`. Without the last, chunks that are missing would count as equal
    to a value of their own, and no damage would be seen.
    """

    tree_metadata: dict[str, _Leaf]
    use_ocdbt: bool
    use_zarr3: bool
    store_array_data_equal_to_fill_value: bool


class Job(Struct, frozen=True):
    """folder: the checkpoint.  names: of its arrays.  into: a folder for their bytes, by number; if
    it is empty, they are described.  apart: what reading them may use.  secrets: files that it must
    not read.
    """

    folder: str
    names: tuple[str, ...]
    ocdbt: bool
    zarr3: bool
    into: str
    apart: Apart
    secrets: tuple[str, ...]


class Described(Struct, frozen=True):
    """An array of a checkpoint; of one that cannot be opened, why."""

    dtype: str
    shape: tuple[int, ...]
    problem: str


class Checkpoint:
    """A checkpoint that was opened. names: of its arrays as they are stored.  scratch: a folder for
    their bytes.
    """

    def __init__(
        self,
        source: SourceFile,
        where: str,
        files: Sequence[WeightsFile],
        metadata: _Metadata,
        names: tuple[str, ...],
        scratch: Path | None,
    ) -> None:
        self.source, self.where = source, where
        self._files, self._metadata, self._names = files, metadata, names
        self._scratch = scratch
        self.folder: Path | None = None
        self._digest = ""

    def digest(self) -> str:
        """A digest of all files of the checkpoint and their names."""
        if not self._digest:
            lines = (f"{file.source.path.name} {file.digest()}" for file in self._files)
            self._digest = sha256("\n".join(lines).encode())
        return self._digest

    def describe(self) -> list[Described]:
        """What each array is. Raises CaptureError (AOTC-E830, E835)."""
        within = self._scratch or Path(tempfile.gettempdir())
        with temporary_folder(within, "aotc-orbax-", "") as folder:
            return self._run("", list[Described], folder)

    def fetch(self) -> None:
        """Write the bytes of every array into a folder, in a process that reads them chunk by
        chunk. Raises CaptureError (AOTC-E830, E835), OSError if there is no room.
        """
        if self.folder is None:
            assert self._scratch is not None, "a build has a scratch folder"
            folder = Path(tempfile.mkdtemp(prefix="orbax-", dir=self._scratch))
            self._run(str(folder), type(None), folder)
            self.folder = folder

    def _run[A](self, into: str, answer: type[A], within: Path) -> A:
        place = self.source.path.parent
        size = sum(file.size for file in self._files)
        job = Job(
            str(place),
            self._names,
            self._metadata.use_ocdbt,
            self._metadata.use_zarr3,
            into,
            Apart.stated(size, str(within)),
            apart.secrets(),
        )
        try:
            return worker_parent.run(
                worker_parent.module("aotc.capture.orbax_worker"),
                job,
                answer,
                within=within,
                environment=worker_environment.bare(),
                processes=Processes(),
            )
        except worker_parent.CrashedError as crash:
            raise self._ended(crash) from crash

    def _ended(self, crash: worker_parent.CrashedError) -> AotcError:
        """AOTC-E830 for bytes that crash their reader; E835 for one that somebody else has ended,
        such as the system for want of memory, or that has failed by itself.
        """
        if -crash.status in CRASHES:
            ended = describe_status(crash.status)
            found = f"{self.source.text}: its reader ended with {ended}"
            return refusal("AOTC-E830", self.where, found, cause=INVALID)
        return crash.refusal("AOTC-E835", self.where, LINES_SHOWN, cause="weights-reader-failed")


@dataclass(frozen=True, slots=True)
class ArrayBytes:
    """The bytes of one array, where a `WeightsFile` would have those of a file."""

    checkpoint: Checkpoint
    number: int

    @property
    def source(self) -> SourceFile:
        return self.checkpoint.source

    @property
    def where(self) -> str:
        return self.checkpoint.where

    def digest(self) -> str:
        """A digest of the checkpoint and of which array of it this is."""
        return sha256(f"{self.checkpoint.digest()} {self.number}".encode())

    def fetch(self) -> None:
        """Fetch the checkpoint."""
        self.checkpoint.fetch()

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """These of its bytes, in pieces, once the checkpoint was fetched. Raises OSError."""
        assert self.checkpoint.folder is not None, "somebody fetches it before"
        with (self.checkpoint.folder / str(self.number)).open("rb", buffering=0) as file:
            file.seek(start)
            for at in range(start, end, PIECE_BYTES):
                yield file.read(min(PIECE_BYTES, end - at))


def open_checkpoint(
    source: SourceFile, where: str, scratch: Path | None
) -> tuple[list[WeightsFile], dict[str, StoredTensor]]:
    """The files of a checkpoint and its arrays by their paths in the tree. source: its `_METADATA`.
    where: for messages.  scratch: gets the bytes, if somebody asks for them.

    Raises CaptureError (AOTC-E830) with everything that is wrong, and without tensorstore; OSError.
    """
    if find_spec("tensorstore") is None:
        cause = "orbax-checkpoint-is-not-installed"
        raise refusal("AOTC-E830", where, source.text, cause=cause)
    files, problems = list[WeightsFile](), list[str]()
    every = [*files_below(source)]
    _allow(len(every))
    for file in every:
        if file.path.is_symlink():
            problems.append(f"{file.text}: a link, which Orbax does not write")
        else:
            files.append(WeightsFile(file, where))
    metadata = _read(source, where)
    leaves = dict(_leaves(metadata, problems))
    names = tuple(leaves.values())
    tensors: dict[str, StoredTensor] = {}
    if not problems:
        checkpoint = Checkpoint(source, where, files, metadata, names, scratch)
        size = sum(file.size for file in files)
        described, total = zip(leaves, checkpoint.describe(), strict=True), 0
        for number, (name, array) in enumerate(described):
            if problem := array.problem or _wrong(array, size, total):
                problems.append(f"{name}: {problem}")
                continue
            dtype = jnp.dtype(array.dtype)
            total += prod(array.shape) * dtype.itemsize
            data = ArrayBytes(checkpoint, number)
            tensors[name] = StoredTensor(data, name, 0, dtype, array.shape, dtype)
    told = [f"{source.text} {each}" for each in problems]
    require_none(told, where, cause=INVALID)
    return files, tensors


def _allow(files: int) -> None:
    """Have this process open so many files at once, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _read(source: SourceFile, where: str) -> _Metadata:
    try:
        data = read_file(source.path, TENSOR_HEADER_BYTES_MAX)
        metadata = decode_foreign(data, _Metadata, where=source.path.name, marks=len(data))
    except BundleFormatError as error:
        found = f"{source.text}: {error.findings[0].found}"
        raise refusal("AOTC-E830", where, found, cause=INVALID) from error
    if not metadata.store_array_data_equal_to_fill_value:
        found = f"{source.text}: a checkpoint that leaves out fill values"
        raise refusal("AOTC-E830", where, found, cause=INVALID)
    return metadata


def _leaves(metadata: _Metadata, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Path in the tree, and name in the store, of every array."""
    seen: Mapping[str, set[str]] = {"name": set(), "place": set()}
    for text, leaf in metadata.tree_metadata.items():
        steps = [step.key for step in leaf.key_metadata]
        name, place, kind = "/".join(steps), ".".join(steps), leaf.value_metadata.value_type
        if kind in NOTHING:
            continue
        parts = place.split("/")
        if not place.isprintable() or {"", ".", ".."} & {*parts} or not all(steps):
            problems.append(f"{text!r}: a name that leads elsewhere")
        elif kind not in ARRAYS or leaf.value_metadata.skip_deserialize:
            problems.append(f"{name}: {kind}, which is no array")
        elif name in seen["name"] or place in seen["place"]:
            problems.append(f"{name}: another array has this name, too")
        else:
            seen["name"].add(name)
            seen["place"].add(place)
            yield name, place


def _wrong(found: Described, size: int, others: int) -> str:
    """Why nobody can have saved this in so many bytes.

    others: bytes of other arrays, which may have the same bytes of a database.
    """
    if found.dtype not in {*DType}:
        return f"{found.dtype}, which no weights have"
    if len(found.shape) > TENSOR_RANK_MAX:
        return f"{len(found.shape)} axes"
    if prod(found.shape) * jnp.dtype(found.dtype).itemsize > COMPRESSED_MAX * size - others:
        shape = "x".join(map(str, found.shape))
        return f"{shape} of {found.dtype}, in a checkpoint of {size} bytes"
    return ""
