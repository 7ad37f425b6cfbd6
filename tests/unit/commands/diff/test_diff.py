"""Two bundles are compared in everything they say, and rules decide what of it matters."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save_file

from aotc.base.errors import UsageError
from aotc.base.evidence import LibraryWork
from aotc.bundle.read.bundle_review import Review, ReviewedTarget, review
from aotc.commands.diff.bundle_diff import Change, Diff, diff
from aotc.commands.diff.diff_rules import parse_rules, violations
from aotc.commands.diff.diff_text import diff_document, diff_lines
from aotc.pipeline.build import build
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.shard_layout import mesh_of
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import Root
from tests.conftest import Once, manifest_of

NOW = datetime.now(UTC)
V3 = "cpu-x86-64-v3"
PLACES = [f"f[n={n}] for {V3}" for n in (4, 16)]

PROGRAM = """
import jax.numpy as jnp

def f(p, x):
    y = x @ p["w"]
    return jnp.tanh(y) + 1
"""

MANIFEST = manifest_of("""
name = "compared"
[weights.p]
source = "p.safetensors"
[dimensions.n]
range = [1, 64]
profiles = [4, 16]
[entry_points.f]
function = "compared:f"
bind = { p = "p" }
inputs.x = { shape = ["n", 8], dtype = "float32" }
tolerance = { rtol = 1e-4, atol = 1e-4 }
""")

type Make = Callable[..., Review]


def named(digest: str) -> Root:
    """The root of another bundle."""
    return Root(oci_layout.Entry(mediaType=oci_layout.INDEX_TYPE, digest=digest, size=1), ())


@pytest.fixture(scope="module")
def make(once: Once) -> Make:
    def run(old: str = "", new: str = "", *, weight: float = 1.0) -> Review:
        """The bundle with one piece of the program or the manifest changed."""
        assert old in PROGRAM + MANIFEST

        def fill(folder: Path) -> None:
            (folder / "compared.py").write_text(PROGRAM.replace(old, new) if old else PROGRAM)
            (folder / "compared.toml").write_text(MANIFEST.replace(old, new) if old else MANIFEST)
            save_file({"w": np.full((8, 8), weight, "float32")}, folder / "p.safetensors")
            build(folder / "compared.toml", output=folder / "compared.aotb")

        change = sha256(repr((old, new, weight)).encode()).hexdigest()[:8]
        folder = once(f"compared-{change}", fill)
        return review(open_bundle(folder / "compared.aotb"), None, NOW)

    return run


@pytest.fixture(scope="module")
def base(make: Make) -> Review:
    return make()


@pytest.fixture(scope="module")
def larger(base: Review, make: Make) -> Diff:
    """One operation more, on a line of its own."""
    changed = make("    return jnp.tanh(y) + 1", "    z = jnp.sin(y)\n    return jnp.tanh(z) + 1")
    return diff(base, changed, lines_max=60)


def changes(found: Diff, kind: str) -> list[tuple[str, str, str]]:
    return [(c.where, c.before, c.after) for c in found.changes if c.kind == kind]


def kinds(found: Diff) -> list[str]:
    return list(dict.fromkeys(change.kind for change in found.changes))


def broken(found: Diff, *rules: str) -> list[str]:
    findings = list(violations(parse_rules(rules), found))
    assert {finding.code for finding in findings} <= {"AOTC-E976"}
    return [finding.found for finding in findings]


def changed_records(old: Review, **what: Any) -> Review:
    """The same bundle, as if every executable had come to something else."""

    def record(profile: bundle_manifest.ProfileRecord) -> bundle_manifest.ProfileRecord:
        return msgspec.structs.replace(profile, **{k: v(profile) for k, v in what.items()})

    target = old.targets[V3]
    entry_points = {
        name: msgspec.structs.replace(entry, profiles=tuple(map(record, entry.profiles)))
        for name, entry in target.manifest.entry_points.items()
    }
    manifest = msgspec.structs.replace(target.manifest, entry_points=entry_points)
    return replace(old, root=named("other"), targets={V3: replace(target, manifest=manifest)})


def test_a_bundle_is_the_same_as_itself(base: Review) -> None:
    found = diff(base, base, lines_max=9)
    assert found.is_same and found.changes == () and broken(found) == []
    assert list(diff_lines(found))[-1] == "the same root digest and targets; blobs were not hashed"
    assert diff_document(found)["same"] is True


def test_an_operation_more_is_shown_in_every_stage(larger: Diff) -> None:
    assert changes(larger, "operations") == [
        (f"{place} stablehlo.sine", "-", "1") for place in PLACES
    ]
    for kind in ("module", "executable", "fixture"):
        assert [where for where, _, _ in changes(larger, kind)] == PLACES
    assert changes(larger, "coverage") == [
        (f"f for {V3} compared.py f", "2 of 2 lines", "3 of 3 lines")
    ]
    assert "weights" not in kinds(larger) and "toolchain" not in kinds(larger)
    assert "evidence" not in kinds(larger), "what of it is another is told by itself"


def test_the_text_of_a_module_shows_the_line_that_is_new_and_no_renumbering(larger: Diff) -> None:
    assert [module.places for module in larger.modules] == [(place,) for place in PLACES]
    for module in larger.modules:
        marked = [line for line in module.lines if line[0] in "+-"]
        assert len(marked) == 1 and "stablehlo.sine" in marked[0]


def test_the_text_of_modules_is_bounded(base: Review, larger: Diff) -> None:
    found = diff(base, larger.after, lines_max=2)
    assert [(len(m.lines), m.left_out) for m in found.modules] == [
        (2, len(m.lines) - 2) for m in larger.modules
    ]


def test_other_values_of_weights_are_no_other_module(base: Review, make: Make) -> None:
    found = diff(base, make(weight=2.0), lines_max=9)
    ((where, before, after),) = changes(found, "weights")
    assert where == f"{V3} p values" and before != after
    assert set(kinds(found)) <= {"weights", "fixture", "parity", "ulp"}
    assert len(broken(found, "weights")) == 1 and broken(found, "module,toolchain") == []


def test_other_interface_field_and_version_are_named(base: Review, make: Make) -> None:
    between = MANIFEST[MANIFEST.index('version = "1.0.0"') : MANIFEST.index("rtol = 1e-4")]
    other = between.replace("1.0.0", "1.0.1")
    found = diff(base, make(f"{between}rtol = 1e-4", f"{other}rtol = 1e-3"), lines_max=9)
    assert changes(found, "interface") == [(f"f for {V3} tolerance.rtol", "0.0001", "0.001")]
    assert changes(found, "identity") == [("version", "1.0.0", "1.0.1")]
    assert sorted(kinds(found)) == ["identity", "interface"]


def test_profiles_that_one_of_them_lacks_are_named(base: Review, make: Make) -> None:
    found = diff(base, make("profiles = [4, 16]", "profiles = [4, 32]"), lines_max=9)
    assert changes(found, "profiles") == [
        (f"f for {V3} n=16", "there", "-"),
        (f"f for {V3} n=32", "-", "there"),
    ]
    assert not changes(found, "module"), "executables of other sizes are not compared"


def test_a_copy_without_a_target_is_not_the_same(base: Review) -> None:
    whole = replace(base, targets={**base.targets, "more": base.targets[V3]})
    extracted = replace(base, absent=("more",))
    found = diff(whole, extracted, lines_max=9)
    assert not found.is_same and broken(found, "any") and broken(found, "targets")
    assert changes(found, "targets") == [("more", "there", "absent from this copy")]
    assert diff(extracted, extracted, lines_max=9).is_same


def test_other_line_numbers_are_the_same_bundle(base: Review, make: Make) -> None:
    found = diff(base, make("\ndef f", "\n# A comment.\n\ndef f"), lines_max=9)
    assert found.is_same and kinds(found) == []


def test_other_proofs_of_a_policy_are_another_parity_and_no_other_interface(base: Review) -> None:
    found = diff(proven(base, "0.0"), proven(base, "0.5"), lines_max=9)
    assert [(c.kind, c.where) for c in found.changes] == [("parity", f"f for {V3} n proof errors")]
    other = diff(proven(base, "0.0", fill="inf"), proven(base, "0.0"), lines_max=9)
    assert [(c.kind, c.where) for c in other.changes] == [("parity", f"f for {V3} n proof")]


def test_errors_within_the_tolerance_are_one_line_of_text(base: Review) -> None:
    worse = bundle_manifest.ParityRan(
        max_abs="0.25", max_rel="0.5", ulp_max=7, elements=1, worst=""
    )
    found = diff(base, changed_records(base, parity=lambda _: worse), lines_max=9)
    number = len(found.changes)
    assert number > 3 and set(kinds(found)) == {"parity", "ulp"}
    lines = list(diff_lines(found))[2:]
    assert lines[0] == "rounding" and len(lines) == 2
    assert lines[1].startswith(
        f"  {number} errors against plain JAX within the tolerance; the largest"
    )
    assert "-> 2.5e-01" in lines[1]
    assert len(diff_document(found)["changes"]) == number


CHANGED: dict[str, tuple[str, Any]] = {
    "format_version": ("identity", "9.9"),
    "name": ("identity", "other"),
    "version": ("identity", "9.9.9"),
    "target": ("targets", {"threads": 77}),
    "requires": ("targets", {"devices": 2}),
    "built_with": ("toolchain", {"jax": "9.9"}),
    "accepts_jaxlib": ("toolchain", ("9.9",)),
    "dimensions": ("interface", {"n": {"minimum": 1, "maximum": 65, "multiple_of": 1}}),
    "weights": ("weights", {}),
    "entry_points": ("interface", {}),
    "compilation": (
        "compilation",
        bundle_manifest.Compilation(without_device=True, left_out=(), claims={}),
    ),
    "evidence": ("evidence", msgspec.UNSET),
    "mesh": ("targets", mesh_of({"data": 2})),
    "assets": ("assets", {"a": bundle_manifest.Asset(kind="file", files={})}),
}
"""By field of a manifest: the kind of its changes, and another value, or fields of one."""


def with_manifest(old: Review, **change: Any) -> Review:
    """The same bundle, with some of its manifest changed."""
    target = old.targets[V3]
    fields = {
        name: msgspec.structs.replace(getattr(target.manifest, name), **value)
        if isinstance(value, dict) and isinstance(getattr(target.manifest, name), msgspec.Struct)
        else value
        for name, value in change.items()
    }
    manifest = msgspec.structs.replace(target.manifest, **fields)
    contents = msgspec.structs.replace(old.contents, manifests={V3: manifest})
    targets = {V3: replace(target, manifest=manifest)}
    return replace(old, root=named(repr(change)), contents=contents, targets=targets)


@pytest.mark.parametrize("field", bundle_manifest.BundleManifest.__struct_fields__)
def test_every_field_of_a_manifest_is_compared(base: Review, field: str) -> None:
    kind, value = CHANGED[field]
    other = with_manifest(base, **{field: value})
    for found in (diff(base, other, lines_max=9), diff(other, base, lines_max=9)):
        assert kinds(found) == [kind]
        assert broken(found, kind) and broken(found, "any") and not broken(found, "flops")


def test_what_a_target_requires_is_told_beside_what_it_is(base: Review) -> None:
    for field, place in (("requires", f"{V3} requires devices"), ("target", f"{V3} threads")):
        found = diff(base, with_manifest(base, **{field: CHANGED[field][1]}), lines_max=9)
        assert [where for where, _, _ in changes(found, "targets")] == [place]


def test_any_change_is_told_by_how_many_there_are_and_one_kind_by_its_places(base: Review) -> None:
    found = diff(base, with_manifest(base, target={"threads": 77}), lines_max=9)
    assert broken(found, "any") == ["1 of targets"]
    assert broken(found, "targets") == [f"{V3} threads 8 -> 77"]


def with_weights(old: Review, **change: Any) -> Review:
    weights = old.targets[V3].manifest.weights["p"]
    return with_manifest(old, weights={"p": msgspec.structs.replace(weights, **change)})


def test_everything_about_weights_is_compared(base: Review) -> None:
    weights = base.targets[V3].manifest.weights["p"]
    (tensor,), (blob,) = weights.tensors, weights.blobs
    other = msgspec.structs.replace(blob, digest="sha256:" + "0" * 64)
    renamed = msgspec.structs.replace(tensor, name="v")
    spread = msgspec.structs.replace(tensor, sharding=(("data",), ()))
    for change, told in (
        ({"origin": "init"}, [("p origin", "source", "init")]),
        ({"tensors": (renamed,)}, [("p v", "-", "float32[8,8]"), ("p w", "float32[8,8]", "-")]),
        ({"tensors": (spread,)}, [("p w", "float32[8,8]", "float32[8,8] cut data, -")]),
        ({"blobs": (other,)}, [("p values", blob.digest[:19], other.digest[:19])]),
    ):
        found = diff(base, with_weights(base, **change), lines_max=9)
        assert changes(found, "weights") == [(f"{V3} {where}", *shown) for where, *shown in told]
    (two, shown) = (with_weights(base, blobs=(blob, other)), "values (of 2 files 1 are the same)")
    ((where, before, after),) = changes(diff(base, two, lines_max=9), "weights")
    assert where == f"{V3} p {shown}" and before == blob.digest[:19] != after


@pytest.mark.parametrize(
    ("field", "kind", "place"),
    [("weights", "weights", f"{V3} p"), ("entry_points", "interface", f"f for {V3}")],
)
def test_what_one_of_them_lacks_is_named(base: Review, field: str, kind: str, place: str) -> None:
    gone = with_manifest(base, **{field: {}})
    assert changes(diff(base, gone, lines_max=9), kind) == [(place, "there", "-")]
    assert changes(diff(gone, base, lines_max=9), kind) == [(place, "-", "there")]


def test_numbers_that_one_of_them_does_not_tell_are_beyond_any_limit(base: Review) -> None:
    def not_run(_: bundle_manifest.ProfileRecord) -> Any:
        return bundle_manifest.ParityNotRun(reason="another processor")

    after = replace(changed_records(base, parity=not_run), root=named("after"))
    found = diff(base, after, lines_max=9)
    assert set(kinds(found)) == {"parity", "ulp"}
    assert all(b.isdigit() and a == "-" for _, b, a in changes(found, "ulp"))
    assert ("ran", "not run here") in {(b, a) for _, b, a in changes(found, "parity")}
    assert broken(found, "ulp>+1000") and broken(diff(after, base, lines_max=9), "ulp>+1000")
    assert not broken(found, "flops>+0") and diff_document(found)["changes"][-1]["after"] == "-"


def with_evidence(old: Review, **entry: Any) -> Review:
    """The same bundle, with something else in the evidence of its entry point."""
    target = old.targets[V3]
    assert target.evidence is not None
    changed = msgspec.structs.replace(target.evidence.entry_points["f"], **entry)
    evidence = msgspec.structs.replace(target.evidence, entry_points={"f": changed})
    return replace(old, root=named(repr(entry)), targets={V3: replace(target, evidence=evidence)})


def profiles_of(old: Review) -> tuple[Any, ...]:
    evidence = old.targets[V3].evidence
    assert evidence is not None
    return evidence.entry_points["f"].profiles


def test_a_bundle_that_tells_less_is_another_one(base: Review) -> None:
    manifest = msgspec.structs.replace(base.targets[V3].manifest, evidence=msgspec.UNSET)
    none = replace(base, root=named("blind"), targets={V3: ReviewedTarget(manifest, None)})
    less = [msgspec.structs.replace(p, compiled=msgspec.UNSET) for p in profiles_of(base)]
    silent = with_evidence(base, profiles=tuple(less))
    numbers = {"custom_calls", "fusions"}
    for blind, expected in ((none, {"evidence", *numbers}), (silent, numbers)):
        for found in (diff(base, blind, lines_max=9), diff(blind, base, lines_max=9)):
            assert set(kinds(found)) == expected


def test_results_that_were_recorded_elsewhere_are_another_parity(base: Review) -> None:
    other = with_evidence(base, reference="recorded")
    (change,) = changes(diff(base, other, lines_max=9), "parity")
    assert change == (f"f for {V3} recorded results", "false", "true")


def placed(old: Review, *places: LibraryWork) -> Review:
    """The same bundle, as if the first executable's work was done by these."""
    (profile, *rest) = profiles_of(old)
    compiled = msgspec.structs.replace(profile.compiled, placement=places)
    return with_evidence(old, profiles=(msgspec.structs.replace(profile, compiled=compiled), *rest))


