"""The scratch folder through which the processes of one build exchange files, and their names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec import Struct

from aotc.base.constants import FULL
from aotc.base.errors import refusal
from aotc.base.msgpack_values import unpacked
from aotc.base.stages import CapturedEntryPoint, CapturedProgram, Chunk, file_stem, fixture_file
from aotc.base.temporary_files import temporary_folder
from aotc.capture.file_digests import State
from aotc_runtime.base.digest import cores, pieces, sha256_of
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.parallel_calls import map_on_threads
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.system.streamed_bundle import Told

if TYPE_CHECKING:
    from aotc.config.build_manifest import BuildManifest


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one build. Raises UsageError (AOTC-E003) if there is none, or it is full."""
    try:
        made = temporary_folder(Path(tempfile.gettempdir()), "aotc-build-", "")
        folder = made.__enter__()
    except OSError as error:
        raise no_scratch(error) from error
    with ExitStack() as stack:
        stack.push(made)
        try:
            yield folder
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise no_scratch(error) from error


def no_scratch(error: OSError) -> AotcError:
    """AOTC-E003 for the folder that holds a build until it is written."""
    return refusal(
        "AOTC-E003",
        "the folder for temporary files",
        error.strerror or str(error),
        expected="a folder that can be written, with free space",
        hint="make room there, or set TMPDIR to another folder; nothing was written",
    )


WEIGHTS = "weights."
"""How names of the folders of weights sets begin."""


class KnownWeights(Struct, frozen=True):
    """What builds have found out about files of weights. digests: of large files, with the state in
    which they had them.  cuts: digests of the shards in their order, by what they were cut from
    (`aotc.capture.weight_sets.Weights.cut`).
    """

    digests: tuple[tuple[State, str], ...] = ()
    cuts: dict[str, tuple[str, ...]] = {}


def digest_of(shard: Path) -> str:
    """The digest of a file of a weights set, which its name holds."""
    return "sha256:" + shard.name.split(".")[1]


def _written(file: BinaryIO, chunks: Iterable[Chunk]) -> Iterator[bytes | bytearray | memoryview]:
    for chunk in chunks:
        for piece in pieces(chunk):
            file.write(piece)
            yield piece


class _Encoded(Struct, frozen=True):
    """A `ProgramJob` for another process."""

    manifest: bytes
    targets: tuple[str, ...]
    wanted: dict[str, tuple[ExecutableKey, ...]]
    keeps_going: bool
    threads: int


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """What the processes that run the user's code are told. What they open of the build manifest
    themselves is the program's doing.

    targets: as the manifest or the caller writes them.  wanted: the executables of each target, by
    its name.  keeps_going: whether the capture goes on after an entry point that it cannot capture.
    threads: how many may compile plain JAX; the result is the same with any number.
    """

    manifest: BuildManifest
    targets: tuple[str, ...]
    wanted: Mapping[str, Sequence[ExecutableKey]]
    keeps_going: bool = False
    threads: int = 1

    @property
    def executables(self) -> tuple[ExecutableKey, ...]:
        """The executables of all targets, each once, sorted."""
        return tuple(sorted({key for keys in self.wanted.values() for key in keys}))

    def encode(self) -> bytes:
        """The job for another process. Raises UnicodeEncodeError for a path that is not UTF-8: jax
        cannot write it into a module's locations.
        """
        from aotc.config.build_manifest import encode_build_manifest

        str(self.manifest.path).encode()
        manifest = encode_build_manifest(self.manifest)
        wanted = {target: tuple(keys) for target, keys in self.wanted.items()}
        return msgspec.msgpack.encode(
            _Encoded(manifest, self.targets, wanted, self.keeps_going, self.threads)
        )

    @classmethod
    def decode(cls, data: bytes) -> ProgramJob:
        """What `encode` made."""
        from aotc.config.build_manifest import decode_build_manifest

        found = unpacked(data, _Encoded)
        manifest = decode_build_manifest(found.manifest)
        return cls(manifest, found.targets, found.wanted, found.keeps_going, found.threads)


