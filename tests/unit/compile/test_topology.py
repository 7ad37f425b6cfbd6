"""The machine in a serialized topology is found by what it holds, and replaced without a trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc.compile.xla import cpu_topology, jaxlib_private
from aotc.compile.xla.cpu_topology import Machine, UnknownTopologyError
from aotc_runtime.formats.protobuf_wire import BYTES, VARINT

OTHER = Machine("x86_64-unknown-linux-gnu", "x86-64-v3", "-avx512f,+avx2")
MACHINES = st.builds(
    Machine,
    st.from_regex(r"\A[a-z0-9_]+-[a-z]+-[a-z]+(-[a-z]+)?\Z"),
    st.from_regex(r"\A[a-z0-9-]+\Z"),
    st.from_regex(r"\A[+-][a-z0-9.]+(,[+-][a-z0-9.]+){0,200}\Z"),
)


@pytest.fixture(scope="module")
def host() -> bytes:
    return jaxlib_private.host_topology(jaxlib_private.cpu_client())


def message(machine: Machine) -> bytes:
    texts = (machine.triple, machine.cpu, machine.features)
    return protobuf.serialize([Field(n, BYTES, t.encode()) for n, t in enumerate(texts, 1)])


def test_this_host_is_an_x86_machine_with_features_of_both_signs(host: bytes) -> None:
    machine = cpu_topology.read_machine(host)
    assert machine.triple.startswith("x86_64-")
    signs = {feature[0] for feature in machine.features.split(",")}
    assert signs == {"+", "-"}


@given(machine=MACHINES)
def test_a_machine_that_was_put_in_is_read_back(host: bytes, machine: Machine) -> None:
    assert cpu_topology.read_machine(cpu_topology.with_machine(host, machine)) == machine


def test_nothing_but_the_machine_changes(host: bytes) -> None:
    own, edited = cpu_topology.read_machine(host), cpu_topology.with_machine(host, OTHER)
    before, _, after = host.partition(message(own))
    assert message(OTHER) in edited
    assert edited.endswith(after)
    # Lengths of the messages around it lie before it.
    assert len(edited) - len(host) - (len(message(OTHER)) - len(message(own))) in range(-4, 5)
    assert len(before) < len(edited)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_machine_is_found_at_any_depth(depth: int) -> None:
    data = message(OTHER)
    for number in range(depth):
        data = protobuf.serialize([Field(9, VARINT, 3), Field(number + 1, BYTES, data)])
    assert cpu_topology.read_machine(data) == OTHER


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        message(OTHER),
        protobuf.serialize([Field(1, BYTES, message(Machine("linux", "x86-64", "+avx")))]),
        protobuf.serialize([Field(1, BYTES, message(Machine("a-b-c", "x86-64", "avx")))]),
        protobuf.serialize([Field(1, BYTES, message(OTHER) + b"\x20\x01")]),
    ],
    ids=["empty", "no message", "not nested", "no triple", "no signs", "another field"],
)
def test_a_topology_without_a_machine_is_unknown(data: bytes) -> None:
    with pytest.raises(UnknownTopologyError):
        cpu_topology.read_machine(data)
    with pytest.raises(UnknownTopologyError):
        cpu_topology.with_machine(data, OTHER)


def test_the_host_of_an_accelerator_is_replaced_and_loses_its_features() -> None:
    for texts in (("x86_64-unknown-linux-gnu", "znver5"), ("x86_64-a-b", "znver5", "+avx2")):
        host = protobuf.serialize([Field(n, BYTES, t.encode()) for n, t in enumerate(texts, 1)])
        around = protobuf.serialize([Field(1, VARINT, 1), Field(9, BYTES, host)])
        wanted = ("x86_64-unknown-linux-gnu", "x86-64")
        other = protobuf.serialize([Field(n, BYTES, t.encode()) for n, t in enumerate(wanted, 1)])
        expected = protobuf.serialize([Field(1, VARINT, 1), Field(9, BYTES, other)])
        assert cpu_topology.with_host(around, *wanted) == expected


def test_a_topology_without_a_host_is_refused() -> None:
    around = protobuf.serialize([Field(1, BYTES, b"CUDA"), Field(2, BYTES, b"\n\x02v5\x12\x01a")])
    with pytest.raises(UnknownTopologyError):
        cpu_topology.with_host(around, "x86_64-unknown-linux-gnu", "x86-64")
