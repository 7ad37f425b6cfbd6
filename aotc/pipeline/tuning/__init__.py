"""Choosing among compilations of the same program by measuring them on this host."""
