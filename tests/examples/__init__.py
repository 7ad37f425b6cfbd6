"""The files under examples/, each run as far as it can be without its service."""
