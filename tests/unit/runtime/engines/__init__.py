"""Tests of aotc_runtime.engines."""
