"""Folders that are no layout, and paths that are no bundle."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from ..archives import on_disk
from ..tampering import write_folder
from .case import Case, Kit, placed

HEX = "0" * 64


def layout(change: Callable[[Path], object]) -> Callable[[Kit, Path], Path]:
    """The good layout, changed as a folder."""

    def make(kit: Kit, folder: Path) -> Path:
        path = write_folder(folder / "layout", kit.bundle)
        change(path)
        return path

    return make


def linked(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return change


def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # its name has to be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def written(name: bytes, data: bytes = b"x") -> Callable[[Path], object]:
    return lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(data)


def one_of(folder: Path) -> Path:
    return min((folder / "blobs" / "sha256").iterdir())


def in_a_subfolder(folder: Path) -> None:
    blob = one_of(folder)
    (blob.parent / "more").mkdir()
    blob.rename(blob.parent / "more" / blob.name)


def a_blob_as_folder(folder: Path) -> None:
    blob = one_of(folder)
    blob.unlink()
    blob.mkdir()


def a_dangling_blob(folder: Path) -> None:
    blob = one_of(folder)
    blob.unlink()
    blob.symlink_to("nowhere")


def a_linked_blob(folder: Path) -> None:
    blob = one_of(folder)
    blob.rename(folder.parent / "blob")
    blob.symlink_to(folder.parent / "blob")


def another_algorithm(folder: Path) -> None:
    (folder / "blobs" / "sha512").mkdir()
    (folder / "blobs" / "sha512" / (HEX * 2)).write_bytes(b"x")


def a_pipe(kit: Kit, folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def a_loop(kit: Kit, folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


def inside_a_file(kit: Kit, folder: Path) -> Path:
    return on_disk(kit.bundle, "archive", folder) / "bundle.aotb"


def bound(kit: Kit, folder: Path) -> Path:
    a_socket(folder / "socket")
    return folder / "socket"


PLACES: tuple[Case, ...] = (
    placed("no such file", "AOTC-E108", lambda kit, folder: folder / "missing.aotb"),
    placed("a path inside a file", "AOTC-E108", inside_a_file),
    placed("a pipe", "AOTC-E108", a_pipe),
    placed("a socket", "AOTC-E108", bound),
    placed("a device", "AOTC-E108", lambda kit, folder: Path(os.devnull)),
    placed("a link to itself", "AOTC-E108", a_loop),
    placed("a name that is too long", "AOTC-E108", lambda kit, folder: folder / ("x" * 300)),
    placed("an empty folder", "AOTC-E109", lambda kit, folder: folder),
    *(
        placed(f"folder: {name}", code, layout(change))
        for name, code, change in (
            ("index.json is a link", "AOTC-E109", linked("index.json")),
            ("oci-layout is a link", "AOTC-E109", linked("oci-layout")),
            ("blobs is a link", "AOTC-E109", linked("blobs")),
            ("blobs/sha256 is a link", "AOTC-E109", linked("blobs/sha256")),
            ("a blob is a link", "AOTC-E109", a_linked_blob),
            ("a blob is a link to nowhere", "AOTC-E109", a_dangling_blob),
            ("index.json is a pipe", "AOTC-E109", instead("index.json", os.mkfifo)),
            ("index.json is a socket", "AOTC-E109", instead("index.json", a_socket)),
            ("index.json is a folder", "AOTC-E110", instead("index.json", Path.mkdir)),
            ("oci-layout is a folder", "AOTC-E109", instead("oci-layout", Path.mkdir)),
            ("no oci-layout", "AOTC-E109", lambda folder: (folder / "oci-layout").unlink()),
            ("no blobs", "AOTC-E202", lambda folder: shutil.rmtree(folder / "blobs")),
            ("a blob is a folder", "AOTC-E202", a_blob_as_folder),
            ("a blob in a subfolder", "AOTC-E109", in_a_subfolder),
            ("a file more", "AOTC-E109", written(b"README")),
            ("a hidden file", "AOTC-E109", written(b".git")),
            ("a file beside the blobs", "AOTC-E109", written(b"blobs/x")),
            ("a name that is no text", "AOTC-E109", written(b"blobs/sha256/\xff\xfe")),
            ("a name that steers a terminal", "AOTC-E109", written(b"\xff\x1b[2J")),
            ("a digest in capitals", "AOTC-E109", written(b"blobs/sha256/" + b"A" * 64)),
            ("a digest of another algorithm", "AOTC-E109", another_algorithm),
        )
    ),
)
