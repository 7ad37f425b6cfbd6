"""Reports for people: short lines and tables that fit a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

import click
import msgspec
from msgspec import UNSET

from aotc.base.constants import EVERYTHING, NOT_SET, SET
from aotc.base.errors import by_reason, shorten
from aotc.base.stages import Bundle
from aotc.report.sizes_report import masks_and_lengths, shapes_lines
from aotc_runtime.base import ulps
from aotc_runtime.base.rendering import printable, say
from aotc_runtime.formats.in_toto import SBOM_TYPE
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import sizes_text


def size(count: int) -> str:
    """1.2 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("GB is the last unit")


def count(number: int, noun: str) -> str:
    """1 array, 2 arrays."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _parity(parity: dict[str, Any]) -> tuple[str, str]:
    """Return the largest absolute error against plain JAX, and the largest in ulp."""
    if parity["status"] != "ran":
        return "not run", "here"
    return f"{float(parity['max_abs']):.1e}", ulps(parity["ulp_max"])


PROFILE_COLUMNS = (
    *("profile", "executable", "memory", "temp", "kernels", "library", "max err", "ulp"),
)  # fmt: skip

STRUCTURE_CHARACTERS_MAX = 400
"""The longest structure that a text shows whole; a training state may have hundreds of leaves."""

UNLIMITED = 10_000
"""Columns of output that is not a terminal."""


def _line(text: str, *, title: str = "", indent: str = "") -> None:
    """Print a line after its title, which is bold on a terminal."""
    bold = click.style(printable(title), bold=True) if title else ""
    click.echo(f"{indent}{bold}{printable(text)}")


def _print_targets(targets: dict[str, Any]) -> None:
    for name, target in targets.items():
        requires = target["requires"]
        threads = count(target["target"]["threads"], "thread")
        _line(
            f"  {_runs_with(target)}, {threads}, needs {size(requires['memory_bytes'])} memory",
            title=name,
        )
        for line in engine_lines(target):
            _line(f"  {line}")
        for line in mesh_lines(target["mesh"]):
            _line(f"  {line}")
        for set_name, weights in target["weights"].items():
            _line(
                f"  weights {set_name}: {count(weights['tensors'], 'tensor')}, "
                f"{size(weights['size_bytes'])}, from {weights['origin']}"
            )
        for asset_name, asset in target.get("assets", {}).items():
            sizes = [ref["size"] for ref in asset["files"].values()]
            named = "folder of " + count(len(sizes), "file")
            what = named if asset["kind"] == "folder" else "".join(asset["files"])
            _line(f"  asset {asset_name}: {what}, {size(sum(sizes))}")
        for entry_name, entry in target["entry_points"].items():
            _print_entry_point(entry_name, entry)


def _runs_with(target: Mapping[str, Any]) -> str:
    """Return the versions of the engine that may run a target's executables."""
    requires = target["requires"]
    beside = requires.get("engines", {}).values()
    packages = [{"plugin": "jaxlib", "accepts_plugin": target["accepts_jaxlib"]}, *beside]
    described = msgspec.convert(target["target"], bundle_manifest.Target)
    if bundle_manifest.engine_name(described) != bundle_manifest.XLA:
        packages[0] = requires["device"]
    return ", ".join(f"{p['plugin']} {' or '.join(p['accepts_plugin'])}" for p in packages)


