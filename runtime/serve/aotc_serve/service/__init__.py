"""Serving bundles over the network. Needs the extra `aotc-runtime[serve]`; the loader itself never
imports these modules.
"""
