"""Join requests that wait into one call."""
