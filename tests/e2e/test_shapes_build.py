"""Policies for other sizes than the profiles': proven at build, or refused with the numbers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from plain_trials import PlainTrials

from aotc.base.errors import CaptureError, ParityError
from aotc.bundle.read.bundle_review import review
from aotc.pipeline.build import Built, build
from aotc.report.inspect_report import bundle_report
from aotc.report.report_text import print_bundle
from aotc_runtime.schema.bundle_manifest import EntryPoint, Pad, Split, TrialRan
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import manifest_of

TARGETS = Path(__file__).parents[2] / "targets"

PROGRAM = """
import functools
import jax
import jax.numpy as jnp

def unseen(function):
    def call(*given):  # as of a StableHLO file, whose operations the capture does not follow
        like = jax.tree.map(lambda each: jax.ShapeDtypeStruct(each.shape, each.dtype), given)
        return jax.export.export(jax.jit(function))(*like).call(*given)
    return functools.wraps(function)(call)

def ring(x, pos):
    return jax.lax.dynamic_update_slice(x, jnp.ones((1, 3), x.dtype), (pos, jnp.int32(0)))

def imax(a, b, mask):
    return jnp.max(jnp.where(mask, a * b, 0))

def imax_right(a, b, mask):
    return jnp.max(jnp.where(mask, a * b, -81))

@unseen
def batch_norm(x):
    return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)

def masked(x, mask, n):
    real = mask[:, None]
    p = jax.nn.softmax(jnp.where(real, x, -jnp.inf), axis=0)
    return {"p": p, "mean": jnp.where(real, x, 0).sum(0) / n}

def kept(x, keep):
    return jnp.where(keep[:, None], x, 0).sum(0)

def kept_all(x, keep):
    return keep.all() & (x[0, 0] < 9)

def left_out(x, drop):
    return jnp.where(drop[:, None], 0, x).sum(0)

def counted(x, ones):
    return jnp.where(ones[:, None] > 0, x, 0).sum(0)

@unseen
def rows(x):
    return {"y": jnp.tanh(x), "version": jnp.int32(3)}

@unseen
def drops_nan(x):
    return jnp.where(jnp.isnan(x).any(), 0.0, x)

@unseen
def drops_infinite(x):
    return jnp.where(jnp.isinf(x).any(), 0.0, x)

def alike(x):
    return (x[:, None] == x).all(2)

@unseen
def reaches_far(x):
    return jnp.where(jnp.arange(x.shape[0])[:, None] < 17, x, jnp.roll(x, 17, 0))

@unseen
def drops_equal(x):
    order = jnp.lexsort(x.T)
    again = (x[order][1:] == x[order][:-1]).all(1)
    return x.at[order[1:]].multiply(jnp.where(again, 0.0, 1.0)[:, None])

def like_padding(x):
    return alike(x).sum(1)

TRACES = []

def by_trace(x):
    TRACES.append(x)
    return x * len(TRACES)

def below_zero(x, mask):
    return jnp.where(mask[:, None], x, 0).max(0)

@unseen
def like_first(x):
    return x - x[:1]

def zeros(rows):
    return jnp.zeros((rows, 3))

@unseen
def one_scale(x):
    scale = jnp.maximum(jnp.abs(x).max(), 1e-6) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127) * scale

@unseen
def rare(x):
    return jnp.where(x.max() > 99.99, 0.0, x)

@unseen
def stops(x, t):
    return jnp.where((t == 777).any(), 0.0, x)

@unseen
def ended(x, t):
    return jnp.where((t == 777).any(1).all(), 0.0, x)

def state(rows):
    return {"seen": jnp.zeros(rows, jnp.int32), "done": jnp.zeros(rows, bool)}

@unseen
def all_done(x, s):
    return jnp.where(s["done"].all(), 0.0, x), s["seen"]

@unseen
def most_seen(x, s):
    return jnp.where(s["seen"].max() > 4, 0.0, x), s["done"]

def sorts(x, mask):
    return jnp.sort(jnp.where(mask[:, None], x, jnp.inf), axis=0)

def tied(x, y):
    return x * 2, y * 2

def tied_leaky(x, y):
    return x - x.mean(0), y

def pairs(x):
    return x.reshape(-1, 2, 3).reshape(-1, 3)

def branch(x):
    return x if x.shape[0] > 4 else -x

TABLE = jnp.sin(jnp.arange(192.0)).reshape(64, 3)

