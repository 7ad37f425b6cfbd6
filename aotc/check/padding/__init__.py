"""Proof that a call may be padded or split: trials against plain JAX at exactly the call's sizes.

plan -> (plain JAX | executables) -> verdict
"""
