"""Arrays as people type them."""

import pytest

from aotc.commands.init.init_request import ArrayText, parse_array


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("float32[batch,64]", ArrayText("float32", ("batch", 64))),
        ("f32[8]", ArrayText("float32", (8,))),
        ("s32[]", ArrayText("int32", ())),
        ("bf16[ a , 2 ]", ArrayText("bfloat16", ("a", 2))),
        ("key<fry>[4]", ArrayText("key<fry>", (4,))),
        ("[batch,]", ArrayText(None, ("batch",))),
        ("[]", ArrayText(None, ())),
        *((text, None) for text in ("", "float32", "flot32[3]", "f32[-1]", "f32[a+b]")),
        *((text, None) for text in ("f32[1][2]", "f32[def]", "f32[,1]", "f32[٣]", "int[3]")),
    ],
)
def test_dtypes_and_axes_are_read_as_jax_prints_them(text: str, array: ArrayText | None) -> None:
    assert parse_array(text) == array
