"""The protocol of frontends, and reading the archives that model files are."""
