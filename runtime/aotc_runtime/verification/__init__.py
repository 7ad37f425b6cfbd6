"""Whether a bundle may be loaded: who signed it, is every byte theirs, does it fit this host.

Works on a `BlobSource`, a `TrustPolicy` and `HostFacts`; reads no files but the policy's, no
jaxlib, and the clock once, unless it is given the time.
"""
