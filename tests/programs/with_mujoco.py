"""MuJoCo's mjx: the state of a pendulum, stepped with controls."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

MANIFESTS = {
    "pendulum": """
        [entry_points.mjx_step]
        function = "with_mujoco:step"
        inputs.state = { like = "with_mujoco:state" }
        inputs.control = { shape = [1], dtype = "float32" }
        tolerance = { rtol = 1e-4, atol = 1e-5 }
    """
}

STATES = {"mjx_step": {"state": None}}

XML = """
<mujoco>
  <option timestep="0.02" iterations="2" ls_iterations="4"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" gear="1"/></actuator>
</mujoco>
"""


MODEL = mjx.put_model(mujoco.MjModel.from_xml_string(XML))


def state():
    return mjx.make_data(MODEL)


def step(state, control):
    return mjx.step(MODEL, state.replace(ctrl=control))


def fresh_mjx_step(rng):
    return {
        "state": state().replace(qpos=jnp.asarray(rng.normal(size=1), jnp.float32)),
        "control": rng.normal(size=1).astype(np.float32),
    }
