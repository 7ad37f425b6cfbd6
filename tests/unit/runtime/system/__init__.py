"""Tests of aotc_runtime.system."""
