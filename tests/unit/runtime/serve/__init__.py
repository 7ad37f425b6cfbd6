"""Tests of aotc_serve.service."""
