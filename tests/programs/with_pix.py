"""dm-pix and jaxlie: images that are turned, blurred and coloured; rigid motions as arguments."""

from __future__ import annotations

import dm_pix
import jax
import jax.numpy as jnp
import jaxlie
import numpy as np

MANIFESTS = {
    "images": """
        [entry_points.augment]
        function = "with_pix:augment"
        inputs.image = { shape = [12, 14, 3], dtype = "float32" }
        inputs.angle = { shape = [], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
        fixtures.ranges = { image = [0, 1], angle = [0, 1] }

        [entry_points.move]
        function = "with_pix:move"
        inputs.pose = { like = "with_pix:pose" }
        inputs.points = { shape = [6, 3], dtype = "float32" }
    """,
}

STATES = {"move": {"pose": 0}}


def augment(image, angle):
    blurred = dm_pix.gaussian_blur(image, 1.0, 5)
    return {
        "turned": dm_pix.rotate(image, angle, order=1),
        "coloured": dm_pix.adjust_hue(dm_pix.adjust_saturation(blurred, 1.4), 0.1),
        "similar": dm_pix.ssim(image, blurred, filter_size=7),
        "flipped": dm_pix.flip_left_right(dm_pix.depth_to_space(image[..., :1].repeat(4, -1), 2)),
    }


def fresh_augment(rng):
    image = rng.uniform(0, 1, (12, 14, 3)).astype(np.float32)
    return {"image": image, "angle": np.float32(rng.uniform(0, 1))}


def pose():
    return jaxlie.SE3.identity()


def move(pose, points):
    turned = pose @ jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0, 0, 0.3, 0.1]) + points.mean() * 0.01)
    return turned, jax.vmap(turned.apply)(points), turned.log(), turned.inverse().adjoint()


def fresh_move(rng):
    return {"pose": pose(), "points": rng.normal(size=(6, 3)).astype(np.float32)}
