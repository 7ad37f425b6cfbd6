"""Tests of aotc_runtime.verification."""
