"""Cost of what nobody signed, however it is made.

Each attestation is read before it is known who vouches for the bundle, so reading all of them is
bounded.
"""

import base64
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aotc.bundle.sign.signer import KeyType, generate_key_pair
from aotc_runtime.base import limits
from aotc_runtime.formats.oci_layout import SIGSTORE_TYPE
from tests.conftest import Bundle

from .archives import on_disk
from .doors import toolchain
from .identities import IDENTITY, ISSUER, Sigstore
from .tampering import (
    EMPTY,
    IN_TOTO,
    MANIFEST,
    MemoryBundle,
    digest_of,
    in_memory,
    statement_about,
    to_json,
)

BYTES_MAX = 64 * 2**20
SECONDS_MAX = 2.0
"""Over the good bundle, of processor time. On a quiet machine every attack takes less than one."""

MARKS = limits.ATTESTATION_MARKS_MAX


class Cost(NamedTuple):
    bytes: int
    seconds: float
    code: int


class Scale:
    """Runs doors in processes forked from one that has imported everything."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.amplification"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def cost(self, door: str, *arguments: str | Path) -> Cost:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([door, *map(str, arguments)]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer is not None, f"{door} was ended: it took too long"
        return Cost(*answer)


@pytest.fixture(scope="module")
def scale() -> Iterator[Scale]:
    made = Scale()
    yield made
    made.process.communicate()
    assert made.process.returncode == 0


@pytest.fixture(scope="module")
def whole(digits_bundle: Bundle) -> MemoryBundle:
    return in_memory(digits_bundle[0])


def root_of(bundle: MemoryBundle) -> dict[str, Any]:
    return json.loads(bundle.files["index.json"])["manifests"][0]


def signatures(count: int, first: int = 0) -> list[dict[str, str]]:
    """By nobody, each another one; with an S below the order of the curve, so that what is signed
    has to be hashed to find out.
    """
    made = ((first + number).to_bytes(32) + bytes(32) for number in range(count))
    return [{"sig": base64.b64encode(signature).decode()} for signature in made]


def envelope(payload: bytes, count: int = 1, first: int = 0, more: bytes = b"") -> bytes:
    """more: JSON of another field."""
    document = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": IN_TOTO,
        "signatures": signatures(count, first),
    }
    return to_json(document) if not more else to_json(document)[:-1] + b',"more":' + more + b"}"


def with_attestations(
    bundle: MemoryBundle, *envelopes: bytes, times: int = 1, annotations: bytes = b"{}"
) -> MemoryBundle:
    """The bundle with these beside its own, each listed so many times. annotations: JSON."""
    index = json.loads(bundle.files["index.json"])
    blobs = {**bundle.blobs, digest_of(b"{}"): b"{}"}

    def store(data: bytes) -> dict[str, Any]:
        blobs[digest_of(data)] = data
        return {"digest": digest_of(data), "size": len(data)}

    for data in envelopes:
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": EMPTY, **store(b"{}")},
            "layers": [{"mediaType": IN_TOTO, **store(data)}],
            "subject": {key: root_of(bundle)[key] for key in ("mediaType", "digest", "size")},
        }
        text = to_json(document)[:-1] + b',"annotations":' + annotations + b"}"
        index["manifests"] += [{"mediaType": MANIFEST, **store(text)}] * times
    return MemoryBundle({**bundle.files, "index.json": to_json(index)}, blobs)


def again(times: int, count: int) -> Callable[[MemoryBundle], MemoryBundle]:
    """One envelope, listed so many times, with so many signatures."""
    return lambda good: with_attestations(good, envelope(b"x" * 12_500_000, count), times=times)


def keys(count: int) -> bytes:
    return b"{" + b",".join(b'"a key like %d":""' % number for number in range(count)) + b"}"


def annotated(good: MemoryBundle) -> MemoryBundle:
    return with_attestations(good, envelope(b"x"), annotations=keys(2_500_000))


def unknown_field(good: MemoryBundle) -> MemoryBundle:
    more = b'["' + b'","' * (16 * 2**20 // 3 - 1000) + b'"]'
    return with_attestations(good, envelope(b"x", more=more))


def index_of_lists(good: MemoryBundle) -> MemoryBundle:
    text = good.files["index.json"][:-1] + b',"more":[' + b"[]," * 1_300_000 + b"0]}"
    return good.with_file("index.json", text)


def statements(fill: Callable[[int], bytes], count: int) -> Callable[[MemoryBundle], MemoryBundle]:
    """As many envelopes as fit, each with a statement of as many values as it may have.

    fill: JSON of the values of the n-th statement.
    """

    def make(good: MemoryBundle) -> MemoryBundle:
        made: list[bytes] = []
        room = limits.ATTESTATIONS_BYTES_MAX - 2**17  # for those that are there
        while True:
            statement = to_json({**statement_about(root_of(good)["digest"]), "predicate": 0})
            predicate = fill(len(made))
            payload = statement.replace(b'"predicate":0', b'"predicate":' + predicate)
            made.append(envelope(payload, count))
            room -= len(made[-1]) + 1000
            if room < 0:
                return with_attestations(good, *made[:-1])

    return make


def listed(item: bytes) -> Callable[[int], bytes]:
    marks = sum(map(item.count, (b",", b":", b"[", b"{")))
    times = (limits.STATEMENT_MARKS_MAX - 100) // marks
    return lambda number: b'{"a%d":[%b0]}' % (number, item * times)


def sources(number: int) -> bytes:
    every = (b'{"digest":{"%x":"%d"}}' % (each, number) for each in range(52_000))
    return (
        b'{"buildDefinition":{"buildType":"x","resolvedDependencies":[%b]},'
        b'"runDetails":{"builder":{"id":"x"}}}' % b",".join(every)
    )


def marked(good: MemoryBundle) -> MemoryBundle:
    """As many manifests and envelopes as there may be, with as many values as they may have."""
    more = b"[" + b"[]," * (MARKS // 2 - 50) + b"0]"
    made = [envelope(b"", 1, number, more) for number in range(240)]
    fitting = limits.ATTESTATIONS_BYTES_MAX // (len(made[0]) + 20 * MARKS // 2)
    return with_attestations(good, *made[:fitting], annotations=keys(MARKS // 2 - 50))


def few_long(good: MemoryBundle) -> MemoryBundle:
    return with_attestations(good, envelope(b"x" * (limits.ENVELOPE_BYTES_MAX // 4 * 3 - 9000), 38))


def many_short(good: MemoryBundle) -> MemoryBundle:
    return with_attestations(good, *[envelope(b"x" * 500, 8, 8 * n) for n in range(250)])


TABLE: dict[str, Callable[[MemoryBundle], MemoryBundle]] = {
    "20 times an envelope of 1 signature": again(20, 1),
    "20 times an envelope of 64 signatures": again(20, 64),
    "250 times an envelope of 1 signature": again(250, 1),
    "250 times an envelope of 64 signatures": again(250, 64),
    "an attestation with 57 MB of annotations": annotated,
    "an envelope with 16 MiB of empty strings": unknown_field,
    "index.json with 4 MiB of lists": index_of_lists,
}
"""What cost up to 4.3 GB and 177 s, and was accepted at last."""

FITTING: dict[str, Callable[[MemoryBundle], MemoryBundle]] = {
    "statements of lists": statements(listed(b"[],"), 64),
    "statements of objects": statements(listed(b'{"":0},'), 64),
    "statements of strings": statements(listed(b'"",'), 64),
    "statements of sources": statements(sources, 64),
    "manifests and envelopes of values": marked,
    "signatures over a long message": few_long,
    "many signatures": many_short,
}
"""The most that is within each of the limits."""


Attacks = Callable[[str, str], Path]
"""Of an attack's name and a form."""


