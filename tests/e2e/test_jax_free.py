"""The helper that the other tests here rely on does refuse what it says it refuses."""

from pathlib import Path

import jax_free
import pytest
from jax_free import Arrays

from aotc_runtime import LoadedBundle
from tests.conftest import Bundle


def import_jax(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    import jax

    return {"version": jax.numpy.zeros(1)}


def import_the_toolchain(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    import aotc.base.errors  # noqa: F401

    return {}


@pytest.mark.parametrize(
    ("client", "named"), [(import_jax, "{'jax'}"), (import_the_toolchain, "{'aotc'}")]
)
def test_a_client_that_imports_what_a_server_lacks_fails(
    digits_bundle: Bundle, tmp_path: Path, client: jax_free.Client, named: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        jax_free.run(client, digits_bundle, tmp_path, {})
    assert f"AssertionError: {named}" in str(caught.value)
