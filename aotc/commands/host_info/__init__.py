"""`aotc host-info`."""