@pytest.fixture(scope="module")
def attack(whole: MemoryBundle, tmp_path_factory: pytest.TempPathFactory) -> Attacks:
    """On the disk, for whoever only reads it: each is made once, of up to a million parts."""
    folder = tmp_path_factory.mktemp("attacks")

    @cache
    def made(name: str, form: str) -> Path:
        place = folder / f"{name}, {form}"
        place.mkdir()
        return on_disk({**TABLE, **FITTING}[name](whole), form, place)

    return made


def over(cost: Cost, good: Cost) -> None:
    assert cost.bytes - good.bytes <= BYTES_MAX
    assert cost.seconds - good.seconds <= SECONDS_MAX


@pytest.fixture(scope="module")
def good(scale: Scale, digits_bundle: Bundle) -> Cost:
    found = scale.cost("verify", *digits_bundle)
    assert found.code == 0
    return found


@pytest.mark.parametrize("name", TABLE)
def test_what_cost_gigabytes_is_refused_before_it_costs_anything(
    name: str, attack: Attacks, scale: Scale, good: Cost, digits_bundle: Bundle
) -> None:
    cost = scale.cost("verify", attack(name, "archive"), digits_bundle[1])
    assert cost.code == 5
    over(cost, good)


@pytest.mark.parametrize("name", FITTING)
def test_the_most_that_fits_costs_64_mib_and_a_second(
    name: str, attack: Attacks, scale: Scale, good: Cost, digits_bundle: Bundle
) -> None:
    path = attack(name, "archive")
    assert path.stat().st_size < limits.ATTESTATIONS_BYTES_MAX + 2**20
    over(scale.cost("verify", path, digits_bundle[1]), good)


