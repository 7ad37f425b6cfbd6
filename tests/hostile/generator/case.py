"""Recipe of a bad bundle, and the refusal that is expected."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner

from ..archives import on_disk
from ..tampering import Documents, MemoryBundle, signed, take_apart


@dataclass(frozen=True, slots=True)
class Kit:
    """A good bundle that `ours` signed, whose key the policy trusts; it knows no `stranger`."""

    bundle: MemoryBundle
    ours: LocalSigner
    stranger: LocalSigner

    def documents(self) -> Documents:
        return take_apart(self.bundle)

    def signed(self, documents: Documents) -> MemoryBundle:
        return signed(documents, self.ours)


type Make = Callable[[Kit], MemoryBundle] | Callable[[Kit], bytes]
type Place = Callable[[Kit, Path], Path]


@dataclass(frozen=True, slots=True)
class Case:
    """A bad bundle. code, exit_code: of the refusal.

    forms: "archive" and "folder" for contents, "archive" for signed documents and for bytes that
    are no good archive, "place" for what is made in a folder of its own.
    """

    name: str
    code: str
    make: Callable[[Kit, Path, str], Path]
    forms: tuple[str, ...]
    exit_code: int = 5


BOTH_FORMS = ("archive", "folder")


def contents(
    name: str, code: str, make: Callable[[Kit], MemoryBundle], forms: tuple[str, ...] = BOTH_FORMS
) -> Case:
    """The same bad contents as an archive and as a folder, where the form may matter."""

    def write(kit: Kit, folder: Path, form: str) -> Path:
        return on_disk(make(kit), form, folder)

    return Case(name, code, write, forms)


def archived(name: str, code: str, make: Callable[[Kit], bytes]) -> Case:
    """A file that is no good archive."""

    def write(kit: Kit, folder: Path, form: str) -> Path:
        path = folder / "bundle.aotb"
        path.write_bytes(make(kit))
        return path

    return Case(name, code, write, ("archive",))


def placed(name: str, code: str, make: Place) -> Case:
    """Something at a path."""

    def write(kit: Kit, folder: Path, form: str) -> Path:
        return make(kit, folder)

    return Case(name, code, write, ("place",))


def changed(name: str, code: str, change: Callable[[Documents], object]) -> Case:
    """Documents that a trusted key signed as they are after the change."""

    def make(kit: Kit) -> MemoryBundle:
        documents = kit.documents()
        change(documents)
        return kit.signed(documents)

    return contents(name, code, make, ("archive",))
