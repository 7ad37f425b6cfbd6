"""The outside world: files (store), facts about this host (host), jaxlib (pjrt). No
decisions here."""
