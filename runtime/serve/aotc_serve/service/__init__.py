"""Serve bundles over the network; needs the extra `aotc-serve[serve]`."""