def test_who_does_the_work_is_compared_and_how_many_kernels_is_a_number(base: Review) -> None:
    one, two = (placed(base, LibraryWork(name="XLA", steps={"kernel": n})) for n in (1, 2))
    assert "placement" not in kinds(diff(one, two, lines_max=9))
    library = LibraryWork(name="LAPACK", steps={"lapack_spotrf_ffi": 1})
    found = diff(one, placed(base, library), lines_max=9)
    assert changes(found, "placement") == [(f"{PLACES[0]} LAPACK lapack_spotrf_ffi", "-", "1")]


def test_the_size_of_all_blobs_is_a_number(base: Review) -> None:
    larger = replace(base, root=named("larger"), sizes={**base.sizes, "more": 5})
    ((where, before, after),) = changes(diff(base, larger, lines_max=9), "artifact_size")
    assert where == "bundle" and int(after) - int(before) == 5


def proven(old: Review, max_abs: str, fill: str = "nan") -> Review:
    """The same bundle, as if its dimension were padded, with this error."""
    trial = bundle_manifest.Trial(
        sizes={"n": 3}, profile={"n": 4}, fill=fill, max_abs=max_abs, max_rel="0.0", ulp_max=0
    )
    policy = bundle_manifest.Pad(fill={}, mask="", length="", proof=(trial,))
    target = old.targets[V3]
    entry = msgspec.structs.replace(target.manifest.entry_points["f"], out_of_profile={"n": policy})
    manifest = msgspec.structs.replace(target.manifest, entry_points={"f": entry})
    targets = {V3: replace(target, manifest=manifest)}
    return replace(old, root=named(max_abs + fill), targets=targets)


