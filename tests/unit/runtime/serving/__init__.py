"""Tests of aotc_runtime.serving."""
