"""Each rule of a policy: what lies inside is accepted, what lies outside is refused by its code."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aotc_runtime.loader import verify_report
from aotc_runtime.schema.host_facts import NOT_INSTALLED, VERSION, Accelerator
from aotc_runtime.schema.trust_policy import (
    Accepts,
    Identity,
    MetricRule,
    Revoked,
    SizeLimits,
    TimestampAuthority,
    TrustedKey,
    TrustPolicy,
)
from aotc_runtime.verification import verify_bundle
from aotc_runtime.verification.bundle_examination import examine, verify
from aotc_runtime.verification.policy_rules import check_fallbacks

from .provenances import BUILDER, DAY, ENDORSEMENT, NOW, SOURCE, a_build, declaring, key_of
from .tampering import (
    ACCEPTED,
    ROLES,
    MemoryBundle,
    code_of,
    host_with,
    put_together,
    roles,
    root_digest,
    second_target,
)
from .workbench import Workbench

SECOND = timedelta(seconds=1)
ZEROS = "sha256:" + "0" * 64
CERTIFICATE = "https://aotc.dev/certificate/v1"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, []),
        ({"not_before": NOW}, []),
        ({"not_after": NOW}, []),
        ({"not_before": NOW - DAY, "not_after": NOW + DAY}, []),
        ({"not_before": NOW + SECOND}, ["AOTC-E311"]),
        ({"not_after": NOW - SECOND}, ["AOTC-E311"]),
        ({"not_before": NOW - 3 * DAY, "not_after": NOW - 2 * DAY}, ["AOTC-E311"]),
    ],
    ids=str,
)
def test_key_window_end(window: dict[str, datetime], expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(key_of(bench.ours, **window))) == expected


def test_a_refusal_names_the_key_its_bound_and_the_clock(bench: Workbench) -> None:
    key = key_of(bench.ours, not_after=NOW - DAY, name="ci")
    (found,) = bench.findings(bench.signed(), bench.policy(key))
    assert "ci" in found.where and bench.ours.key_id[:16] in found.where
    assert "2026-11-20T12:00:00+00:00" in found.expected and "not_after" in found.expected
    assert "2026-11-21T12:00:00+00:00" in found.found and "expired" in found.found


@pytest.mark.parametrize(("days", "expected"), [(1, ACCEPTED), (-1, "AOTC-E311")])
def test_host_clock_counts_without_a_time(days: int, expected: str, bench: Workbench) -> None:
    policy = bench.policy(key_of(bench.ours, not_after=datetime.now(UTC) + days * DAY))
    assert code_of(bench.signed(), policy, bench.host) == expected


def test_threshold_names_expired_and_revoked_keys(bench: Workbench) -> None:
    ours, stranger, third = bench.ours, bench.stranger, bench.third
    bundle = bench.signed(ours, stranger, third)
    keys = (key_of(ours), key_of(stranger, not_after=NOW - DAY), key_of(third))
    policy = bench.policy(*keys, threshold=2, revoked=Revoked(keys=(third.key_id,)))
    named = {found.code: found.where.split()[-1] for found in bench.findings(bundle, policy)}
    assert named == {"AOTC-E311": stranger.key_id[:16], "AOTC-E312": third.key_id[:16]}
    assert bench.codes(bundle, msgspec.structs.replace(policy, threshold=1)) == []


def test_old_and_new_key_stand_side_by_side_until_the_old_one_expires(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = bench.policy(key_of(ours, not_after=NOW), key_of(stranger, not_before=NOW - DAY))
    old, both = bench.signed(ours), bench.signed(ours, stranger)
    assert bench.codes(old, policy) == [] == bench.codes(both, policy)
    assert bench.codes(old, policy, NOW + DAY) == ["AOTC-E311"]
    assert bench.codes(both, policy, NOW + DAY) == []


def test_a_revoked_key_never_counts_although_it_is_listed(bench: Workbench) -> None:
    policy = bench.policy(revoked=Revoked(keys=(bench.ours.key_id,)))
    (found,) = bench.findings(bench.signed(), policy)
    assert found.code == "AOTC-E312" and bench.ours.key_id in found.found


@pytest.mark.parametrize("why", ["revoked", "expired"])
def test_statements_of_keys_that_do_not_count_are_not_even_read(why: str, bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    ended = {"not_after": NOW - DAY} if why == "expired" else {}
    revoked = Revoked(keys=(stranger.key_id,) if why == "revoked" else ())
    policy = bench.policy(key_of(ours), key_of(stranger, **ended), revoked=revoked)
    bench.attested((ours, {}))
    envelope = bench.documents.envelopes[0]
    bench.attested((stranger, {}), predicate_type="unheard of")
    bench.documents.envelopes.append(envelope)
    both = put_together(bench.documents)
    assert bench.codes(both, policy) == []
    assert bench.codes(both, bench.policy(key_of(ours), key_of(stranger))) == ["AOTC-E305"]


def test_a_revoked_root_is_refused_before_anything_behind_it_is_read(bench: Workbench) -> None:
    root, bundle = root_digest(bench.documents), bench.signed()
    policy = bench.policy(revoked=Revoked(roots=(root,)))
    assert bench.codes(bundle, policy) == ["AOTC-E313"]
    assert bench.codes(bundle.with_blob(root, b""), policy) == ["AOTC-E313"]
    assert bench.codes(bundle, bench.policy(revoked=Revoked(roots=(ZEROS,)))) == []


@pytest.mark.parametrize("role", ROLES)
def test_a_revoked_blob_is_refused_and_named_with_its_role(role: str, bench: Workbench) -> None:
    bundle = bench.signed()
    digest = roles(bundle)[role]
    (found,) = bench.findings(bundle, bench.policy(revoked=Revoked(blobs=(ZEROS, digest))))
    named = {"envelope": "attestation", "empty config": "attestation"}.get(role, role)
    assert (found.code, found.found) == ("AOTC-E314", digest)
    assert found.where.startswith(named)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"minimum_build_time": NOW}, []),
        ({"minimum_build_time": NOW + SECOND}, ["AOTC-E315"]),
        ({"accepts": Accepts(builders=("https://else.org", BUILDER))}, []),
        ({"accepts": Accepts(builders=("https://else.org",))}, ["AOTC-E316"]),
        ({"accepts": Accepts(builders=(BUILDER + "/",))}, ["AOTC-E316"]),
        ({"accepts": Accepts(sources=(ZEROS, SOURCE))}, []),
        ({"accepts": Accepts(sources=(ZEROS,))}, ["AOTC-E317"]),
        ({"accepts": Accepts(sources=(SOURCE.replace("sha256", "blake3"),))}, ["AOTC-E317"]),
        (
            {"minimum_build_time": NOW + DAY, "accepts": Accepts(builders=("https://else.org",))},
            ["AOTC-E315", "AOTC-E316"],
        ),
    ],
    ids=str,
)
def test_build_rules_decide(rules: dict[str, Any], expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.attested(), bench.policy(**rules)) == expected


RULES: dict[str, Any] = {
    "minimum_build_time": NOW - DAY,
    "accepts": Accepts(builders=(BUILDER,), sources=(SOURCE,)),
}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (a_build(), []),
        (a_build(finished=None), ["AOTC-E315"]),
        (a_build(builder=""), ["AOTC-E316"]),
        (a_build(sources=()), ["AOTC-E317"]),
        (a_build(sources=(SOURCE, "gitCommit:" + "a" * 40)), ["AOTC-E317"]),
        (ENDORSEMENT, ["AOTC-E316"]),
        ({}, ["AOTC-E106"]),
        (a_build() | {"runDetails": {"builder": {}}}, ["AOTC-E106"]),
    ],
    ids=["all", "time", "builder", "no source", "one source more", "sign", "none", "malformed"],
)
def test_mute_build_fails(build: dict[str, Any], expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.attested((bench.ours, build)), bench.policy(**RULES)) == expected


def test_every_build_account_must_satisfy_rules_endorsements_none(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = bench.policy(key_of(ours), key_of(stranger), threshold=2, **RULES)
    assert bench.codes(bench.attested((ours, a_build()), (stranger, ENDORSEMENT)), policy) == []
    disputed = bench.attested((ours, a_build()), (stranger, a_build(builder="https://x.org")))
    (found,) = bench.findings(disputed, policy)
    assert found.code == "AOTC-E316" and found.where.endswith("attestation 2")
    assert found.found == "https://x.org"


def test_what_an_unknown_key_says_of_the_build_counts_for_nothing(bench: Workbench) -> None:
    ours, stranger, policy = bench.ours, bench.stranger, bench.policy(**RULES)
    bundle = bench.attested((ours, a_build(finished=None)), (stranger, a_build()))
    assert bench.codes(bundle, policy) == ["AOTC-E315"]
    bundle = bench.attested((ours, a_build()), (stranger, a_build(finished=None)))
    assert bench.codes(bundle, policy) == []


@pytest.mark.parametrize(
    "stated", [{"not_after": NOW}, {"not_before": NOW}, {"holder": "x"}, {"builders": (BUILDER,)}]
)
def test_what_is_said_of_a_key_is_said_once(stated: dict[str, Any], bench: Workbench) -> None:
    policy = bench.policy(key_of(bench.ours, **stated), key_of(bench.ours))
    assert bench.codes(bench.attested(), policy) == ["AOTC-E309"]


def test_roles_that_no_key_may_have_are_refused(bench: Workbench) -> None:
    bundle = bench.attested()
    certifier = (key_of(bench.stranger, builders=()),)
    assert bench.codes(bundle, bench.policy(certifiers=certifier)) == ["AOTC-E309"]
    assert bench.codes(bundle, bench.policy(key_of(bench.ours, builders=()))) == ["AOTC-E309"]


@pytest.mark.xla
def test_the_policy_narrows_the_runtimes_and_never_widens_them(bench: Workbench) -> None:
    bundle, host = bench.signed(), bench.host
    both = Accepts(jaxlib=("0.0.1", host.jaxlib), aotc_runtime=(VERSION,))
    assert bench.codes(bundle, bench.policy(accepts=both)) == []
    neither = bench.policy(accepts=Accepts(jaxlib=("0.0.1",), aotc_runtime=("0.0.0",)))
    found = bench.findings(bundle, neither)
    assert [f.where.split(".")[-1] for f in found] == ["jaxlib", "aotc_runtime"]
    assert {f.code for f in found} == {"AOTC-E318"} and host.jaxlib in found[0].found
    other = host_with(host, jaxlib="0.0.1")
    assert code_of(bundle, neither, other) == "AOTC-E318"
    wider = bench.policy(accepts=Accepts(jaxlib=("0.0.1",)))
    assert code_of(bundle, wider, other) == "AOTC-E401"


NEEDED = {"kinds": ["d"], "memory_bytes": 0, "plugin": "p", "accepts_plugin": ["1"]}
ENGINE = Accelerator(platform="iree", devices=1, kinds=("d",), memory_bytes=0, plugin="1")


def test_what_it_says_of_jaxlib_is_asked_where_jaxlib_may_run_something(bench: Workbench) -> None:
    policy = bench.policy(accepts=Accepts(jaxlib=("0.0.1",)))
    without = host_with(bench.host, jaxlib=NOT_INSTALLED, accelerators=(ENGINE,))
    both = host_with(bench.host, jaxlib="0.12.0", accelerators=(ENGINE,))
    first = bench.documents.manifest
    first["target"]["platform"] = first["requires"]["platform"] = "cpu"
    first["requires"].pop("device", None)
    second_target(bench.documents)
    second = bench.documents.targets[1].manifest
    second["target"]["platform"] = second["requires"]["platform"] = "iree"
    second["requires"]["device"] = NEEDED
    mixed = bench.signed()
    found = [code_of(mixed, policy, facts) for facts in (without, both)]
    assert found == [ACCEPTED, "AOTC-E318"]
    for facts in (without, both):
        assert code_of(mixed, policy, facts, first["target"]["name"]) == "AOTC-E318"
        assert code_of(mixed, policy, facts, "other") == ACCEPTED


@pytest.mark.parametrize(
    ("declared", "furthest", "refused"),
    [
        ("fail", "fail", False),
        ("pad", "fail", True),
        ("pad", "pad", False),
        ("split", "pad", True),
        ("compile", "split", True),
        ("compile", "compile", False),
        ("compile", None, True),
        ("split", None, False),
    ],
)
def test_fallback_is_limited(declared: str, furthest: Any, refused: bool, bench: Workbench) -> None:
    policy = bench.policy(furthest_fallback=furthest)
    found = list(check_fallbacks([declaring(bench.documents, declared)], policy))
    assert [finding.code for finding in found] == ["AOTC-E319"] * refused
    assert all("predict" in finding.where and finding.found == declared for finding in found)


def test_a_bundle_is_asked_how_far_it_falls_back(bench: Workbench) -> None:
    split = {"batch": {"policy": "split", "proof": []}}
    bench.documents.manifest["entry_points"]["predict"]["out_of_profile"] = split
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy(furthest_fallback="split")) == []
    assert bench.codes(bundle, bench.policy(furthest_fallback="pad")) == ["AOTC-E319"]


def test_a_bundle_that_states_finite_numbers_is_refused_under_ieee(bench: Workbench) -> None:
    strict = bench.policy(numerics="ieee")
    assert bench.codes(bench.signed(), strict) == []
    bench.documents.manifest["entry_points"]["predict"]["numerics"] = "finite"
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    (refused,) = bench.findings(bundle, strict)
    assert (refused.code, refused.found) == ("AOTC-E336", 'numerics = "finite"')


@pytest.mark.xla
def test_only_targets_of_engines_that_the_policy_accepts_are_chosen(bench: Workbench) -> None:
    second_target(bench.documents, "beads")
    other = bench.documents.targets[-1].manifest
    needed = {"kinds": ["beads"], "memory_bytes": 0, "plugin": "abacus", "accepts_plugin": ["1.0"]}
    other["target"] |= {"platform": "abacus"}
    other["requires"] |= {"platform": "abacus", "isa": [], "device": needed}
    two, now = bench.signed(), NOW.timestamp()
    beads = Accelerator("abacus", devices=1, kinds=("beads",), plugin="1.0")
    facts = host_with(bench.host, accelerators=(beads,))

    def chosen(*engines: str) -> str:
        return verify(
            two, bench.policy(engines=engines or None), facts, now
        ).manifest.target.platform

    assert (chosen(), chosen("abacus", "xla"), chosen("xla")) == ("cpu", "cpu", "cpu")
    assert chosen("abacus") == "abacus"
    assert bench.codes(two, bench.policy(engines=("abacus",)))[0] == "AOTC-E501"
    named = bench.documents.manifest["target"]["name"]
    assert examine(two, bench.policy(engines=("xla",)), facts, now, named).findings == ()
    verdict = examine(two, bench.policy(engines=("xla",)), facts, now, "beads")
    assert [finding.code for finding in verdict.findings] == ["AOTC-E322"]
    assert "host" not in verdict.gates


@pytest.mark.xla
def test_bundle_without_accepted_engine_is_refused(bench: Workbench) -> None:
    (found,) = bench.findings(bench.signed(), bench.policy(engines=("iree", "abacus")))
    assert (found.code, found.found) == ("AOTC-E322", "xla")
    assert found.expected == "iree or abacus (engines)"
    more = bench.policy(engines=("iree",), accepts=Accepts(aotc_runtime=("0.0.0",)))
    assert bench.codes(bench.signed(), more) == ["AOTC-E322", "AOTC-E318"]


def test_sizes_up_to_the_limits_are_accepted_and_one_more_is_refused(bench: Workbench) -> None:
    bundle = bench.signed()
    sizes = [len(data) for data in bundle.blobs.values()]
    exact = {"blob_bytes": max(sizes), "bundle_bytes": sum(sizes), "blobs": len(sizes)}
    assert bench.codes(bundle, bench.policy(limits=SizeLimits(**exact))) == []
    for name, size in exact.items():
        policy = bench.policy(limits=SizeLimits(**{name: size - 1}))
        (found,) = bench.findings(bundle, policy)
        assert found.code == "AOTC-E320" and str(size) in found.found
        assert str(size - 1) in found.expected and f"limits.{name}" in found.expected
    all_at_once = SizeLimits(**{name: size - 1 for name, size in exact.items()})
    assert bench.codes(bundle, bench.policy(limits=all_at_once)) == ["AOTC-E320"] * 3


def test_limits_are_asked_before_any_blob_is_read(genuine: MemoryBundle, bench: Workbench) -> None:
    asked: list[str] = []

    class Watched(MemoryBundle):
        def blob(self, digest: str) -> memoryview | None:
            data = super().blob(digest)
            asked.append(digest)
            # Of no bytes, but as long as the blob: reading it would find another digest.
            return memoryview(bytes(len(data))) if data is not None else None

    watched = Watched(genuine.files, genuine.blobs)
    assert bench.codes(watched, bench.policy(limits=SizeLimits(blobs=1))) == ["AOTC-E320"]
    assert sorted(asked) == sorted(genuine.blobs)


def test_a_certificate_is_neither_counted_nor_refused(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    alone = bench.attested((ours, {"passed": True}), predicate_type=CERTIFICATE)
    (found,) = bench.findings(alone, bench.policy())
    assert found.code == "AOTC-E304" and CERTIFICATE in found.found
    certificate = bench.documents.envelopes[0]
    bench.attested((ours, {}))
    bench.documents.envelopes.append(certificate)
    assert bench.codes(put_together(bench.documents), bench.policy()) == []
    bench.attested((stranger, {"passed": True}), predicate_type=CERTIFICATE)
    bench.documents.envelopes.append(certificate)
    both = bench.policy(key_of(ours), key_of(stranger), threshold=2)
    assert bench.codes(put_together(bench.documents), both) == ["AOTC-E304"]


def test_a_certificate_of_another_bundle_is_refused(bench: Workbench) -> None:
    bench.attested((bench.ours, {}), predicate_type=CERTIFICATE)
    certificate = bench.documents.envelopes[0]
    bench.documents.manifest["version"] = "9.9.9"
    bench.attested((bench.ours, {}))
    bench.documents.envelopes.append(certificate)
    assert bench.codes(put_together(bench.documents), bench.policy()) == ["AOTC-E305"]


def test_every_field_of_a_policy_is_asked_for_by_a_rule() -> None:
    """A field that decides nothing would promise what nobody keeps."""
    folder = Path(verify_bundle.__file__).parent
    modules = [*folder.glob("*.py"), Path(verify_report.__file__)]
    source = "".join(module.read_text("utf-8") for module in modules)
    tables = (TrustPolicy, TrustedKey, Identity, TimestampAuthority, Revoked, Accepts, SizeLimits)
    for table in (*tables, MetricRule):
        for field in table.__struct_fields__:
            assert re.search(rf"\.{field}\b", source) or field == "schema", field


EVALUATION = {
    "metric": "top1",
    "better": "higher",
    "samples": 100,
    "data": f"sha256:{'0' * 64}",
    "reference": "0.98",
    "result": {
        "status": "ran",
        "value": "0.97",
        "low": "0.9",
        "high": "0.99",
        "method": "wilson",
        "drop": "0.01",
    },
}


CODE = EVALUATION["data"]


def evaluated(bench: Workbench, **changed: object) -> None:
    """State an evaluation of the entry point."""
    bench.documents.manifest["entry_points"]["predict"]["evaluations"] = [EVALUATION | changed]


@pytest.mark.parametrize(
    ("changed", "rules", "refused"),
    [
        ({}, {"predict.top1": 0.97}, False),
        ({}, {"predict.top1": 0.971}, True),
        ({}, {"predict.top5": 0.5}, True),
        ({}, {"other.top1": 0.5}, True),
        ({"result": {"status": "not-run-here", "reason": "no"}}, {"predict.top1": 0.1}, True),
        ({"metric": "mae", "better": "lower"}, {"predict.mae": 0.97}, False),
        ({"metric": "mae", "better": "lower"}, {"predict.mae": 0.96}, True),
        ({}, {"predict.top1": 0.9, "predict.auc": 0.9}, True),
        ({}, {"predict.top1": MetricRule(minimum=0.97, samples=100)}, False),
        ({}, {"predict.top1": MetricRule(minimum=0.97, samples=101)}, True),
        ({}, {"predict.top1": MetricRule(minimum=0.98)}, True),
        ({}, {"predict.top1": MetricRule(maximum=1.0)}, True),
        ({"metric": "mae", "better": "lower"}, {"predict.mae": MetricRule(minimum=0.1)}, True),
        ({"metric": "mae", "better": "lower"}, {"predict.mae": MetricRule(maximum=0.96)}, True),
        ({"metric": "mae", "better": "lower"}, {"predict.mae": MetricRule(maximum=0.97)}, False),
    ],
)
def test_a_metric_that_the_policy_requires(
    changed: dict[str, object], rules: dict[str, object], refused: bool, bench: Workbench
) -> None:
    evaluated(bench, **changed)
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    assert bench.codes(bundle, bench.policy(metrics=rules)) == ["AOTC-E337"] * refused


@pytest.mark.parametrize(
    ("changed", "rule", "title", "found", "hint"),
    [
        (
            {},
            "predct.top1",
            "metric names an unknown",
            "predict.top1",
            "did you mean `predict.top1`?",
        ),
        ({}, "predict.top1", "too few samples", "top1 0.97 over 100 samples", "evaluate with more"),
        (
            {"metric": "m:acc", "code": CODE},
            "predict.acc",
            "not recorded",
            "predict.m:acc",
            "`predict.m:acc`?",
        ),
        (
            {"metric": "mae", "better": "lower"},
            "other.accuracy",
            "unknown entry point",
            "predict.mae",
            "correct the entry",
        ),
        (None, "predct.top1", "unknown entry point", "no metrics", "correct the entry point"),
        (None, "predict.top1", "was not recorded", "no metrics", "add an `evaluation`"),
    ],
)
def test_a_metric_that_is_missing_names_those_of_the_bundle(
    changed: dict[str, object] | None,
    rule: str,
    title: str,
    found: str,
    hint: str,
    bench: Workbench,
) -> None:
    if changed is not None:
        evaluated(bench, **changed)
    rules = {rule: MetricRule(minimum=0.1, samples=101)}
    (finding,) = bench.findings(bench.signed(), bench.policy(metrics=rules))
    assert (finding.code, finding.found) == ("AOTC-E337", found)
    assert title in finding.title and hint in finding.hint


@pytest.mark.parametrize(
    "changed",
    [
        {"better": "lower"},
        {"metric": "rmse"},
        {"metric": "mine:score"},
        {"code": f"sha256:{'0' * 64}"},
        {"result": {**EVALUATION["result"], "value": "0.995"}},  # type: ignore[dict-item]
    ],
)
def test_contradicting_evaluation(changed: dict[str, object], bench: Workbench) -> None:
    """Otherwise a builder could turn a rule around: the least error in place of the largest."""
    evaluated(bench, **changed)
    assert bench.codes(bench.signed(), bench.policy()) == ["AOTC-E118"]


def test_each_metric_is_stated_once(bench: Workbench) -> None:
    better = {**EVALUATION, "result": {"status": "not-run-here", "reason": "no"}}
    entry_point = bench.documents.manifest["entry_points"]["predict"]
    for stated in ([EVALUATION, better], []):
        entry_point["evaluations"] = stated
        assert bench.codes(bench.signed(), bench.policy()) == ["AOTC-E118"]


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), -float("inf")])
def test_a_limit_that_is_no_number(limit: float, bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(metrics={"predict.top1": limit})) == [
        "AOTC-E309"
    ]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "", "0.9 "])
def test_values_of_metrics_are_finite_numbers(value: str, bench: Workbench) -> None:
    evaluated(bench, reference=value)
    assert bench.codes(bench.signed(), bench.policy()) == ["AOTC-E101"]


def hold(bench: Workbench, dtype: str, tensor: str = "hidden_2/kernel") -> None:
    """State the element type of a weight."""
    for each in bench.documents.manifest["weights"]["params"]["tensors"]:
        if each["name"] == tensor:
            each["dtype"] = dtype


def state(bench: Workbench, **precision: str) -> None:
    """State the precision of every executable."""
    for profile in bench.documents.manifest["entry_points"]["predict"]["profiles"]:
        profile["precision"] = precision


@pytest.mark.parametrize(
    ("dtype", "tensor", "accepted", "refused"),
    [
        ("float32", "hidden_2/kernel", ["float32"], False),
        ("float32", "hidden_2/kernel", ["int8", "int4"], True),
        ("bfloat16", "hidden_2/kernel", ["float32"], False),
        ("int8", "hidden_2/kernel", ["int8"], False),
        ("int8", "hidden_2/kernel", ["float32", "int8"], False),
        ("int8", "hidden_2/kernel", ["float32", "int4"], True),
        ("uint8", "hidden_2/kernel", ["float32"], True),
        ("int4", "hidden_2/kernel", ["float32", "int8"], True),
        ("uint4", "hidden_2/kernel", ["int4"], False),
        ("int8", "hidden_2/bias", ["float32"], False),
    ],
)
def test_a_precision_that_the_policy_does_not_accept(
    dtype: str, tensor: str, accepted: list[str], refused: bool, bench: Workbench
) -> None:
    hold(bench, dtype, tensor)
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    policy = bench.policy(precisions=tuple(accepted))
    found = bench.findings(bundle, policy)
    assert [each.code for each in found] == ["AOTC-E338"] * refused
    assert all(each.expected == f"{' or '.join(accepted)} (precisions)" for each in found)


def test_the_name_of_a_precision_does_not_change_what_counts(bench: Workbench) -> None:
    hold(bench, "int4")
    state(bench, name="float32", weights="int4")
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    strict = bench.policy(precisions=("float32", "int8"))
    (found,) = bench.findings(bundle, strict)
    assert (found.code, found.found) == ("AOTC-E338", "int4")


def test_weights_that_are_constants_of_an_executable_count(bench: Workbench) -> None:
    hold(bench, "int8")
    for profile in bench.documents.manifest["entry_points"]["predict"]["profiles"]:
        weights = [each for each in profile["arguments"] if each["from"] == "weight"]
        profile["arguments"] = [each for each in profile["arguments"] if each["from"] != "weight"]
        profile["tuned"] = {
            "choice": "default",
            "options": {},
            "captured": weights,
            "candidates": [],
            "rounds": 1,
            "margin": "0.1",
            "processor": "any",
            "threads": 1,
            "jaxlib": "0.12.0.1",
        }
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    strict = bench.policy(precisions=("float32",))
    assert bench.codes(bundle, strict) == ["AOTC-E338"]


@pytest.mark.parametrize(
    ("held", "stated"), [("float32", "int8"), ("int4", "int8"), ("bfloat16", "bfloat16")]
)
def test_a_stated_precision_without_such_weights(held: str, stated: str, bench: Workbench) -> None:
    hold(bench, held)
    state(bench, name="small", weights=stated)
    profiles = bench.documents.manifest["entry_points"]["predict"]["profiles"]
    assert bench.codes(bench.signed(), bench.policy()) == ["AOTC-E118"] * len(profiles)


@pytest.mark.parametrize(
    ("weights", "activations", "accepted"),
    [("int8", "static", ("int8", "static")), ("bfloat16", "bfloat16", ("bfloat16",))],
)
def test_rounded_factors_count_and_need_their_format_version(
    weights: str, activations: str, accepted: tuple[str, ...], bench: Workbench
) -> None:
    hold(bench, weights)
    state(bench, name="small", weights=weights, activations=activations)
    manifest = bench.documents.manifest
    assert {*bench.codes(bench.signed(), bench.policy())} == {"AOTC-E118"}
    manifest["format_version"] = "1.1"
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy(precisions=accepted)) == []
    (found,) = bench.findings(bundle, bench.policy(precisions=("float32", "int8", "dynamic")))
    assert (found.code, found.found) == ("AOTC-E338", activations)


@pytest.mark.parametrize("stated", [{"weights": "int8"}, {"name": "", "weights": "int8"}])
def test_a_precision_has_a_name_and_a_known_element_type(
    stated: dict[str, str], bench: Workbench
) -> None:
    for each in (stated, {"name": "small", "weights": "int2"}):
        state(bench, **each)
        assert bench.codes(bench.signed(), bench.policy()) == ["AOTC-E101"]
