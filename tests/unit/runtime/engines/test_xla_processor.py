"""The description of this host's processor, as jaxlib serializes it."""

from __future__ import annotations

import pytest

from aotc_runtime.engines.xla.xla_cpu_device import target_machine


def message(*fields: tuple[int, bytes]) -> bytes:
    """A protobuf message of texts, each shorter than 128 bytes."""
    return b"".join(bytes([8 * key + 2, len(text)]) + text for key, text in fields)


@pytest.mark.parametrize("cpu", ["rocketlake", "znver4", "sapphirerapids"])
def test_target_machine_takes_a_name_of_any_length(cpu: str) -> None:
    fields = (1, b"x86_64-unknown-linux-gnu"), (2, cpu.encode()), (3, b"+avx,-sse4a")
    found = target_machine(b"\x12\x00\x2a\x7f" + message(*fields))
    assert found == ("x86_64-unknown-linux-gnu", cpu, "+avx,-sse4a")
