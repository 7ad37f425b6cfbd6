"""An entry point as StableHLO, as optimized HLO or as assembly."""
