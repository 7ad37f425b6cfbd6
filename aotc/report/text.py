"""Reports for people: short lines and tables that fit a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.manifest import Target
from aotc_runtime.verification.verify import Verdict

if TYPE_CHECKING:
    from aotc.build.pipeline import Built


def size(count: int) -> str:
    """1.2 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("GB is the last unit")


def _sizes(sizes: dict[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(sizes.items())) or "-"


def _parity(parity: dict[str, Any]) -> tuple[str, str]:
    """The largest absolute error against plain JAX, and the largest in ulp."""
    if parity["status"] != "ran":
        return "not run", "here"
    return f"{float(parity['max_abs']):.1e}", str(parity["ulp_max"])


def _print_targets(targets: dict[str, Any], console: Console) -> None:
    for name, target in targets.items():
        requires = target["requires"]
        console.print(
            f"[bold]{name}[/bold]  jaxlib {' or '.join(target['accepts_jaxlib'])}, "
            f"{target['target']['threads']} threads, needs {size(requires['memory_bytes'])} memory",
            highlight=False,
        )
        for set_name, weights in target["weights"].items():
            console.print(
                f"  weights {set_name}: {weights['tensors']} tensors, "
                f"{size(weights['size_bytes'])}, from {weights['origin']}",
                highlight=False,
            )
        for entry_name, entry in target["entry_points"].items():
            _print_entry_point(entry_name, entry, console)


def _shortened(items: dict[str, str]) -> str:
    listed = [f"{path} {text}" for path, text in items.items()]
    shown = listed[:4] + ([f"… {len(listed) - 4} more"] if len(listed) > 4 else [])
    return ", ".join(shown) or "nothing"


def _print_entry_point(name: str, entry: dict[str, Any], console: Console) -> None:
    console.print(f"  [bold]{name}[/bold]({', '.join(entry['parameters'])})", highlight=False)
    console.print(f"    takes {_shortened(entry['inputs'])}", highlight=False, markup=False)
    console.print(f"    gives {_shortened(entry['outputs'])}", highlight=False, markup=False)
    if entry["donated"]:
        console.print(f"    donates {', '.join(entry['donated'])}", highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("    profile", overflow="fold")
    for column in ("executable", "temp", "kernels", "library", "max err", "ulp"):
        table.add_column(column, justify="right", no_wrap=True)
    for profile in entry["profiles"]:
        generated = profile["thunks"].get("kernel", 0)
        table.add_row(
            "    " + _sizes(profile["sizes"]),
            size(profile["executable_bytes"]),
            size(profile["memory"]["temp_bytes"]),
            str(generated),
            str(sum(profile["thunks"].values()) - generated),
            *_parity(profile["parity"]),
        )
    console.print(table)


def print_bundle(report: dict[str, Any]) -> None:
    """The text of `aotc inspect`."""
    console = Console()
    console.print(f"[bold]{report['name']} {report['version']}[/bold]", highlight=False)
    console.print(f"root    {report['root_digest']}", highlight=False, soft_wrap=True)
    claims = [claim["key_id"][:16] for claim in report["signatures"]]
    signed = f"{', '.join(claims)} (not verified here: aotc verify)" if claims else "nobody"
    console.print(f"signed  {signed}", highlight=False)
    _print_targets(report["targets"], console)


def print_build(built: Built, *, verbose: bool) -> None:
    """The text of `aotc build`."""
    from aotc.report.build import build_report

    report = build_report(built)
    console = Console()
    console.print(
        f"[bold]{report['name']} {report['version']}[/bold]  {report['bundle']}  "
        f"{size(report['size_bytes'])}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"root    {report['root_digest']}", highlight=False, soft_wrap=True)
    signed = report["signed_by"]
    console.print(f"signed  {signed[:16] if signed else 'nobody'}", highlight=False)
    _print_targets(report["targets"], console)
    lifted = [
        f"{constant['dtype']}{constant['shape']}"
        for target in list(report["targets"].values())[:1]
        for entry in target["entry_points"].values()
        for constant in entry["lifted"]
    ]
    if lifted:
        console.print(
            f"lifted  {len(lifted)} closed-over arrays into weights: {', '.join(lifted[:6])}",
            highlight=False,
            markup=False,
        )
    times = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in report["seconds"].items())
    console.print(f"took    {times}", highlight=False)
    for job, lines in report["diagnostics"].items():
        if verbose:
            console.print(f"{job}:\n  " + "\n  ".join(lines), highlight=False, markup=False)
    if report["diagnostics"] and not verbose:
        console.print(f"note    {len(report['diagnostics'])} compilations had remarks; see -v")


def print_verdict(verdict: Verdict, host: HostFacts) -> None:
    """The text of a successful `aotc verify`."""
    assert verdict.manifest is not None
    print(f"ok      {verdict.manifest.name} {verdict.manifest.version} may be loaded here")
    print(f"root    {verdict.root_digest}")
    print(f"signed  {', '.join(signer[:16] for signer in verdict.signers)}")
    print(f"target  {verdict.target} on {host.cpu}, jaxlib {host.jaxlib}")


def print_target(target: Target) -> None:
    """The text of `aotc targets show`."""
    console = Console()
    for name, value in (
        ("name", target.name),
        ("platform", f"{target.platform} {target.triple}"),
        ("processor", target.cpu),
        ("features", " ".join(target.features)),
        ("tuning", " ".join(target.tuning) or "-"),
        ("threads", str(target.threads)),
        ("options", ", ".join(f"{k}={v}" for k, v in target.options.items()) or "-"),
    ):
        console.print(f"{name:<10} {value}", highlight=False, markup=False)


def print_run(document: dict[str, Any]) -> None:
    """The text of `aotc run`."""
    for name, result in document["results"].items():
        print(f"{name} {result['dtype']}{result['shape']}\n{result['preview']}")
    print(
        f"served by {document['path']} of {document['bundle']} for {document['target']}, "
        f"{document['compilations']} compilations"
    )
    if "output" in document:
        print(f"wrote {document['output']}")
