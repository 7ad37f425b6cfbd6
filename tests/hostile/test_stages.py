"""The stages of verification: none is skipped, and what may be done while weights are hashed."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import aotc_runtime
from aotc_runtime import IntegrityError, TrustPolicy
from aotc_runtime.base.digest import begin_hashing
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.parallel_calls import ParallelCalls
from aotc_runtime.engines.xla.xla_client import XlaDevice
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import Accepts
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification import bundle_contents, verify_bundle
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.verify_bundle import VerifiedBlob, accept_bundle, require_compatible
from tests.conftest import ROOT
from tests.refusals import error_of

from .tampering import ACCEPTED, MemoryBundle, digest_of, host_with, in_memory, roles


def flipped_in(bundle: MemoryBundle, role: str) -> MemoryBundle:
    digest = roles(bundle)[role]
    data = bundle.blobs[digest]
    return bundle.with_blob(digest, data[:-1] + bytes([data[-1] ^ 1]))


def handed_out(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> tuple[str, Mapping[str, VerifiedBlob]]:
    """The outcome, and the blobs that were handed out before it was known."""
    blobs: Mapping[str, VerifiedBlob] = {}
    try:
        with accept_bundle(bundle, policy, time.time()) as accepted:
            compatible = require_compatible(accepted, host)
            blobs = compatible.executables
            compatible.finish()
    except AotcError as error:
        return error.code, blobs
    return ACCEPTED, blobs


def test_only_hashed_are_given(genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts) -> None:
    outcome, blobs = handed_out(genuine, policy, host)
    assert outcome == ACCEPTED and roles(genuine)["executable"] in blobs
    assert all(digest_of(bytes(blob.data)) == digest for digest, blob in blobs.items())
    assert roles(genuine)["weights"] not in blobs and roles(genuine)["fixture"] not in blobs


@pytest.mark.parametrize("role", ["executable", "module", "fixture"])
def test_nothing_is_handed_out_of_a_bundle_with_another_small_blob(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, role: str
) -> None:
    assert handed_out(flipped_in(genuine, role), policy, host) == ("AOTC-E201", {})


def test_other_weights_fail(genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts) -> None:
    outcome, blobs = handed_out(flipped_in(genuine, "weights"), policy, host)
    assert outcome == "AOTC-E201" and blobs


def refusals(policy: TrustPolicy, host: HostFacts) -> dict[str, tuple[TrustPolicy, HostFacts]]:
    """Policies and hosts that refuse the genuine bundle, by the code."""
    accepts = Accepts(aotc_runtime=("0.0.0",))
    return {
        "AOTC-E306": (msgspec.structs.replace(policy, name="other"), host),
        "AOTC-E318": (msgspec.structs.replace(policy, accepts=accepts), host),
        "AOTC-E502": (policy, host_with(host, isa=frozenset())),
    }


@pytest.mark.parametrize(
    ("code", "gates"),
    [
        ("AOTC-E306", ("digests",)),
        ("AOTC-E318", ("digests",)),
        ("AOTC-E502", ("digests", "policy")),
    ],
)
def test_other_weights_come_before_what_policy_and_host_refuse(
    code: str,
    gates: tuple[str, ...],
    genuine: MemoryBundle,
    policy: TrustPolicy,
    host: HostFacts,
    begun: list[Hashing],
) -> None:
    """A report names the gates before the one that stops, where all hashing has ended."""
    refusing = refusals(policy, host)[code]
    assert handed_out(genuine, *refusing) == (code, {})
    assert is_over(begun[0])
    verdict = examine(genuine, *refusing, time.time())
    assert code in [finding.code for finding in verdict.findings]
    before = ("framing", "attestations", "signatures")
    assert verdict.gates == (*before, *gates)
    bad = flipped_in(genuine, "weights")
    assert handed_out(bad, *refusing) == ("AOTC-E201", {})
    verdict = examine(bad, *refusing, time.time())
    assert [finding.code for finding in verdict.findings] == ["AOTC-E201"]
    assert verdict.gates == before


type Hashing = ParallelCalls[memoryview, str]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Hashing]:
    """Every hashing of weights that begins. Those of the small bundle wait until they are finished
    or stopped.
    """
    hashings: list[Hashing] = []

    def begin(data: Sequence[memoryview], threads: int) -> Hashing:
        hashings.append(begin_hashing(data, threads))
        return hashings[-1]

    monkeypatch.setattr(bundle_contents, "begin_hashing", begin)
    return hashings


def is_over(hashing: Hashing) -> bool:
    return not hashing._waiting and not any(thread.is_alive() for thread in hashing._threads)


def test_weights_are_hashed_while_executables_are_handed_out_and_no_longer_than_asked_for(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, begun: list[Hashing]
) -> None:
    with accept_bundle(genuine, policy, time.time()) as accepted:
        compatible = require_compatible(accepted, host)
        (hashing,) = begun
        assert compatible.executables and not is_over(hashing)
    assert is_over(hashing)
    error_of(IntegrityError, compatible.finish)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_hashing_ends_when_the_caller_or_a_rule_of_the_policy_fails(
    error: type[BaseException],
    genuine: MemoryBundle,
    policy: TrustPolicy,
    begun: list[Hashing],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(error), accept_bundle(genuine, policy, time.time()):
        assert not is_over(begun[0])
        raise error
    assert is_over(begun[0])

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(verify_bundle, "check_policy", fail)
    error_of(error, accept_bundle, genuine, policy, time.time())
    assert is_over(begun[1])


STAGES = {
    verify_bundle.parse: "Parsed",
    verify_bundle.collect: "Attested",
    verify_bundle.authenticate: "Signed",
    verify_bundle.unpack: "Unpacked",
    verify_bundle.accept: "Accepted",
    verify_bundle.evaluate: "Evaluated",
    verify_bundle.require: "Compatible",
    verify_bundle.Compatible.finish: "VerifiedBundle",
}
"""The one maker of each stage, in their order."""


def test_a_load_does_what_the_page_says_in_its_order() -> None:
    """docs/reference/trust-policy.md, Order of a load."""
    page = (ROOT / "docs" / "reference" / "trust-policy.md").read_text("utf-8")
    section = page[page.index("### Order of a load") : page.index("### Notes to the steps")]
    stated = re.findall(r"^\| (\w) \| `(\w+)` \|", section, re.MULTILINE)
    assert "".join(letter for letter, _ in stated) == "abcdefgh"
    calls = [name for _, name in stated]
    assert calls[1:4:2] == ["accept_bundle", "require_compatible"] and calls.index(
        "finish"
    ) < calls.index("make_ready")
    module = importlib.import_module("aotc_runtime.loader.bundle_loader")
    made = called_by(module, "load")
    assert [name for name in made if name in calls] == calls


def called_by(module: ModuleType, function: str) -> list[str]:
    """Return what a function calls, in the order in which calls end.

    In place of another function of its module, what that one calls. Calls in a lambda are left
    out, since they belong to the function that gets it.
    """
    own = {"policy_of", "load_accepted"}
    calls = [
        (
            node.end_lineno or 0,
            node.end_col_offset or 0,
            getattr(node.func, "id", getattr(node.func, "attr", "")),
        )
        for node in called_now(ast.parse(inspect.getsource(getattr(module, function))))
        if isinstance(node, ast.Call)
    ]
    names = [name for *_, name in sorted(calls)]
    return [
        inner for name in names for inner in (called_by(module, name) if name in own else [name])
    ]


def called_now(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, but for what is in lambdas."""
    yield node
    for below in ast.iter_child_nodes(node):
        if not isinstance(below, ast.Lambda):
            yield from called_now(below)