def material(document: Any) -> str:
    return base64.b64encode(to_json(document)).decode()


def claimed(good: MemoryBundle) -> list[dict[str, str]]:
    """Signatures by a key of nobody, with a certificate that claims to be the identity's."""
    theirs = Sigstore()
    made = []
    for _ in range(64):
        written = theirs.signed(b"x")
        (one,) = written["dsseEnvelope"]["signatures"]
        made.append({"sig": one["sig"], "sigstore": material(written["verificationMaterial"])})
    return made


def junk(document: Any, count: int) -> Callable[[MemoryBundle], list[dict[str, str]]]:
    return lambda good: [{**each, "sigstore": material(document)} for each in signatures(count)]


CERTIFICATE = {"rawBytes": "AA=="}
MATERIALS: dict[str, Callable[[MemoryBundle], list[dict[str, str]]]] = {
    "nothing": junk({}, 64),
    "many entries of a log": junk({"certificate": CERTIFICATE, "tlogEntries": [{}] * 12000}, 40),
    "entries of numbers": junk({"certificate": CERTIFICATE, "tlogEntries": [0] * 24000}, 40),
    "as many values as it may have": junk(
        {"certificate": CERTIFICATE, "tlogEntries": [[0] * (limits.MATERIAL_MARKS_MAX - 9)]}, 64
    ),
    "a chain": junk({"x509CertificateChain": {"certificates": [{}] * 12000}}, 40),
    "certificates that claim to be it": claimed,
}


