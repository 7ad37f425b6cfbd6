"""Joining bundles of one program, built for different targets, into one."""
