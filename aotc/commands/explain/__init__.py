"""An entry point as StableHLO, and error codes in words."""
