"""Suggested profiles and checked coverage as data and as text of at most 80 columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from aotc.commands.profiles.profile_routing import Served
from aotc.commands.profiles.size_space import Space, elements
from aotc.commands.profiles.suggested_profiles import Suggestion
from aotc.commands.profiles.traffic_check import Checked, Offender, calls_text
from aotc.commands.profiles.traffic_log import Traffic, describe_bad
from aotc_runtime.formats.toml_source import render_path
from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy
from aotc_runtime.schema.manifest_labels import sizes_text


def suggestion_document(suggestion: Suggestion) -> dict[str, Any]:
    """Return everything that was found."""
    choice = suggestion.choice
    return {
        "manifest": str(suggestion.manifest.path),
        "entry_point": suggestion.space.entry_point,
        "target": suggestion.target,
        "policies": {axis.name: axis.policy.value for axis in suggestion.space.axes},
        "traffic": _traffic(suggestion.traffic, suggestion.outside),
        "method": choice.method,
        "optimal": choice.is_best,
        "suggested": _served_document(suggestion, suggestion.served, suggestion.profiles),
        "today": _served_document(suggestion, suggestion.today, suggestion.space.profiles),
    }


def _traffic(traffic: Traffic, outside: Mapping[str, int]) -> dict[str, Any]:
    return {
        "requests": traffic.requests,
        "distinct": len(traffic.points),
        "outside": dict(outside),
        "of_other_entry_points": traffic.other,
        "lines_left_out": traffic.bad_lines,
        "left_out": [{"line": bad.number, "reason": bad.reason} for bad in traffic.bad],
    }


def _served_document(
    suggestion: Suggestion, served: Served, profiles: Sequence[Mapping[str, int]]
) -> dict[str, Any]:
    calls = served.calls_by_profile.tolist()
    return {
        "profiles": [
            {"sizes": dict(sizes), "calls": count}
            for sizes, count in zip(profiles, calls, strict=True)
        ],
        "coverage": served.covered / suggestion.traffic.requests,
        "split": served.split,
        "executions": sum(calls),
        "padding": served.padding,
        "cost": served.padded_elements,
    }


def suggestion_lines(suggestion: Suggestion, document: dict[str, Any]) -> Iterator[str]:
    """Yield the text of `aotc profiles suggest`, which ends with TOML for the manifest.

    document: as `suggestion_document` gives it.
    """
    space, traffic = suggestion.space, document["traffic"]
    yield (
        f"{space.entry_point}  {_calls(traffic['requests'])}, {traffic['distinct']:,} distinct "
        f"size{'s' * (traffic['distinct'] != 1)} of {', '.join(space.names)}"
    )
    yield from _notes(space, suggestion.traffic, suggestion.outside)
    yield ""
    yield f"  {'profile':<34}{'calls':>9}{'of the cost':>13}"
    yield from _profile_lines(suggestion)
    yield ""
    today, new = document["today"], document["suggested"]
    yield f"  {'':<34}{'today':>14}{'suggested':>14}"
    rows = _ROWS if any(axis.splits for axis in space.axes) else _ROWS[:2] + _ROWS[4:]
    for what, key, text in rows:
        yield f"  {what:<34}{text(today[key]):>14}{text(new[key]):>14}"
    yield ""
    best = f": no {suggestion.most} profiles cost less" if document["optimal"] else ""
    yield f"by {document['method']}{best}"
    yield ""
    if written := document.get("written"):
        yield f"wrote {written} in {suggestion.manifest.path}"
        return
    yield f"[{render_path(profiles_table(suggestion))}]"
    yield "profiles = ["
    for sizes in suggestion.profiles:
        fields = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        yield f"  {{ {fields} }},"
    yield "]"


def profiles_table(suggestion: Suggestion) -> tuple[str, ...]:
    """Return the table of the manifest that takes the profiles, as a path of keys."""
    override = suggestion.manifest.overrides.get(suggestion.target)
    above = ("target", suggestion.target) if override else ()
    return (*above, "entry_points", suggestion.space.entry_point)


_ROWS: tuple[tuple[str, str, Any], ...] = (
    ("profiles", "profiles", lambda v: str(len(v))),
    ("calls covered", "coverage", lambda v: f"{100 * v:.4g} %"),
    ("calls split", "split", lambda v: f"{v:,}"),
    ("executions of them all", "executions", lambda v: f"{v:,}"),
    ("padding", "padding", lambda v: f"{100 * v:.1f} %"),
)


def _profile_lines(suggestion: Suggestion) -> Iterator[str]:
    served = suggestion.served
    costs = elements(suggestion.choice.profiles)
    every = suggestion.traffic.requests - served.covered + int(served.calls_by_profile.sum())
    for index, sizes in enumerate(suggestion.profiles):
        calls = float(served.calls_by_profile[index])
        share = 100 * calls / max(1, every)
        of_cost = 100 * calls * float(costs[index]) / served.padded_elements
        yield f"  {sizes_text(sizes):<34}{share:>7.1f} %{of_cost:>11.1f} %"


def _notes(space: Space, traffic: Traffic, outside: Mapping[str, int]) -> Iterator[str]:
    for reason, count in outside.items():
        yield f"  {_calls(count)} outside: {reason}"
    if traffic.other:
        yield f"  left out, of other entry points: {_calls(traffic.other)}"
    for line in describe_bad(traffic):
        yield f"  {line}"
    if exact := [each.name for each in space.axes if each.policy is OutOfProfilePolicy.FAIL]:
        yield f"  not padded, so that only exact sizes serve: {', '.join(exact)}"
    if sums := [axis.name for axis in space.axes if axis.splits]:
        yield f"  split, so that sums of sizes serve as well: {', '.join(sums)}"


def _calls(number: int) -> str:
    return f"{number:,} call" + "s" * (number != 1)


def check_document(checked: Checked, traffic: Traffic) -> dict[str, Any]:
    """Return the result of `aotc profiles check` for one target."""
    return {
        "entry_point": checked.space.entry_point,
        "target": checked.target,
        "traffic": _traffic(traffic, checked.outside),
        "coverage": checked.coverage,
        "padding": checked.served.padding,
        "split": checked.served.split,
        "executions": int(checked.served.calls_by_profile.sum()),
        "uncovered": [asdict(offender) for offender in checked.uncovered],
        "padded": [asdict(offender) for offender in checked.padded],
    }


def check_lines(checked: Checked, traffic: Traffic) -> Iterator[str]:
    """Yield the text of `aotc profiles check` for one target."""
    served = checked.served
    yield (
        f"{checked.space.entry_point} for {checked.target}: {_calls(checked.requests)}, "
        f"{100 * checked.coverage:.6g} % covered, {100 * served.padding:.4g} % padding"
    )
    yield from _notes(checked.space, traffic, checked.outside)
    if served.split:
        executions = int(served.calls_by_profile.sum())
        yield f"  split: {_calls(served.split)}; executions of them all: {executions:,}"
    for offender in checked.uncovered:
        yield f"  not covered  {_offender(offender)}: {offender.reason}"
    for offender in checked.padded:
        yield (
            f"  padded       {_offender(offender)} to {calls_text(offender.served_by)}, "
            f"{100 * offender.overhead:.1f} %"
        )


def _offender(offender: Offender) -> str:
    times = "once" if offender.count == 1 else f"{offender.count:,} times"
    return f"{sizes_text(offender.sizes)}  {times}"