def engine_lines(target: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a target has its engine, if its build asked or measured several."""
    for each in target.get("engines_refused", ()):
        found = each["found"].partition("\n")[0]
        yield f"not {each['engine']}: {each['where']} ({each['code']}: {found})"
    if choice := target.get("engine_choice"):
        yield f"engine {choice['engine']}, chosen for its {choice['objective']} over all profiles"
        for each in choice["engines"]:
            if each["status"] == "left-out":
                yield f"  {each['engine']}: {each['reason'].partition('\n')[0]}"
                continue
            latency, start = each["latency_us"], each["start_ms"]
            yield (
                f"  {each['engine']}: {latency['median']} us a call ({latency['least']} to "
                f"{latency['most']}), ready in {start['median']} ms ({start['least']} to "
                f"{start['most']}), {size(each['memory_bytes']['median'])} resident, "
                f"{each['relative']} of the first's {choice['objective']}"
            )


def mesh_lines(mesh: dict[str, Any] | None) -> list[str]:
    """Return lines for the mesh and the arrays that are sharded over it."""
    if mesh is None:
        return []
    axes = ", ".join(f"{name} = {length}" for name, length in mesh["axes"].items())
    lines = [f"mesh {axes}: {count(len(mesh['devices']), 'device')}"]
    for owner, cut in mesh["shardings"].items():
        lines.append(f"  {owner}: {_shorten_items({path: f'[{cut[path]}]' for path in cut})}")
    return lines


def _shorten_items(items: dict[str, str]) -> str:
    return shorten([f"{path} {text}" for path, text in items.items()], 4) or "nothing"


def _print_entry_point(name: str, entry: dict[str, Any]) -> None:
    added = masks_and_lengths(entry)
    parameters = [parameter for parameter in entry["parameters"] if parameter not in added]
    _line(f"({', '.join(parameters)})", title=name, indent="  ")
    inputs = {path: text for path, text in entry["inputs"].items() if path not in added}
    _line(f"    takes {_shorten_items(inputs)}")
    if added:
        _line(f"    added by the loader: {_shorten_items(added)}")
    _line(f"    gives {_shorten_items(entry['outputs'])}")
    for owner, structure in entry["structures"].items():
        if len(structure) > STRUCTURE_CHARACTERS_MAX:
            structure = f"{structure[:STRUCTURE_CHARACTERS_MAX]}… (whole: aotc inspect --json)"
        _line(f"    {owner} is {structure}")
    if entry["donated"]:
        _line(f"    donates {', '.join(entry['donated'])}")
    rows: list[list[str]] = []
    for profile in entry["profiles"]:
        generated = profile["thunks"].get("kernel", 0)
        row = (
            sizes_text(profile["sizes"]) or "-",
            size(profile["executable_bytes"]),
            size(profile["memory"]["total_bytes"]),
            size(profile["memory"]["temp_bytes"]),
            str(generated),
            str(sum(profile["thunks"].values()) - generated),
            *_parity(profile["parity"]),
        )
        rows.append([*map(printable, row)])
    room = get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED
    for text, is_header in _profile_table(rows, room):
        _line("" if is_header else text, title=text if is_header else "")
    for line in (*shapes_lines(entry), *evidence_lines(entry)):
        _line(f"    {line}")
    served: dict[str, list[str]] = {}
    for profile in entry["profiles"]:
        served.setdefault(profile["engine"], []).append(sizes_text(profile["sizes"]))
    if len(served) > 1:
        parts = (f"{engine} {', '.join(sizes)}" for engine, sizes in served.items())
        _line(f"    engines: {'; '.join(parts)}")
    for profile in entry["profiles"]:
        if tuned := profile.get("tuned"):
            sizes = sizes_text(profile["sizes"]) or "-"
            _line(f"    tuned {sizes}: {tuned_text(tuned)}")


def evidence_lines(entry: dict[str, Any]) -> Iterator[str]:
    """Yield what was traced of an entry point, and who does its work, if its evidence was read."""
    coverage = entry.get("coverage")
    if coverage:
        missed = sum(f["traced"] < f["lines"] for own in coverage["files"].values() for f in own)
        rest = f", {count(missed, 'function')} not whole" if missed else ""
        yield f"traced {coverage['traced']} of {count(coverage['lines'], 'line')}{rest}"
    if entry.get("reference") == "recorded":
        yield "max err is against results recorded elsewhere, which plain JAX did not compute here"
    elif coverage:
        yield "max err is against plain JAX"
    if model := entry.get("model"):
        yield source_text(model, has_precision="precision" in entry)
    if entry.get("numerics") == "finite":
        yield "states finite numbers: NaN and infinities were not compared with plain JAX"
    if precision := entry.get("precision"):
        yield from precision_lines(precision)
    if allowance := entry.get("allowance"):
        yield f"tolerance has {allowance} for numbers rounded to another step"
    for dimension in entry.get("tried", ()):
        yield f"split along {dimension} is tried, not proven: operations of a function are hidden"
    yield from map(evaluation_text, entry.get("evaluations", ()))
    yield from trial_lines(entry)
    compiled = [p["evidence"] for p in entry["profiles"] if "compiled" in p.get("evidence", {})]
    places = {place["name"]: None for each in compiled for place in each["compiled"]["placement"]}
    if places:
        yield f"work by {', '.join(places)}"


def evaluation_text(evaluation: dict[str, Any]) -> str:
    """Return a metric with its interval and reference; `evaluation` is as in JSON."""
    result = evaluation["result"]
    of = f"of {count(evaluation['samples'], 'sample')}"
    reference = f"plain JAX {short(evaluation['reference'])}"
    if result["status"] != "ran":
        return f"{evaluation['metric']} not evaluated: {result['reason']}; {reference} {of}"
    ends = f"{short(result['low'])} to {short(result['high'])}, {result['method']}"
    return f"{evaluation['metric']} {short(result['value'])} ({ends}) {of}; {reference}"


def precision_lines(precision: dict[str, Any]) -> Iterator[str]:
    """Yield lines on which weights were quantized, and why others were not.

    `precision` is an `AppliedPrecision` as in JSON.
    """
    quantized, products = precision["quantized"], count(precision["products"], "product")
    line = f"precision {precision['name']}: {count(len(quantized), 'weight')}"
    if quantized:
        worst = min(quantized, key=lambda each: float(each["snr_db"]))
        group = f" in groups of {worst['group']}" if worst["group"] else ""
        line += f" in {worst['dtype']}{group}, {worst['snr_db']} dB or better ({worst['tensor']})"
    yield f"{line}; parity compares with plain JAX on these weights"
    if precision["activations"] == "bfloat16":
        yield f"calls round the factors of {products} to bfloat16 and sum in float32"
    elif precision["activations"] != "none":
        yield f"calls round the other factor of {products} to 8 bits, {precision['activations']}"
    if precision["kept"]:
        yield f"not quantized: {by_reason(precision['kept'])}"


def short(decimal: str) -> str:
    """Return a number of a manifest with at most six significant digits."""
    return f"{float(decimal):.6g}"


def trial_lines(entry: dict[str, Any]) -> Iterator[str]:
    """Yield lines on the value trials of an entry point, grouping equal executables."""
    found: dict[str, list[str]] = {}
    for profile in entry["profiles"]:
        if trials := profile.get("evidence", {}).get("trials"):
            found.setdefault(trials_text(trials), []).append(sizes_text(profile["sizes"]))
    for text, sizes in found.items():
        of = f" ({'; '.join(filter(None, sizes))})" if len(found) > 1 else ""
        yield f"tried with {text}{of}"


def trials_text(trials: dict[str, Any]) -> str:
    """Return which value trials an executable ran; `trials` is a `ValueTrials` as in JSON."""
    text = f"inputs {', '.join(trials['ran'])}" if trials["ran"] else "its fixture alone"
    reasons: dict[str, list[str]] = {}
    for kind, why in trials["skipped"].items():
        reasons.setdefault(why, []).append(kind)
    text += "".join(f"; not {', '.join(kinds)}: {why}" for why, kinds in reasons.items())
    if trials["truth"]:
        text += f"; as close to float64 as plain JAX with {', '.join(trials['truth'])}"
    if trials["state"] == "within":
        text += "; repeated calls agree within the tolerance"
    return text


def source_text(model: dict[str, Any], *, has_precision: bool = False) -> str:
    """Describe the file that an entry point was made from, and how its conversion was checked.

    The file's results are those of the program before weights are rounded.

    Args:
        model: A `ModelOrigin` as in JSON.
        has_precision: Whether weights were rounded.
    """
    by = ", ".join(f"{name} {version}".rstrip() for name, version in model["producer"].items())
    checked = "its results were compared with none of its framework's"
    if expected := model.get("expected"):
        within = f"{expected['atol']} + {expected['rtol']} * |expected|"
        whose = (
            "before weights were rounded, it gave" if has_precision else "in plain JAX, it gives"
        )
        checked = f"{whose} what {expected['file']} has, within {within}"
        if missing := ", ".join(expected["not_compared"]):
            checked += f"; not compared: {missing}"
    return f"made of {model['file']} ({by}); {checked}"


def tuned_text(tuned: dict[str, Any]) -> str:
    """Return what was chosen for an executable, and on what evidence."""
    measured = {c["name"]: c for c in tuned["candidates"] if c["status"] == "measured"}
    out_of = f"of {count(len(measured), 'candidate')} on {tuned['processor']}"
    chosen = measured.get(tuned["choice"])
    if chosen is None:
        return f"{tuned['choice']}, nothing could be measured"
    p50, base = f"{chosen['p50_us']} us", tuned["candidates"][0]["name"]
    if tuned["choice"] == "default":
        return f"default, {p50}; none {out_of} saved {100 * float(tuned['margin']):.0f} %"
    whose = "the default's" if base == "default" else f"{base}'s"
    best = "best" if base == "default" else "best of its engine,"
    return f"{tuned['choice']}, {p50}, {chosen['relative']} of {whose} time; {best} {out_of}"


def print_bundle(report: dict[str, Any]) -> None:
    """Print the text of `aotc inspect`."""
    _line("", title=f"{report['name']} {report['version']}")
    _line(f"root    {report['root_digest']}")
    certificates = [claim for claim in report["signatures"] if "outcome" in claim]
    bills = [claim for claim in report["signatures"] if claim.get("predicate_type") == SBOM_TYPE]
    others = [each for each in report["signatures"] if each not in (*certificates, *bills)]
    claims = list(dict.fromkeys(_key_of(claim) for claim in others))
    signed = f"{', '.join(claims)} (not verified here: aotc verify)" if claims else "no"
    _line(f"signed  {signed}")
    for claim in certificates:
        said = f"{claim['package']} {claim['version']} for {claim['target']}: {claim['outcome']}"
        _line(f"claims  {said}, by {_key_of(claim)} on {claim['certified_on']}")
    for claim in bills:
        _line(f"listed  what it was made with, in a bill of materials by {_key_of(claim)}")
    read = {name: said for claim in others for name, said in claim.get("variables", {}).items()}
    for word, said in (("read", SET), ("asked", NOT_SET)):
        if names := sorted(name for name in read if read[name] == said):
            shown = ", ".join("all together" if n == EVERYTHING else n for n in names)
            _line(f"{word:8}variables, {said}: {shown}")
    for name in report["absent_targets"]:
        _line(f"absent  {name}: signed with the others, left out of this copy")
    _print_targets(report["targets"])


def _key_of(claim: dict[str, Any]) -> str:
    return claim["key_id"][:16] or "a key without id"


def print_build(report: dict[str, Any], isolation: Sequence[str], *, verbose: bool) -> None:
    """Print the text of `aotc build`; `isolation` is as in `Built`."""
    _line(
        f"  {report['bundle']}  {size(report['size_bytes'])}",
        title=f"{report['name']} {report['version']}",
    )
    _line(f"root    {report['root_digest']}")
    signed = report["signed_by"]
    _line(f"signed  {signed[:16] if signed else 'no'}")
    _print_targets(report["targets"])
    # By name: entry points share the arrays that both close over.
    lifted = {
        constant["tensor"]: f"{constant['dtype']}{list(constant['shape'])}"
        for target in list(report["targets"].values())[:1]
        for entry in target["entry_points"].values()
        for constant in entry["lifted"]
    }
    if lifted:
        what = count(len(lifted), "closed-over array")
        _line(f"lifted  {what} into weights: {shorten([*lifted.values()], 6)}")
    times = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in report["seconds"].items())
    _line(f"took    {times}")
    for measure in isolation if verbose else ():
        _line(f"apart   {measure}")
    for job, lines in report["diagnostics"].items():
        if verbose:
            _line(f"{job}:")
            for line in lines:
                _line(f"  {line}")
    if report["diagnostics"] and not verbose:
        _line(f"note    {count(len(report['diagnostics']), 'compilation')} had remarks; see -v")


def _processor(target: bundle_manifest.Target) -> tuple[tuple[str, str], ...]:
    return (
        ("processor", target.cpu),
        ("features", " ".join(target.features)),
        ("tuning", " ".join(target.tuning) or "-"),
        ("threads", str(target.threads)),
    )


def _device(device: bundle_manifest.TargetDevice) -> tuple[tuple[str, str], ...]:
    match device:
        case bundle_manifest.CudaDevice():
            changed = "".join(f", {key} {value}" for key, value in device.changes.items())
            what = f"{device.description}{changed}, compute capability {device.compute_capability}"
        case bundle_manifest.TpuDevice():
            what = device.topology
    return (("device", what), ("runs on", ", ".join(device.kinds)))


def print_target(target: bundle_manifest.Target) -> None:
    """Print the text of `aotc targets show`."""
    for name, value in (
        ("name", target.name),
        ("platform", f"{target.platform} {target.triple}"),
        *(_processor(target) if target.cpu else ()),
        *(() if target.device is UNSET else _device(target.device)),
        ("devices", str(target.devices)),
        ("options", ", ".join(f"{k}={v}" for k, v in target.options.items()) or "-"),
    ):
        _line(f"{name:<10} {value}")


def print_run(document: dict[str, Any]) -> None:
    """Print the text of `aotc run`."""
    for name, result in document["results"].items():
        say(f"{name} {result['dtype']}{result['shape']}", *result["preview"].splitlines())
    say(
        f"served by {document['path']} of {document['bundle']} for {document['target']}, "
        f"{count(document['compilations'], 'compilation')}"
    )
    if "output" in document:
        say(f"wrote {document['output']}")


GAPS = (2, 1)
"""Columns of space between two cells: where there is room, and where there is not."""


def _profile_table(rows: Sequence[Sequence[str]], room: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of an entry point's table, each with whether it is the header.

    The first cell of a row is its name, aligned left; the others are aligned right. `room` is the
    width of a line. Where names leave too little even with narrow gaps, each has a line of its own.
    """
    header, begin = PROFILE_COLUMNS, " " * 4
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    gap = next((g for g in GAPS if len(begin) + sum(widths) + g * (len(widths) - 1) <= room), 0)

    def numbers(row: Sequence[str], between: int) -> str:
        pairs = zip(row[1:], widths[1:], strict=True)
        return (" " * between).join(f"{cell:>{width}}" for cell, width in pairs)

    for row in (header, *rows):
        if gap:
            name = row[0].ljust(widths[0])
            yield f"{begin}{name}{' ' * gap}{numbers(row, gap)}", row is header
            continue
        if row is not header:
            yield f"{begin}{row[0]}", False
        yield f"{begin}{numbers(row, GAPS[-1])}", row is header


def copy_report(bundle: Bundle) -> dict[str, Any]:
    """Return what was written: its path, identity, size (bytes) and targets."""
    first = next(iter(bundle.manifests.values()))
    return {
        "bundle": str(bundle.path),
        "name": first.name,
        "version": first.version,
        "root_digest": bundle.root_digest,
        "size_bytes": bundle.size_bytes,
        "targets": sorted(bundle.manifests),
    }


def copy_lines(report: dict[str, Any], *more: str) -> list[str]:
    """Return a copy's report as lines for people: its identity, more lines, then its targets."""
    return [
        f"{report['name']} {report['version']}  {report['bundle']}  {size(report['size_bytes'])}",
        f"root    {report['root_digest']}",
        *more,
        *(f"target  {name}" for name in report["targets"]),
    ]
