"""Arrays on the device: read, claimed by the calls that donate them, given back or used up."""

import numpy as np
import pytest

from aotc_runtime import DeviceArray, LoadedBundle, ShapeError
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.schema.shard_layout import mesh_of
from tests.refusals import error_of

from ..samples import refused


@pytest.fixture
def array(digits: LoadedBundle) -> DeviceArray:
    made = digits["predict"].on_device(np.ones((8, 64), np.float32))["probabilities"]
    assert isinstance(made, DeviceArray)
    return made


def test_an_array_is_read_by_a_copy_in_the_dtype_that_is_asked_for(array: DeviceArray) -> None:
    plain = np.asarray(array)
    assert (plain.dtype, plain.shape, array.ndim) == (np.float32, array.shape, 2)
    wide = np.asarray(array, np.float64)
    assert wide.dtype == array.__array__(np.float64).dtype == np.float64
    np.testing.assert_array_equal(wide, plain)
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)
    assert not array.is_deleted and repr(array) == "DeviceArray(float32[8, 10])"


def test_a_claimed_array_is_nobody_elses_until_it_is_given_back(array: DeviceArray) -> None:
    array.claim("a call")
    assert array.is_deleted and "used up by a call" in repr(array)
    np.testing.assert_allclose(array.read_claimed().sum(axis=1), 1, rtol=1e-5)
    for touch in (np.asarray, lambda a: a.claim("another"), lambda a: a.__dlpack__()):
        with refused("AOTC-E631"):
            touch(array)
    array.give_back()
    assert not array.is_deleted and np.asarray(array).shape == (8, 10)


def test_what_is_deleted_on_the_device_is_never_given_back(array: DeviceArray) -> None:
    array.claim("a call")
    array.delete()
    assert array.take_buffer().is_deleted()
    array.delete()
    array.give_back()
    with refused("AOTC-E631"):
        np.asarray(array)


def test_the_buffer_under_a_view_is_never_the_one_that_a_call_donates(array: DeviceArray) -> None:
    buffer = array.buffer()
    view, value = np.from_dlpack(array), np.asarray(array)
    array.claim("a call")
    copy = array.take_buffer()
    assert copy is not buffer and array.take_buffer() is copy
    array.give_back()
    assert array.buffer() is copy
    array.claim("another call")
    assert array.take_buffer() is copy, "a buffer without views is not copied"
    array.delete()
    assert copy.is_deleted() and not buffer.is_deleted()
    np.testing.assert_array_equal(view, value)


def test_an_array_that_is_used_up_lets_go_of_what_its_views_show(array: DeviceArray) -> None:
    view, value = np.from_dlpack(array), np.asarray(array)
    array.claim("a call")
    array.delete()
    array.delete()
    array.give_back()
    assert error_of(ShapeError, array.buffer).code == "AOTC-E631" and array.take_buffer() is None
    np.testing.assert_array_equal(view, value)


def test_an_array_that_is_spread_has_no_dlpack(array: DeviceArray) -> None:
    placement = array.device.features.placement(mesh_of({"data": 1}), (("data",), ()), array.shape)
    spread = DeviceArray(
        array.device, array.buffer(), Aval(array.shape, array.dtype, placement=placement)
    )
    assert spread.placement is placement
    refused = error_of(ShapeError, spread.__dlpack__)
    assert (refused.code, refused.findings[0].found) == (
        "AOTC-E634",
        "an array on 1 devices",
    )
