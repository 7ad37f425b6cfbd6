"""Compatibility of a bundle's targets with processors and devices, told before deployment."""
