"""The walk through a server in docs/guides/serve.md, run as it stands there, at another port."""

import re
import shutil
import socket
from pathlib import Path

import pytest
from served import serving

from tests.conftest import MANIFESTS
from tests.documented import code_of, in_shell
from tests.examples.started import PYTHONS
from tests.running import printed

SERVER = Path(__file__).parents[4] / "docs" / "guides" / "serve.md", "A server"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("python", PYTHONS)
def test_the_commands_work(python: str, tmp_path: Path, examples_cache: Path) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    # The image's environment has the loader alone.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aotc-runtime").symlink_to(Path(python).parent / "aotc-runtime")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    commands = 'PATH="$PWD/bin:$PATH"\n' + code_of("sh", *SERVER).replace("8000", port)
    said = in_shell(commands, tmp_path, AOTC_CACHE=str(examples_cache))
    assert '"profile":"predict[batch=1]"' in said
    assert "aotc_call_seconds" in (tmp_path / "metrics.txt").read_text("utf-8")
    assert re.search(r"^\S+Z ended$", said, re.MULTILINE)


def test_the_client_works_as_it_stands(digits_bundle: tuple[Path, Path]) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:]) as served:
        code = code_of("python", *SERVER).replace("8000", str(served.port))
        said = printed(code)
    assert said == "{'profile': 'predict[batch=8]', 'path': 'exact'}\n"
