"""The manifest of one small function, for tests that build it."""

from tests.conftest import manifest_of


def one_function(name: str, shape: str, *more: str, module: str = "", weights: str = "") -> str:
    """Return the text of a manifest of the function `f` in a module, by default `name`.

    `shape` is that of its float32 input x. `weights` says where its parameter `params` comes from,
    as `init = "program:init"`; `more` are further lines of the entry point.
    """
    lines = [
        "",
        f'name = "{name}"',
        *(["[weights.params]", weights] if weights else []),
        "[entry_points.f]",
        f'function = "{module or name}:f"',
        *(['bind = { params = "params" }'] if weights else []),
        f'inputs.x = {{ shape = {shape}, dtype = "float32" }}',
        *more,
    ]
    return manifest_of("\n".join([*lines, ""]))