NUMBERS: list[tuple[str, str, int, int, str, bool]] = [
    ("cost", "flops", 1000, 1100, "flops", True),
    ("cost", "flops", 1000, 1100, "flops>+9%", True),
    ("cost", "flops", 1000, 1100, "flops>+10%", False),
    ("cost", "flops", 1000, 1100, "flops>+9", True),
    ("cost", "flops", 1000, 1100, "flops>+1000", False),
    ("cost", "flops", 1000, 1100, "flops<-1%", False),
    ("cost", "flops", 1000, 1100, "temp_memory", False),
    ("cost", "flops", 1000, 1100, "temp_memory>+0%", False),
    ("cost", "flops", 1000, 1100, "any", True),
    ("cost", "flops", 1000, 1100, "none", False),
    # A part is no approximation.
    ("cost", "flops", 100, 129, "flops>+29%", False),
    ("cost", "flops", 100, 129, "flops>+28.9%", True),
    ("cost", "flops", 100, 129, "flops>+29.1%", False),
    ("memory", "temp_bytes", 10_000, 8_000, "temp_memory<-1kB", True),
    ("memory", "temp_bytes", 10_000, 8_000, "temp_memory<-2kB", False),
    ("memory", "temp_bytes", 10_000, 8_000, "temp_memory<-19%", True),
    ("memory", "temp_bytes", 10_000, 8_000, "temp_memory<-20%", False),
    ("memory", "temp_bytes", 8_000, 10_000, "temp_memory>+1KiB", True),
    # What was none grows by any part.
    ("memory", "temp_bytes", 0, 1, "temp_memory>+900%", True),
]
"""A part of a profile, its field, both values, a rule, and whether it is met."""


