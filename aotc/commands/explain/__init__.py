"""An entry point as StableHLO or as optimized HLO."""
