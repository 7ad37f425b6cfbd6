"""The writes of every command: what they start from, and what may be there when they stop."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from aotc.base.stages import Bundle
from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner, generate_key_pair, load_signer
from aotc.bundle.trust import trust_files
from aotc.bundle.trust.trust_text import write_policy
from aotc.bundle.write import atomic_files
from aotc.bundle.write.bundle_writer import Assembled, Blob, Form, TargetParts, assemble, pack
from aotc.commands.channel import channel_repository
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import merge_bundles
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.trust_policy import Channel, TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.channel import channel_client

OLD, NEW, NONE = "old", "new", "none"
BILL = b"the second result of one command"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)

SIGNERS = (LocalSigner.ephemeral(), LocalSigner.ephemeral())
"""Made before anything is traced: the same signer adds the same signature."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that writes. prepare, run, state: of a folder.  states: those that are whole."""

    prepare: Callable[[Path], None]
    run: Callable[[Path], object]
    state: Callable[[Path], str]
    states: tuple[str, ...] = (OLD, NEW)


def operations(bundle: Path) -> dict[str, Operation]:
    """By name. bundle: a good one."""
    assembled = assemble([_small(bundle)])
    arrays = [b"PK\x05\x06", bytes(18), bytes(20_000)]

    def packed(form: Form, name: str) -> Callable[[Path], Bundle]:
        return lambda folder: pack(folder / name, form, assembled)

    def signed(name: str) -> Callable[[Path], object]:
        return lambda folder: endorse(folder / name, SIGNERS[0])

    return {
        "sign a file": Operation(
            packed(Form.ARCHIVE, "b.aotb"), signed("b.aotb"), _signed("b.aotb")
        ),
        "sign a folder": Operation(packed(Form.LAYOUT, "b"), signed("b"), _signed("b")),
        "sign a folder where names cannot be exchanged": Operation(
            packed(Form.LAYOUT, "b"), _in_two_steps(signed("b")), _signed("b"), (OLD, NEW, "aside")
        ),
        "build a new file": Operation(
            lambda folder: None, packed(Form.ARCHIVE, "b.aotb"), _there("b.aotb"), (NONE, NEW)
        ),
        "build a new folder": Operation(
            lambda folder: None, packed(Form.LAYOUT, "b"), _there("b"), (NONE, NEW)
        ),
        "build a new file from files": Operation(
            _weights_in_files(assembled), _from_files(assembled), _there("b.aotb"), (NONE, NEW)
        ),
        "build a folder beside one": Operation(
            packed(Form.LAYOUT, "a"), packed(Form.LAYOUT, "b"), _there("b"), (NONE, NEW)
        ),
        "build two files": Operation(
            lambda folder: None, _with_a_bill(assembled), _beside_its_bill, (NONE, "a bill", NEW)
        ),
        "build over a file": Operation(
            _then(packed(Form.ARCHIVE, "b.aotb"), signed("b.aotb")),
            packed(Form.ARCHIVE, "b.aotb"),
            _unsigned("b.aotb"),
        ),
        "build over a folder": Operation(
            _then(packed(Form.LAYOUT, "b"), signed("b")), packed(Form.LAYOUT, "b"), _unsigned("b")
        ),
        "merge": Operation(
            packed(Form.ARCHIVE, "a.aotb"),
            lambda folder: merge_bundles(
                [folder / "a.aotb"], folder / "b.aotb", Form.ARCHIVE, None, None, LONG_AGO
            ),
            _there("b.aotb"),
            (NONE, NEW),
        ),
        "extract": Operation(
            packed(Form.ARCHIVE, "a.aotb"),
            lambda folder: extract(
                open_bundle(folder / "a.aotb"),
                [*assembled.manifests],
                folder / "b.aotb",
                Form.ARCHIVE,
            ),
            _there("b.aotb"),
            (NONE, NEW),
        ),
        "keygen": Operation(
            lambda folder: None,
            lambda folder: generate_key_pair(folder / "ci", None),
            _key_pair,
            (NONE, "a private key", NEW),
        ),
        "trust init": Operation(
            lambda folder: generate_key_pair(folder / "ci", None) and None,
            lambda folder: write_policy(folder / "trust.toml", "digits", [folder / "ci.pub"], 1),
            _policy,
            (NONE, NEW),
        ),
        "publish in a channel": Operation(
            _with_channel, lambda folder: _publish(folder, "2"), _names_in_channel
        ),
        "trust add-key": Operation(
            _with_policy,
            lambda folder: trust_files.add_key(
                folder / "trust.toml", folder / "next.pub", "keys", {"name": "next"}
            ),
            lambda folder: (OLD, NEW)[len(_read_policy(folder).keys) - 1],
        ),
        "trust revoke": Operation(
            _with_policy,
            lambda folder: trust_files.revoke(
                folder / "trust.toml", [str(folder / "ci.pub")], [], []
            ),
            lambda folder: (OLD, NEW)[len(_read_policy(folder).revoked.keys)],
        ),
        "write arrays": Operation(
            lambda folder: (folder / "x.npz").write_bytes(b"old") and None,
            lambda folder: atomic_files.write_atomically(folder / "x.npz", arrays),
            lambda folder: {b"old": OLD, b"".join(arrays): NEW}.get(
                (folder / "x.npz").read_bytes(), "half"
            ),
        ),
    }