def encoder(tokens, mask):
    x = jnp.take(TABLE, tokens, axis=0)  # NaN beyond the table, as flax' Embed has it
    p = jax.nn.softmax(jnp.where(mask[None, :], x @ x.T, -jnp.inf), axis=1)
    return jnp.tanh(p @ x)

def tokens_norm(tokens, mask):
    x = jnp.take(TABLE, tokens, axis=0)
    return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)

def tokens_below_zero(tokens, mask):
    return jnp.where(mask, tokens, 0).max()

def tokens_above(tokens, mask):
    return jnp.where(mask, tokens, -127).max()

def tokens_largest(tokens, mask):
    return tokens.max()
"""

HEAD = manifest_of("""
name = "shapes"
""")

SHORT = """
[dimensions.rows]
range = [1, 4]
profiles = [4]
"""
TOKENS = """
inputs.tokens = { shape = ["rows"], dtype = "int32" }
inputs.mask = { shape = ["rows"], dtype = "bool" }
out_of_profile.rows = { policy = "pad", mask = "mask" }
fixtures."""

MANIFEST = """
schema = 1
name = "shapes"
version = "1.0.0"
targets = [{targets}]
[dimensions.rows]
range = [1, 20]
profiles = [4, 8]
[entry_points.f]
function = "program:{function}"
inputs.x = {{ shape = ["rows", 3], dtype = "float32" }}
{more}
"""

MASK = """
inputs.mask = { shape = ["rows"], dtype = "bool" }
inputs.n = { shape = [], dtype = "int32" }
out_of_profile.rows = { policy = "pad", mask = "mask", length = "n" }
"""


def entry(name: str, function: str, more: str) -> str:
    return f'[entry_points.{name}]\nfunction = "program:{function}"\n{more}\n'


def at_x(name: str, function: str, more: str) -> str:
    return entry(name, function, f'inputs.x = {{ shape = ["rows", 3], dtype = "float32" }}\n{more}')


def built(folder: Path, function: str, more: str, *targets: str) -> Built:
    named = ", ".join(f'"{target}"' for target in targets or ("cpu-x86-64-v3",))
    return built_by(folder, MANIFEST.format(function=function, more=more, targets=named))


def written(folder: Path, manifest: str) -> Path:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "manifest.toml").write_text(manifest)
    return folder / "manifest.toml"


def built_by(folder: Path, manifest: str) -> Built:
    return build(written(folder, manifest), output=folder / "b.aotb")


def entries_of(done: Built) -> Mapping[str, EntryPoint]:
    return done.bundle.manifests["cpu-x86-64-v3"].entry_points


def refused(folder: Path, function: str, more: str) -> ParityError:
    with pytest.raises(ParityError) as caught:
        built(folder, function, more)
    assert not (folder / "b.aotb").exists()
    return caught.value


def test_integers_are_padded_with_numbers_that_they_are_known_to_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "tokens.npz", tokens=np.asarray([9, 63, 2, 40], np.int32))
    said = entry("said", "encoder", f"{TOKENS}ranges = {{ tokens = [0, 63] }}")
    recorded = entry("recorded", "encoder", f'{TOKENS}file = "tokens.npz"')
    entry_points = entries_of(built_by(tmp_path, HEAD + SHORT + said + recorded))
    assert set(entry_points) == {"said", "recorded"}
    for entry_point in entry_points.values():
        policy = entry_point.out_of_profile["rows"]
        assert isinstance(policy, Pad)
        assert all(float(trial.max_abs) < 1e-5 for trial in policy.proof)
        tried = {(trial.fill, trial.inputs) for trial in policy.proof}
        assert {("largest", "low"), ("smallest", "high"), ("largest", "fixture")} <= tried


INTEGERS = {
    "tokens_norm": (0, 63, "tokens = 0"),
    "tokens_below_zero": (-9, 9, "tokens = 0"),
    "tokens_largest": (0, 1, "tokens = 1"),
    "encoder": (0, 64, "tokens = 64"),
    "tokens_above": (-128, 127, "tokens = 0"),
}
"""Of a function whose padding leaks: the lowest and highest token, and which one shows it."""


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> PlainTrials:
    entries = "".join(
        entry(name, name, f"{TOKENS}ranges = {{ tokens = [{lowest}, {highest}] }}")
        for name, (lowest, highest, _) in INTEGERS.items()
    )
    return PlainTrials(written(tmp_path_factory.mktemp("integers"), HEAD + SHORT + entries))


@pytest.mark.parametrize("function", INTEGERS)
def test_leaking_integers_are_refused_for_any_range(integers: PlainTrials, function: str) -> None:
    finding = integers.refusal(function)
    assert finding.code == "AOTC-E955"
    assert f"({INTEGERS[function][2]})" in finding.found
    assert ("beyond its table" in finding.hint) == (function == "encoder")


LONG = """
[dimensions.rows]
range = [5, 16]
profiles = [8, 16]
"""
TOLERANCE = "tolerance = { rtol = 1e-4, atol = 1e-4 }\n"

PRODUCTS = """
inputs.a = { shape = ["rows"], dtype = "int32" }
inputs.b = { shape = ["rows"], dtype = "int32" }
inputs.mask = { shape = ["rows"], dtype = "bool" }
out_of_profile.rows = { policy = "pad", mask = "mask" }
fixtures.ranges = { a = [-9, 9], b = [-9, 9] }
"""
POSITION = """
inputs.x = { shape = ["rows", 3], dtype = "float32" }
inputs.pos = { shape = [], dtype = "int32" }
out_of_profile.rows = "pad"
fixtures.ranges = { pos = [0, HIGHEST] }
"""


SIGNS = {"ring": POSITION.replace("HIGHEST", "6"), "imax": PRODUCTS}
RIGHT = {"ring": POSITION.replace("HIGHEST", "4"), "imax_right": PRODUCTS}


def signs_of(functions: Mapping[str, str]) -> str:
    entries = (entry(name, name, TOLERANCE + more) for name, more in functions.items())
    return HEAD + LONG + "".join(entries)


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> PlainTrials:
    return PlainTrials(written(tmp_path_factory.mktemp("signs"), signs_of(SIGNS)))


@pytest.mark.parametrize("function", SIGNS)
def test_leaks_hidden_by_sign_or_range_are_found(signs: PlainTrials, function: str) -> None:
    assert signs.refusal(function).code == "AOTC-E955"


def test_numbers_at_the_edges_of_their_range_pass_without_leaks(tmp_path: Path) -> None:
    entry_points = entries_of(built_by(tmp_path, signs_of(RIGHT)))
    assert set(entry_points) == set(RIGHT)
    for entry_point in entry_points.values():
        policy = entry_point.out_of_profile["rows"]
        assert isinstance(policy, Pad)
        every = {"fixture", "low", "high", "mixed", "reversed", "fill-row"}
        assert {trial.inputs for trial in policy.proof} - {"nan-row", "infinite-row"} == every


def test_padding_that_leaks_is_refused_with_size_fill_output_and_error(tmp_path: Path) -> None:
    error = refused(tmp_path, "batch_norm", 'out_of_profile.rows = "pad"')
    (finding,) = error.findings
    assert (finding.code, error.exit_code) == ("AOTC-E955", 8)
    line = next(
        number
        for number, text in enumerate((tmp_path / "manifest.toml").read_text().splitlines(), 1)
        if text.startswith("out_of_profile.rows")
    )
    place = f"manifest.toml:{line} entry_points.f.out_of_profile.rows, output result"
    assert finding.where.endswith(place)
    assert finding.expected.startswith("the result of plain JAX at exactly rows=")
    assert "padded to rows=" in finding.found
    assert "max abs error" in finding.found
    assert "of 62 trials differ" in finding.found


def test_state_of_python_that_a_trace_changes_is_noticed(tmp_path: Path) -> None:
    findings = refused(tmp_path, "by_trace", "").findings
    assert {(each.code, "Python's state" in each.hint) for each in findings} == {
        ("AOTC-E951", True)
    }


KEEP = 'inputs.keep = { shape = ["rows"], dtype = "bool" }\nout_of_profile.rows = '
DROP = KEEP.replace("keep", "drop")
ONES = (
    'inputs.ones = { shape = ["rows"], dtype = "int32" }\n'
    "fixtures.ranges = { ones = [0, 1] }\nout_of_profile.rows = "
)
MASKED = """
inputs.mask = { shape = ["rows"], dtype = "bool" }
out_of_profile.rows = { policy = "pad", mask = "mask" }
fixtures.file = "falling.npz"
"""
STATE = """
inputs.s = { like = "program:state", arguments = { rows = "rows" } }
fixtures.ranges = { "s/seen" = [0, 9] }
"""
ROW_INPUTS = {
    "all_done": STATE,
    "most_seen": STATE,
    "one_scale": 'numerics = "finite"\n',
    "rare": "fixtures.ranges = { x = [0.0, 100.0] }\n",
    **dict.fromkeys(
        ("stops", "ended"),
        """
