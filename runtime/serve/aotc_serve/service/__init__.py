"""Serving bundles over the network. Needs the extra `aotc-serve[serve]`; the loader itself never
imports these modules.
"""
