"""ott-jax: optimal transport between two clouds of points."""

from __future__ import annotations

import numpy as np
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn

MANIFESTS = {
    "transport": """
        [entry_points.transport]
        function = "with_ott:transport"
        inputs.x = { shape = [8, 2], dtype = "float32" }
        inputs.y = { shape = [6, 2], dtype = "float32" }
        tolerance = { rtol = 1e-3, atol = 1e-5 }
    """
}


def transport(x, y):
    geometry = pointcloud.PointCloud(x, y, epsilon=0.1)
    found = sinkhorn.Sinkhorn(max_iterations=200)(linear_problem.LinearProblem(geometry))
    return {"cost": found.reg_ot_cost, "matrix": found.matrix, "converged": found.converged}


def fresh_transport(rng):
    return {
        "x": rng.normal(size=(8, 2)).astype(np.float32),
        "y": rng.normal(1, 1, (6, 2)).astype(np.float32),
    }