def calls_in(node: ast.AST) -> set[str]:
    return {
        each.func.id
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }


def test_each_stage_is_made_by_one_function_of_the_one_before() -> None:
    module = ast.parse(Path(verify_bundle.__file__ or "").read_text("utf-8"))
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    made = {node.name: sorted(calls_in(node) & {*STAGES.values()}) for node in functions}
    assert {name: made[name] for name in made if made[name]} == {
        maker.__name__: [stage] for maker, stage in STAGES.items()
    } | {"finish": ["VerifiedBundle"]}
    before = "BlobSource"
    for maker, stage in STAGES.items():
        hints = maker.__annotations__
        if maker is not verify_bundle.Compatible.finish:
            assert next(iter(hints.values())) == before, maker.__name__
        assert hints["return"] == stage
        before = stage


def test_other_weights_are_refused_before_anything_runs(
    digits_bundle: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, policy = digits_bundle
    bad = tmp_path / "bad"
    for name, data in flipped_in(in_memory(path), "weights").members().items():
        (bad / name).parent.mkdir(parents=True, exist_ok=True)
        (bad / name).write_bytes(data)
    assert open_bundle(bad).digests()
    ran: list[Any] = []
    monkeypatch.setattr(XlaDevice, "execute", lambda *call: ran.append(call))
    caught = error_of(IntegrityError, aotc_runtime.load, bad, trust=policy)
    assert caught.code == "AOTC-E201" and not ran