inputs.t = { shape = ["rows", 9], dtype = "int32" }
fixtures.ranges = { t = [0, 50000] }
""",
    ),
}
TIED = """
inputs.y = {{ shape = ["other"], dtype = "float32" }}
relations = [{relations}]
profiles = [{{ rows = 4, other = 8 }}, {{ rows = 8, other = 16 }}]
out_of_profile = {{ rows = "pad", other = "pad" }}
"""
OTHER = """
[dimensions.other]
range = [2, 40]
"""
RELATIONS = {"equal": '"other == 2*rows"', "bounded": '"other >= 2*rows", "other <= 2*rows"'}
ROWS = """
[dimensions.rows]
range = [1, 20]
profiles = [4, 8]
"""
EVEN = """
[dimensions.even]
range = [1, 20]
multiple_of = 2
profiles = [4, 8]
"""


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Entry points of which each passes its trials, or has no policy."""
    entries = (
        at_x("masked", "masked", MASK),
        at_x("kept", "kept", KEEP + '{ policy = "pad", fill = { keep = false } }'),
        at_x("kept_unstated", "kept", f'{KEEP}"pad"'),
        at_x("left_out", "left_out", DROP + '{ policy = "pad", fill = { drop = true } }'),
        at_x("counted", "counted", ONES + '{ policy = "pad", fill = { ones = 0 } }'),
        at_x("rows", "rows", 'out_of_profile.rows = "split"'),
        at_x("branch", "branch", ""),
        at_x("pairs", "pairs", 'out_of_profile.even = "pad"').replace('"rows", 3', '"even", 3'),
        *(
            at_x(f"tied_{name}", "tied", TIED.format(relations=relations))
            for name, relations in RELATIONS.items()
        ),
    )
    folder = tmp_path_factory.mktemp("proven")
    return built_by(folder, HEAD + ROWS + EVEN + OTHER + "".join(entries))