def _small(bundle: Path) -> TargetParts:
    """The parts of a bundle with one profile, so that few files are written."""
    contents, _ = read_unverified(open_bundle(bundle))
    manifest = next(iter(contents.manifests.values()))
    name, entry_point = next(iter(manifest.entry_points.items()))
    profile = entry_point.profiles[0]
    small = msgspec.structs.replace(entry_point, profiles=(profile,))
    weights = [ref.digest for set_ in manifest.weights.values() for ref in set_.blobs]
    blobs = [
        *(Blob(contents.blobs[digest], oci_layout.WEIGHTS_TYPE) for digest in weights),
        Blob(contents.blobs[profile.module.digest], oci_layout.MODULE_TYPE),
        Blob(contents.blobs[profile.executable.digest], oci_layout.EXECUTABLE_TYPE),
        Blob(contents.blobs[profile.fixture.digest], oci_layout.FIXTURE_TYPE),
    ]
    changed = msgspec.structs.replace(manifest, entry_points={name: small}, evidence=msgspec.UNSET)
    return TargetParts(changed, blobs)


def _weights_in_files(assembled: Assembled) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for digest, blob in assembled.blobs.items():
            if blob.media_type == oci_layout.WEIGHTS_TYPE:
                (folder / digest[7:]).write_bytes(blob.data)

    return write


def _from_files(assembled: Assembled) -> Callable[[Path], Bundle]:
    """Pack weights that lie in files, as a build does."""

    def run(folder: Path) -> Bundle:
        blobs = {
            digest: replace(blob, file=folder / digest[7:])
            if (folder / digest[7:]).exists()
            else blob
            for digest, blob in assembled.blobs.items()
        }
        return pack(folder / "b.aotb", Form.ARCHIVE, replace(assembled, blobs=blobs))

    return run


def _with_a_bill(assembled: Assembled) -> Callable[[Path], Bundle]:
    def run(folder: Path) -> Bundle:
        with atomic_files.prepare_files({folder / "b.json": BILL}) as put_in_place:
            return pack(folder / "b.aotb", Form.ARCHIVE, assembled, before=put_in_place)

    return run


def _beside_its_bill(folder: Path) -> str:
    bundle, bill = folder / "b.aotb", folder / "b.json"
    if bill.exists() and bill.read_bytes() != BILL:
        return "half"
    if not bundle.exists():
        return "a bill" if bill.exists() else NONE
    return NEW if bill.exists() and _envelopes(bundle) == 0 else "half"


def _then(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        for step in steps:
            step(folder)

    return run


def _in_two_steps(run: Callable[[Path], object]) -> Callable[[Path], object]:
    """As on a file system, or a kernel, that cannot exchange two names."""

    def without(folder: Path) -> object:
        exchange = atomic_files.exchange
        atomic_files.exchange = lambda one, other: False
        try:
            return run(folder)
        finally:
            atomic_files.exchange = exchange

    return without


def _envelopes(path: Path) -> int:
    return len(read_unverified(open_bundle(path))[1])


def _signed(name: str) -> Callable[[Path], str]:
    def state(folder: Path) -> str:
        if not (folder / name).exists():
            (kept,) = folder.glob(f".{name}.*.old/layout")
            return "aside" if _envelopes(kept) == 0 else "half"
        return (OLD, NEW)[_envelopes(folder / name)]

    return state


def _with_channel(folder: Path) -> None:
    keys = {signer.key_id: signer.public_pem() for signer in SIGNERS[:1]}
    roles = dict.fromkeys(("root", "targets", "snapshot", "timestamp"), (keys, 1))
    channel_repository.create(folder / "channel", roles, SIGNERS[:1], datetime.now(UTC), 365)
    _publish(folder, "1")


def _publish(folder: Path, version: str) -> None:
    named = channel_repository.Named("production/digits", version, b"an index")
    with channel_repository.changing(folder / "channel") as found:
        found.publish(named, SIGNERS[:1], SIGNERS[0], datetime.now(UTC), 7)


def _names_in_channel(folder: Path) -> str:
    """As a host that sees the channel for the first time."""
    with TemporaryDirectory() as state:
        source = str(folder / "channel")
        channel = Channel(
            name="production", source=source, root_file=f"{source}/1.root.json", state=state
        )
        current = channel_client.ask(channel, folder, ["digits"])
    return {"1": OLD, "2": NEW}[current.entries["digits"].version]


def _unsigned(name: str) -> Callable[[Path], str]:
    return lambda folder: (NEW, OLD)[_envelopes(folder / name)]


def _there(name: str) -> Callable[[Path], str]:
    return lambda folder: (
        NEW if (folder / name).exists() and _envelopes(folder / name) == 0 else NONE
    )


def _key_pair(folder: Path) -> str:
    private, public = folder / "ci.key", folder / "ci.pub"
    if not private.exists():
        return "half" if public.exists() else NONE
    if private.stat().st_mode & 0o077:
        return "readable by others"
    pem = load_signer(private, None).public_pem()
    return "a private key" if not public.exists() else NEW if public.read_text() == pem else "half"


def _with_policy(folder: Path) -> None:
    for name in ("ci", "next"):
        generate_key_pair(folder / name, None)
    write_policy(folder / "trust.toml", "digits", [folder / "ci.pub"], 1)


def _read_policy(folder: Path) -> TrustPolicy:
    return read_policy(folder / "trust.toml")


def _policy(folder: Path) -> str:
    path = folder / "trust.toml"
    return NEW if path.exists() and len(read_policy(path).keys) == 1 else NONE


def whole(operation: Operation, folder: Path) -> str:
    """The state, or what is wrong with it."""
    try:
        found = operation.state(folder)
    except (AotcError, OSError, ValueError) as error:
        return f"half: {error}"
    return found


def litter(folder: Path) -> list[str]:
    """Names that no reader asks for."""
    return sorted(path.name for path in folder.rglob(".*"))


def fresh(folder: Path, template: Path) -> Path:
    """A copy of what an operation starts from."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    return folder
