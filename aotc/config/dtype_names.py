"""Names of dtypes besides those of manifests."""

SHORT_DTYPES = {
    "pred": "bool",
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
"""Short names of dtypes in the types that jax and XLA print."""

OTHER_DTYPES = SHORT_DTYPES | {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "int": "int32",
    "long": "int64",
    "boolean": "bool",
}
"""Names that other libraries give to dtypes, for hints: each with jax's name."""