@pytest.mark.parametrize(("part", "field", "old", "new", "rule", "is_met"), NUMBERS)
def test_a_number_may_change_as_much_as_its_rule_says(
    base: Review, part: str, field: str, old: int, new: int, rule: str, is_met: bool
) -> None:
    def having(number: int) -> Review:
        def change(profile: bundle_manifest.ProfileRecord) -> Any:
            return msgspec.structs.replace(getattr(profile, part), **{field: number})

        return replace(changed_records(base, **{part: change}), root=named(str(number)))

    assert bool(broken(diff(having(old), having(new), lines_max=9), rule)) is is_met


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        (("flops>5%", "flops>+5kB", "module>+1%", "flops>+", "flops>+5%%"), "flops>+5%"),
        (("", "temp_memory>+1XB"), "flops>+5%"),
        (("flop", "flps>+5%"), "did you mean `flops`?"),
    ],
)
def test_what_is_no_rule_is_refused(rules: tuple[str, ...], hint: str) -> None:
    for rule in rules:
        with pytest.raises(UsageError) as caught:
            parse_rules([rule])
        assert caught.value.code == "AOTC-E056" and hint in str(caught.value)


def test_bundles_that_differ_in_nothing_that_is_known_still_differ(base: Review) -> None:
    found = diff(base, replace(base, root=named("sha256:other")), lines_max=9)
    assert found.changes == () and not found.is_same
    assert broken(found) == ["sha256:other"]
    assert broken(found, "module") == []