LEAKING_ROWS = {
    "drops_nan": "with a row of NaN",
    "drops_infinite": "with a row of infinities",
    "drops_equal": "with equal rows",
    "reaches_far": "rows=20",
    "all_done": "low, then high",
    "most_seen": "at the high end",
    "one_scale": "at the low end",
    "rare": "at the high end",
    "stops": "like constants",
    "ended": "like constants",
}


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> PlainTrials:
    """Entry points of which none may be padded or split as its policy says."""
    folder = tmp_path_factory.mktemp("leaking")
    numbers = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)[::-1]
    np.savez(folder / "falling.npz", x=np.ascontiguousarray(numbers))
    np.savez(folder / "rising.npz", x=np.arange(12, dtype=np.float32).reshape(4, 3))
    split = 'out_of_profile.rows = "split"\n'
    like = 'inputs.x = { like = "program:zeros", arguments = { rows = "rows" } }\n'
    recorded = 'profiles = [{ rows = 4 }]\nfixtures.file = "rising.npz"\n'
    entries = (
        *(at_x(name, name, split + ROW_INPUTS.get(name, "")) for name in LEAKING_ROWS),
        at_x("sorts", "sorts", MASKED.replace('fixtures.file = "falling.npz"', "")),
        at_x("like_padding", "like_padding", 'out_of_profile.rows = "pad"'),
        at_x("kept_all", "kept_all", f'{KEEP}"pad"'),
        at_x("left_out", "left_out", f'{DROP}"pad"'),
        at_x("counted", "counted", f'{ONES}"pad"'),
        at_x("below_zero", "below_zero", MASKED),
        at_x("repeated", "like_first", split + recorded),
        entry("zeros", "batch_norm", like + split),
        *(
            at_x(f"tied_{name}", "tied_leaky", TIED.format(relations=relations))
            for name, relations in RELATIONS.items()
        ),
    )
    return PlainTrials(written(folder, HEAD + ROWS + OTHER + "".join(entries)))


def test_a_mask_keeps_the_padding_out_and_the_proof_is_in_the_bundle(proven: Built) -> None:
    policy = entries_of(proven)["masked"].out_of_profile["rows"]
    assert isinstance(policy, Pad)
    assert (policy.mask, policy.length) == ("mask", "n")
    assert {trial.fill for trial in policy.proof} == {
        *("declared", "nan", "inf", "largest", "smallest", "ones")
    }
    sizes = {(trial.sizes["rows"], trial.profile["rows"]) for trial in policy.proof}
    assert sizes == {(1, 4), (2, 4), (3, 4), (5, 8), (6, 8), (7, 8)}
    assert {trial.ran for trial in policy.proof} == {TrialRan.EXECUTABLE}
    assert all(float(trial.max_abs) < 1e-6 for trial in policy.proof)


