"""Bundles that contradict each other or themselves, for `aotc merge` and `aotc extract`: roots that
differ and share names, roots that list a target twice, attestations about other roots.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import merge_bundles
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.refusals import error_of

from .archives import on_disk
from .tampering import (
    Documents,
    MemoryBundle,
    flipped,
    policy_for,
    put_together,
    second_target,
    signed,
    swap_layer,
    take_apart,
    to_json,
)

BUILT, OTHER = "cpu-x86-64-v3", "other"


def twice(documents: Documents) -> None:
    """The same reference a second time."""
    documents.targets.append(documents.targets[0])
    documents.root["manifests"].append(dict(documents.root["manifests"][0]))


def two_of_one_name(documents: Documents) -> None:
    """Two targets, of which the second has the first one's name, and one in the annotations."""
    second_target(documents, BUILT)


def hidden_twice(documents: Documents) -> None:
    """A target and another of its name, which the annotations call something else."""
    second_target(documents, BUILT)
    documents.root["manifests"][1]["annotations"] = {"vnd.aotc.target": OTHER}


def of_two_programs(documents: Documents) -> None:
    second_target(documents, OTHER)
    documents.targets[1].manifest["version"] = "2.0.0"


ROOTS: dict[str, Callable[[Documents], None]] = {
    "twice": twice,
    "two of one name": two_of_one_name,
    "two of one name, one called otherwise": hidden_twice,
    "two versions": of_two_programs,
}


def attested_by_another(bundle: MemoryBundle, other: MemoryBundle) -> MemoryBundle:
    """The bundle with another one's attestations, blobs and all."""
    ours, theirs = (json.loads(each.files["index.json"]) for each in (bundle, other))
    blobs = dict(bundle.blobs)
    for entry in theirs["manifests"][1:]:
        attestation = json.loads(other.blobs[entry["digest"]])
        for digest in (entry["digest"], attestation["layers"][0]["digest"]):
            blobs[digest] = other.blobs[digest]
    ours["manifests"] += theirs["manifests"][1:]
    return MemoryBundle({**bundle.files, "index.json": to_json(ours)}, blobs)


def doors(path: Path, other: Path, folder: Path) -> dict[str, Callable[[], object]]:
    """Both commands, with the bundle first and last, and in both forms."""
    now = datetime.now(UTC)

    def merging(*paths: Path) -> Callable[[], object]:
        return lambda: merge_bundles(paths, folder / "new", Form.LAYOUT, None, None, now)

    return {
        "merge": merging(path),
        "merge first": merging(path, other),
        "merge last": merging(other, path),
        "merge twice": merging(path, path),
        "extract": lambda: extract(open_streamed(path), [BUILT], folder / "new", Form.ARCHIVE),
        "extract folder": lambda: extract(
            open_streamed(path), [BUILT], folder / "new", Form.LAYOUT
        ),
    }


def refused_everywhere(bad: MemoryBundle, good: MemoryBundle, place: str, folder: Path) -> set[str]:
    """The codes of the doors, each of which leaves nothing."""
    for name in ("bad", "good"):
        (folder / name).mkdir()
    path, other = on_disk(bad, place, folder / "bad"), on_disk(good, place, folder / "good")
    codes = set()
    for name, door in doors(path, other, folder).items():
        refused = error_of(AotcError, door)
        codes.add(refused.code)
        assert sorted(each.name for each in folder.iterdir()) == ["bad", "good"], name
    return codes


@pytest.mark.parametrize("place", ["archive", "folder"])
@pytest.mark.parametrize("change", ROOTS)
def test_a_root_that_lists_a_target_twice_or_two_programs_is_refused(
    genuine: MemoryBundle, ours: LocalSigner, tmp_path: Path, place: str, change: str
) -> None:
    documents = take_apart(genuine)
    ROOTS[change](documents)
    assert refused_everywhere(signed(documents, ours), genuine, place, tmp_path) == {"AOTC-E116"}


@pytest.mark.parametrize("place", ["archive", "folder"])
def test_attestations_about_the_other_root_are_refused(
    genuine: MemoryBundle, ours: LocalSigner, tmp_path: Path, place: str
) -> None:
    documents = take_apart(genuine)
    second_target(documents, OTHER)
    bad = attested_by_another(signed(documents, ours), genuine)
    assert refused_everywhere(bad, genuine, place, tmp_path) == {"AOTC-E114"}


def test_same_target_name_is_safe(genuine: MemoryBundle, ours: LocalSigner, tmp_path: Path) -> None:
    """A good signature of one, put beside the other, which differs in one executable, says nothing
    of it.
    """
    good = signed(take_apart(genuine), ours)
    documents = take_apart(good)
    executable = documents.profile["executable"]["digest"]
    swap_layer(documents, executable, flipped(documents.layers[executable]))
    paths = []
    for name, bundle in (("first", good), ("last", put_together(documents))):
        (tmp_path / name).mkdir()
        paths.append(on_disk(bundle, "folder", tmp_path / name))
    now, place = datetime.now(UTC), tmp_path / "new"
    for order, policy, code in (
        (paths, None, "AOTC-E051"),
        (paths[::-1], None, "AOTC-E051"),
        (paths, policy_for(ours), "AOTC-E305"),
        (paths[::-1], policy_for(ours), "AOTC-E305"),
    ):
        refused = error_of(AotcError, merge_bundles, order, place, Form.LAYOUT, policy, ours, now)
        assert refused.code == code
        assert not place.exists()


def test_what_is_merged_has_no_signature_of_its_inputs(
    genuine: MemoryBundle, ours: LocalSigner, stranger: LocalSigner, tmp_path: Path
) -> None:
    """Not even where a merge gives the very targets of one input: its root is signed anew."""
    first = on_disk(signed(take_apart(genuine), ours, stranger), "folder", tmp_path)
    place, now = tmp_path / "new", datetime.now(UTC)
    merge_bundles([first, first], place, Form.LAYOUT, policy_for(ours), None, now)
    contents, envelopes = read_unverified(open_streamed(place))
    assert (len(envelopes), list(contents.manifests)) == (0, [BUILT])
