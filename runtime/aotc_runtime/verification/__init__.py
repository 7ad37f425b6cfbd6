"""Verification of bundles: signatures, digests, and compatibility with the host.

Works on a `BlobSource`, a `TrustPolicy` and `HostFacts`; reads no files but the policy's, no
jaxlib, and the clock once, unless it is given the time.
"""
