"""A server in small: load a signed bundle without jax, classify held-out digits, draw one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import aotc_runtime

IMAGES = Path(__file__).parents[1] / "manifests" / "digits" / "fixtures.npz"
SHADES = " .:-=+*#%@"


def main() -> None:
    bundle_path, policy_path = sys.argv[1:3]
    bundle = aotc_runtime.load(bundle_path, trust=policy_path)
    images = np.load(IMAGES)["image"][:8]
    result = bundle["predict"](images)
    for row in images[0].reshape(8, 8):
        print("    " + "".join(SHADES[int(pixel / 16 * 9)] * 2 for pixel in row))
    report = bundle.report()
    calls = report["entry_points"]["predict"]["calls"]
    served_by = next(label for label, count in calls.items() if count)
    print(f"predictions  {result['label'].tolist()}  (the first is drawn above)")
    likeliest = ", ".join(f"{p:.3f}" for p in result["probabilities"].max(axis=-1))
    print(f"probability  [{likeliest}]")
    print(f"served by    {served_by} for {report['target']}, {report['compilations']} compilations")
    print(f"ready in     {report['timings']['total'] * 1000:.0f} ms")
    print(f"jax loaded   {'jax' in sys.modules}")


if __name__ == "__main__":
    main()
