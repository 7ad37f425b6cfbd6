"""The outside world: files (store), facts about this host (host). No decisions here."""
