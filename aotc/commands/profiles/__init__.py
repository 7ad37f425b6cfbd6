"""Choosing shape profiles by observed traffic and by what calls cost."""