@pytest.mark.parametrize("times", [1, 8])
@pytest.mark.parametrize("name", MATERIALS)
def test_junk_of_sigstores_costs_no_more_where_a_policy_names_identities(
    name: str, times: int, whole: MemoryBundle, scale: Scale, digits_bundle: Bundle, tmp_path: Path
) -> None:
    policy = tmp_path / "identities.toml"
    root = json.dumps(Sigstore().trusted_root())
    policy.write_text(
        digits_bundle[1].read_text("utf-8")
        + f'\n[[identities]]\nissuer = "{ISSUER}"\nidentity = "{IDENTITY}"\ntrusted_root = {root}\n'
    )
    good = scale.cost("verify", digits_bundle[0], policy)
    assert good.code == 0
    made = MATERIALS[name](whole)
    envelopes = [
        to_json(
            {
                "payload": base64.b64encode(b"x").decode(),
                "payloadType": IN_TOTO,
                "signatures": made[number::times],
            }
        )
        for number in range(times)
    ]
    path = on_disk(with_attestations(whole, *envelopes), "archive", tmp_path)
    cost = scale.cost("verify", path, policy)
    assert cost.bytes - good.bytes <= BYTES_MAX
    assert cost.seconds - good.seconds <= 1.0


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a channel beside it, in which it has all roles."""
    pair = generate_key_pair(tmp_path_factory.mktemp("key") / "k", None, KeyType.ECDSA_P256)
    channel, roles = str(pair.private.with_name("channel")), ("root", "targets", "online")
    public = [word for role in roles for word in (f"--{role}", str(pair.public))]
    assert toolchain(["channel", "init", channel, *public, "--key", str(pair.private)]) == 0
    return pair.private


WORST = ("statements of objects", "statements of sources")

Command = Callable[[Path, Path, Path], tuple[str | Path, ...]]


def about(bundle: Path) -> Path:
    """A Sigstore bundle about a bundle, by nobody."""
    with tarfile.open(bundle) as archive:
        index = json.loads(archive.extractfile("index.json").read())  # type: ignore[union-attr]
    root = index["manifests"][0]["digest"]
    document = {
        "mediaType": SIGSTORE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": ""}},
        "dsseEnvelope": json.loads(envelope(to_json(statement_about(root)))),
    }
    path = bundle.with_name(f"{bundle.name}.sigstore.json")
    path.write_bytes(to_json(document))
    return path


READING: dict[str, Command] = {
    "load": lambda bundle, policy, key: ("load", bundle, policy),
    "verify": lambda bundle, policy, key: ("command", "verify", bundle, "--trust", policy),
    "inspect": lambda bundle, policy, key: ("command", "inspect", bundle, "--json"),
    "report": lambda bundle, policy, key: ("command", "report", bundle, "-o", f"{bundle}.html"),
    "diff": lambda bundle, policy, key: ("command", "diff", bundle, bundle),
    "merge": lambda bundle, policy, key: (
        "command", "merge", bundle, "-o", f"{bundle}.merged", "--unsigned-inputs"
    ),
    "sign": lambda bundle, policy, key: ("command", "sign", bundle, "--key", key),
    "explain": lambda bundle, policy, key: ("command", "explain", bundle, "predict", "--untrusted"),
    "channel publish": lambda bundle, policy, key: (
        "command", "channel", "publish", key.with_name("channel"), bundle,
        "--channel", "production", "--trust", policy, "--key", key, "--online-key", key
    ),
    "attach": lambda bundle, policy, key: ("command", "attach", bundle, about(bundle)),
    "extract": lambda bundle, policy, key: (
        "command", "extract", bundle, "--target", "cpu-x86-64-v3", "-o", f"{bundle}.less"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("door", "form"), [*((door, "archive") for door in READING), ("load", "folder")]
)
def test_whoever_reads_attestations_does_so_within_the_same_bounds(
    door: str,
    form: str,
    whole: MemoryBundle,
    attack: Attacks,
    scale: Scale,
    key: Path,
    digits_bundle: Bundle,
    tmp_path: Path,
) -> None:
    genuine = on_disk(whole, form, tmp_path)
    good = scale.cost(*READING[door](genuine, digits_bundle[1], key))
    assert good.code == 0
    for name in (*WORST, "250 times an envelope of 64 signatures"):
        made = attack(name, form)
        folder = tmp_path / "attack"
        # Some doors write into it, or beside it.
        shutil.copytree(made.parent, folder)
        cost = scale.cost(*READING[door](folder / made.name, digits_bundle[1], key))
        assert cost.code in (0, 5, 9)
        over(cost, good)
        shutil.rmtree(folder)