@dataclass(frozen=True, slots=True)
class Scratch:
    """A build's scratch folder; removed when the build ends."""

    folder: Path

    @property
    def program(self) -> Path:
        """The captured program, whose file is there once the capture is complete."""
        return self.folder / "program.msgpack"

    def write_measures(self, worker: str, taken: Sequence[str]) -> None:
        """Leave what was done to keep a worker apart, a line each."""
        self._measures(worker).write_text("\n".join(taken), "utf-8")

    def measures(self, worker: str) -> tuple[str, ...]:
        """What `write_measures` left; nothing where nobody did."""
        with suppress(FileNotFoundError):
            return tuple(self._measures(worker).read_text("utf-8").splitlines())
        return ()

    def _measures(self, worker: str) -> Path:
        return self.folder / f"apart.{worker}"

    def write_weights(self, name: str, shards: Iterable[Iterable[Chunk]]) -> None:
        """Write the files of a weights set, each in chunks, and take their digests meanwhile."""
        folder = self._weights(name)
        folder.mkdir()

        def write(numbered: tuple[int, Iterable[Chunk]]) -> None:
            number, chunks = numbered
            unfinished = folder / f"{number:06}"
            with unfinished.open("wb") as file:
                digest = sha256_of(_written(file, chunks))
            unfinished.rename(folder / f"{number:06}.{digest[7:]}.safetensors")

        map_on_threads(write, list(enumerate(shards)), cores())

    def take_weights(self, name: str, kept: Sequence[str]) -> bool:
        """Take the files of a weights set from those that were kept; whether all of them are there.
        kept: their digests, in order; none if nobody knows them.
        """
        files = [self.kept / digest.removeprefix("sha256:") for digest in kept]
        if not files or not all(file.exists() for file in files):
            return False
        folder = self._weights(name)
        folder.mkdir()
        for number, file in enumerate(files):
            os.link(file, folder / f"{number:06}.{file.name}.safetensors")
        return True

    @property
    def kept(self) -> Path:
        """The folder with shards that earlier builds have cut, by their digests."""
        return self.folder / "kept"

    def write_known(self, known: KnownWeights) -> None:
        """Leave what is known of files of weights, for the capture or by it."""
        self._known.write_bytes(msgspec.msgpack.encode(known))

    def read_known(self) -> KnownWeights:
        """What `write_known` left; nothing if nobody did."""
        if not self._known.exists():
            return KnownWeights()
        return unpacked(self._known.read_bytes(), KnownWeights)

    @property
    def _known(self) -> Path:
        return self.folder / "known.msgpack"

    def weights(self, name: str) -> list[Path]:
        """The files of a weights set, in order; `digest_of` knows their digests."""
        return sorted(self._weights(name).iterdir())

    @contextmanager
    def hashing_weights(self) -> Iterator[Told]:
        """A function to call with the bytes of sources of weights, as they are hashed."""
        done = 0
        with self._hashed.open("wb", buffering=0) as file:

            def told(number: int) -> None:
                nonlocal done
                done += number
                os.pwrite(file.fileno(), done.to_bytes(8, "little"), 0)

            yield told

    def weights_hashed(self) -> int:
        """How many bytes of sources of weights were hashed by now."""
        with suppress(FileNotFoundError):
            return int.from_bytes(self._hashed.read_bytes(), "little")
        return 0

    @property
    def _hashed(self) -> Path:
        return self.folder / "hashed"

    def weights_written(self) -> int:
        """How many bytes of weights there are by now."""
        sizes = 0
        for path in self.folder.glob(f"{WEIGHTS}*/*"):
            with suppress(FileNotFoundError):  # it has just got its name
                sizes += path.stat().st_size
        return sizes

    def _weights(self, name: str) -> Path:
        return self.folder / f"{WEIGHTS}{name}"

    def inputs(self, key: ExecutableKey) -> Path:
        """The fixture's inputs, by the capture; safetensors."""
        return self.folder / f"inputs.{file_stem(key)}.safetensors"

    def results(self, key: ExecutableKey) -> Path:
        """The fixture's outputs, by the capture, where they were recorded; safetensors."""
        return self.folder / f"results.{file_stem(key)}.safetensors"

    def expected(self, key: ExecutableKey) -> Path:
        """What the framework of a model gives for the fixture, by the capture; safetensors."""
        return self.folder / f"expected.{file_stem(key)}.safetensors"

    def fixture(self, key: ExecutableKey) -> Path:
        """The fixture with its reference outputs, those of plain JAX or recorded; safetensors."""
        return fixture_file(self.folder, key)

    def write_entry_point(self, captured: CapturedEntryPoint) -> None:
        """Leave one captured entry point, which can be compiled while others are being captured."""
        self._entry_point(captured.name).write_bytes(msgspec.msgpack.encode(captured))

    def read_entry_point(self, name: str) -> CapturedEntryPoint:
        """What `write_entry_point` left."""
        data = self._entry_point(name).read_bytes()
        return unpacked(data, CapturedEntryPoint)

    def _entry_point(self, name: str) -> Path:
        return self.folder / f"captured.{name}.msgpack"

    def write_program(self, program: CapturedProgram) -> None:
        """Leave the whole captured program."""
        self.program.write_bytes(msgspec.msgpack.encode(program))

    def write_files(self, read: dict[str, str]) -> None:
        """Leave the digests of the files that the program read while it ran, by name."""
        self._files.write_bytes(msgspec.msgpack.encode(read))

    def read_files(self) -> dict[str, str]:
        """What `write_files` left."""
        return unpacked(self._files.read_bytes(), dict[str, str])

    @property
    def _files(self) -> Path:
        return self.folder / "read.msgpack"

    def write_variables(self, read: dict[str, bool]) -> None:
        """Leave the names of the variables that the program read, and whether each was set."""
        self._variables.write_bytes(msgspec.msgpack.encode(read))

    def read_variables(self) -> dict[str, bool]:
        """What `write_variables` left."""
        return unpacked(self._variables.read_bytes(), dict[str, bool])

    @property
    def _variables(self) -> Path:
        return self.folder / "variables.msgpack"

    def read_program(self) -> CapturedProgram:
        """What `write_program` left."""
        return unpacked(self.program.read_bytes(), CapturedProgram)
