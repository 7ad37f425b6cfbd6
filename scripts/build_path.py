"""Count the stops of a build's path through the code: `python -m scripts.build_path [MANIFEST]`.

Traces `build(manifest)` in this process, without a cache, and takes the modules of aotc in the
order in which their functions are first called. Modules of one folder that follow each other are
one stop. A climb is a stop in a higher layer than the one before (the layers of pyproject.toml): a
reader who follows the build has to go back up.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "aotc") + os.sep


def modules_called(manifest: Path) -> list[str]:
    """Build, and return the modules of aotc by their first call, as paths below aotc/."""
    os.environ["AOTC_CACHE"] = "off"
    from aotc.pipeline.build import build

    seen: dict[str, None] = {}

    def on_start(code: CodeType, _: int) -> object:
        if code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            seen.setdefault(code.co_filename.removeprefix(PACKAGE))
        return sys.monitoring.DISABLE

    monitor = sys.monitoring
    monitor.use_tool_id(monitor.PROFILER_ID, "build_path")
    monitor.register_callback(monitor.PROFILER_ID, monitor.events.PY_START, on_start)
    monitor.set_events(monitor.PROFILER_ID, monitor.events.PY_START)
    with tempfile.TemporaryDirectory() as folder:
        build(manifest, output=Path(folder, "bundle.aotb"))
    monitor.set_events(monitor.PROFILER_ID, 0)
    return list(seen)


def stops_of(modules: Sequence[str]) -> list[str]:
    """Return the folders of these modules; those that follow each other are one stop."""
    stops: list[str] = []
    for module in modules:
        folder = Path(module).parent.as_posix()
        if not stops or stops[-1] != folder:
            stops.append(folder)
    return stops


def climbs_of(stops: Sequence[str], layers: Sequence[str]) -> int:
    """Count the stops in a higher layer than the one before.

    `layers` are from the top, as import-linter writes them.
    """
    level = {name: n for n, layer in enumerate(layers) for name in layer.split(" | ")}
    levels = [level.get(stop.partition("/")[0], len(layers)) for stop in stops]
    return sum(after < before for before, after in pairwise(levels))


def main() -> None:
    """Print the stops and their number."""
    manifest = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "manifests" / "digits.toml")
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["aotc"])
    stops = stops_of(modules_called(manifest))
    for stop in stops:
        print(stop)
    print(f"{len(stops)} stops in {len(set(stops))} folders, {climbs_of(stops, layers)} climbs")


if __name__ == "__main__":
    main()