@pytest.mark.parametrize("name", ["kept", "kept_unstated", "left_out", "counted"])
def test_caller_mask_is_proven_at_its_fill_and_boolean_at_false(proven: Built, name: str) -> None:
    assert isinstance(entries_of(proven)[name].out_of_profile["rows"], Pad)


@pytest.mark.parametrize(
    ("name", "cure"), [("left_out", "drop = true"), ("counted", "ones = 0"), ("kept_all", "")]
)
def test_refused_caller_mask_names_its_fill(leaking: PlainTrials, name: str, cure: str) -> None:
    finding = leaking.refusal(name)
    assert finding.code == "AOTC-E955"
    assert f"`fill = {{ {cure}" in finding.hint


def test_independent_rows_are_split_and_what_no_row_carries_is_alike(
    proven: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = entries_of(proven)["rows"].out_of_profile["rows"]
    assert isinstance(policy, Split)
    fixtures = [trial for trial in policy.proof if trial.inputs == "fixture"]
    assert [trial.sizes["rows"] for trial in fixtures] == [8, 16, 12, 20]
    odd = {"rising", "nan-row", "infinite-row", "equal-rows"}
    assert {trial.inputs for trial in policy.proof} == {"fixture", "low", "high", *odd}
    print_bundle(bundle_report(review(open_bundle(proven.bundle.path), None, datetime.now(UTC))))
    assert capsys.readouterr().out.count("split along rows is tried, not proven") == 1


@pytest.mark.parametrize(
    ("name", "code", "inputs"),
    [
        *((name, "AOTC-E956", inputs) for name, inputs in LEAKING_ROWS.items()),
        # A maximum sees zeros beside negative numbers; NaN is sorted behind the padding.
        ("below_zero", "AOTC-E955", "its inputs all low"),
        ("like_padding", "AOTC-E955", "with a row like the padding"),
        ("sorts", "AOTC-E955", "with a row of NaN"),
        # A recorded file that is repeated, and zeros of a function, prove nothing.
        *((name, "AOTC-E956", "") for name in ("repeated", "zeros")),
    ],
)
def test_leaks_are_refused_with_the_inputs_that_show_them(
    leaking: PlainTrials, name: str, code: str, inputs: str
) -> None:
    finding = leaking.refusal(name)
    assert finding.code == code and finding.expected.endswith(inputs)
    advice = finding.hint.endswith('state `ranges` or `numerics = "finite"`')
    assert advice == ("NaN" in inputs or "infinities" in inputs)


@pytest.mark.parametrize("relations", RELATIONS)
def test_related_dimensions_proven(proven: Built, leaking: PlainTrials, relations: str) -> None:
    assert leaking.refusal(f"tied_{relations}").code == "AOTC-E955"
    entry_point = entries_of(proven)[f"tied_{relations}"]
    assert [tensor.shape for tensor in entry_point.inputs] == [("rows", 3), ("other",)]
    policy = entry_point.out_of_profile["rows"]
    assert isinstance(policy, Pad)
    tried = {(trial.sizes["rows"], trial.sizes["other"]) for trial in policy.proof}
    assert len(tried) >= 4 and all(other == 2 * rows for rows, other in tried)


def test_a_target_that_cannot_run_here_is_proven_in_plain_jax_and_says_so(tmp_path: Path) -> None:
    target = (TARGETS / "cpu-x86-64-v4.toml").read_text().replace("cpu-x86-64-v4", "far", 1)
    far = target.replace('"64bit",', '"64bit", "fma4", "amx-tile",')
    (tmp_path / "far.toml").write_text(far)
    manifest = built(tmp_path, "masked", MASK, "./far.toml").bundle.manifests["far"]
    policy = manifest.entry_points["f"].out_of_profile["rows"]
    assert isinstance(policy, Pad)
    assert {trial.ran for trial in policy.proof} == {TrialRan.PLAIN_JAX}
    assert len(policy.proof) == 62


def test_size_at_which_function_fails_is_not_accepted(tmp_path: Path, proven: Built) -> None:
    with pytest.raises(CaptureError) as caught:
        built(tmp_path, "pairs", 'out_of_profile.rows = "pad"')
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E839"
    assert "multiple_of" in finding.hint
    assert isinstance(entries_of(proven)["pairs"].out_of_profile["even"], Pad)


def test_a_specialised_dimension_is_told_after_the_build(proven: Built) -> None:
    assert any("asks whether rows > 4" in note for note in proven.notes)
    specialized = entries_of(proven)["branch"].specialized
    assert specialized["rows"].startswith("branch in program.py ")
