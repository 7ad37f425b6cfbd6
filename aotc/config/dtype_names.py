"""Names of dtypes besides those of manifests."""

SHORT_DTYPES = {
    "pred": "bool",
    "bf16": "bfloat16",
    **{f"{short}{bits}": f"int{bits}" for short in "si" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"c{bits}": f"complex{bits}" for bits in (64, 128)},
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
    "uint": "uint32",
    "long": "int64",
    "boolean": "bool",
}
"""Names that other libraries give to dtypes, for hints: each with jax's name."""
