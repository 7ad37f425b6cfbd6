"""The scratch folder through which the processes of one build exchange files, and their names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec import Struct

from aotc.base.constants import FULL
from aotc.base.errors import refusal
from aotc.base.msgpack_values import ValueFile, unpack
from aotc.base.stages import CapturedEntryPoint, CapturedProgram, Chunk, file_stem, fixture_file
from aotc.base.temporary_files import temporary_folder
from aotc_runtime.base.digest import chunks_of, cores, sha256_of
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.parallel_calls import map_on_threads
from aotc_runtime.schema.manifest_labels import ExecutableKey

if TYPE_CHECKING:
    from aotc.config.build_manifest import BuildManifest


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for one build. Raises UsageError (AOTC-E003) without space."""
    is_there = False
    try:
        with temporary_folder(Path(tempfile.gettempdir()), "aotc-build-", "") as folder:
            is_there = True
            yield folder
    except OSError as error:
        if is_there and error.errno not in FULL:
            raise
        raise no_scratch(error) from error


def no_scratch(error: OSError) -> AotcError:
    """AOTC-E003 for the folder that holds a build until it is written."""
    where, found = "the directory for temporary files", error.strerror or str(error)
    return refusal("AOTC-E003", where, found, cause="temporary-directory-is-not-writable")


class ProgramReads(Struct, frozen=True):
    """Reads of a program: digests by file name, and whether each variable was set."""

    files: dict[str, str]
    variables: dict[str, bool]


def digest_of(shard: Path) -> str:
    """Return the digest of a file of a weights set, which its name holds."""
    return "sha256:" + shard.name.split(".")[1]


def _tee(file: BinaryIO, chunks: Iterable[Chunk]) -> Iterator[bytes | bytearray | memoryview]:
    for chunk in chunks:
        for piece in chunks_of(chunk):
            file.write(piece)
            yield piece


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """The job of the processes that run the user's code.

    If they open the build manifest themselves, the program has done so.

    Attributes:
        targets: The platform of each target, by its name as the manifest or the caller writes it.
        wanted: The executables of each target, by its name.
        keeps_going: Whether the capture continues after an entry point that it cannot capture.
        threads: How many may compile plain JAX, without effect on results.
        located: Whether modules have their source lines.
    """

    manifest: BuildManifest
    targets: Mapping[str, str]
    wanted: Mapping[str, Sequence[ExecutableKey]]
    keeps_going: bool = False
    threads: int = 1
    located: bool = False

    @property
    def executables(self) -> tuple[ExecutableKey, ...]:
        """The executables of all targets, each once, sorted."""
        return tuple(sorted({key for keys in self.wanted.values() for key in keys}))

    def encode(self) -> bytes:
        """Encode the job for another process.

        Raises UnicodeEncodeError if a path is not UTF-8, so that jax cannot write it into a
        module's locations.
        """
        from aotc.config.build_manifest import encode_build_manifest

        str(self.manifest.path).encode()
        manifest = encode_build_manifest(self.manifest)
        return msgspec.msgpack.encode(
            (manifest, self.targets, self.wanted, self.keeps_going, self.threads, self.located)
        )

    @classmethod
    def decode(cls, data: bytes) -> ProgramJob:
        """Decode the result of `encode`."""
        from aotc.config.build_manifest import decode_build_manifest

        manifest, targets, wanted, keeps_going, threads, located = unpack(
            data, tuple[bytes, dict[str, str], dict[str, list[ExecutableKey]], bool, int, bool]
        )
        return cls(decode_build_manifest(manifest), targets, wanted, keeps_going, threads, located)


@dataclass(frozen=True, slots=True)
class Scratch:
    """A build's scratch folder, through which its processes exchange files; removed at the end."""

    folder: Path

    def inputs(self, key: ExecutableKey) -> Path:
        """Return the fixture's inputs, by the capture; safetensors."""
        return self.folder / f"inputs.{file_stem(key)}.safetensors"

    def results(self, key: ExecutableKey) -> Path:
        """Return the fixture's outputs, by the capture, where they were recorded; safetensors."""
        return self.folder / f"results.{file_stem(key)}.safetensors"

    def expected(self, key: ExecutableKey) -> Path:
        """Return the path of the framework results for the fixture, written by the capture."""
        return self.folder / f"expected.{file_stem(key)}.safetensors"

    def fixture(self, key: ExecutableKey) -> Path:
        """Return the fixture's file with its reference results; safetensors."""
        return fixture_file(self.folder, key)

    def weights(self, name: str) -> list[Path]:
        """Return the files of a weights set, in order; `digest_of` knows their digests."""
        return sorted((self.folder / f"weights.{name}").iterdir())

    def originals(self, name: str) -> list[Path]:
        """Return the files with weights that the bundle holds quantized only; perhaps none."""
        folder = self.folder / f"originals.{name}"
        return sorted(folder.iterdir()) if folder.exists() else []

    def write_shards(self, kind: str, name: str, shards: Iterable[Iterable[Chunk]]) -> None:
        """Write a set's "weights" or "originals", each file in chunks, and take their digests."""
        folder = self.folder / f"{kind}.{name}"
        folder.mkdir()

        def write(numbered: tuple[int, Iterable[Chunk]]) -> None:
            number, chunks = numbered
            unfinished = folder / f"{number:06}"
            with unfinished.open("wb") as file:
                digest = sha256_of(_tee(file, chunks))
            unfinished.rename(folder / f"{number:06}.{digest[7:]}.safetensors")

        map_on_threads(write, list(enumerate(shards)), cores())

    def entry_point(self, name: str) -> ValueFile[CapturedEntryPoint]:
        """Return the file of a captured entry point, compiled while others are being captured."""
        return ValueFile(self.folder / f"captured.{name}.msgpack", CapturedEntryPoint)

    @property
    def program(self) -> ValueFile[CapturedProgram]:
        """Return the file of the captured program, which exists once the capture is complete."""
        return ValueFile(self.folder / "program.msgpack", CapturedProgram)

    @property
    def reads(self) -> ValueFile[ProgramReads]:
        """Return the file with what the program read while it was captured."""
        return ValueFile(self.folder / "reads.msgpack", ProgramReads)

    def add_measures(self, taken: Sequence[str]) -> None:
        """Leave the measures by which a process was isolated, a line each."""
        with self._measures.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in taken)

    def measures(self) -> tuple[str, ...]:
        """Return what `add_measures` left, each line once; nothing where nobody did."""
        if not self._measures.exists():
            return ()
        return tuple(sorted({*self._measures.read_text("utf-8").splitlines()}))

    @property
    def _measures(self) -> Path:
        return self.folder / "measures"