def test_changes_that_are_the_same_in_several_places_are_one_line(larger: Diff) -> None:
    lines = list(diff_lines(larger))
    both = f"f[n=4], f[n=16] for {V3}"
    assert f"  {both}: stablehlo.sine 0 -> 1" in lines
    cut = [line for line, whole in zip(diff_lines(larger, 30), lines, strict=True) if line != whole]
    assert {*map(len, cut)} == {30}
    assert len([line for line in lines if "stablehlo.sine 0" in line]) == 1
    assert f"  f[n=4] for {V3}: " in "\n".join(lines), "digests differ, and keep a line each"


def test_operators_that_changed_share_a_line(larger: Diff) -> None:
    (sine, *_) = [each for each in larger.changes if each.kind == "operations"]
    fewer = replace(sine, path="stablehlo.add", before="2", after="-")
    lines = diff_lines(replace(larger, changes=(sine, fewer)))
    assert f"  {sine.place}: stablehlo.sine 0 -> 1, stablehlo.add 2 -> 0" in [*lines]


def test_a_change_in_many_executables_names_entry_points_and_how_many(larger: Diff) -> None:
    every = [
        f"{label} for {target}" for target in ("a", "b") for label in ("f[n=1]", "f[n=2]", "g")
    ]
    change = Change("fusions", "", "", "1", "2", (1, 2))
    known = replace(larger, changes=tuple(replace(change, place=place) for place in every))
    assert "  f (4 executables), g (2 executables): 1 -> 2  (+100.0 %)" in list(diff_lines(known))
    few = replace(known, changes=known.changes[:2])
    assert "  f[n=1], f[n=2] for a: 1 -> 2  (+100.0 %)" in list(diff_lines(few))
    across = replace(known, changes=(known.changes[0], known.changes[3]))
    assert "  f[n=1] for a, b: 1 -> 2  (+100.0 %)" in list(diff_lines(across))
