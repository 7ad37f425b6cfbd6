"""Manifests of the right types, rightly signed, that contradict themselves: refused, never a
crash."""

from __future__ import annotations

import msgspec
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.verification.bundle_contents import begin_contents
from aotc_runtime.verification.manifest_consistency import check_consistency

from .generator.contradictions import contradict, pair
from .tampering import ACCEPTED, Documents, code_of, policy_for, signed
from .weakening import Arms, Check, outcome, remove


@pytest.mark.parametrize("kind", ["record", "namedtuple"])
def test_a_structure_with_good_names_is_accepted(
    kind: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.manifest["entry_points"]["predict"]["parameters"][0]["tree"] = pair(kind, "T", "a")
    assert code_of(signed(documents, ours), policy_for(ours), host) == ACCEPTED


@pytest.mark.parametrize(
    "name",
    [
        "keys that are no uint32",
        "keys whose shape is no shape of data",
        "input keys of another shape",
        "output keys of another shape",
    ],
)
def test_keys_are_refused_by_the_rule_on_keys(name: str, documents: Documents) -> None:
    contradict(documents, name)
    findings = check_consistency(msgspec.convert(documents.manifest, BundleManifest), "here")
    assert any(finding.expected.startswith("key data: uint32") for finding in findings)


def test_it_is_this_check_that_refuses_them(arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    def attack(arms: Arms) -> str:
        contradict(arms.documents, "an argument that is no tensor")
        return arms.signed()

    call = 'raise_if(check_consistency(manifest, f"{source.name} {what}"))'
    check = Check(begin_contents, (call, "pass"), attack, "AOTC-E118")
    assert outcome(attack, arms) == check.code
    remove(check, monkeypatch)
    assert outcome(attack, arms) == ACCEPTED
