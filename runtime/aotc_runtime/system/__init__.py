"""The outside world as facts: files (store), this host (host), jaxlib (pjrt). No decisions here."""
