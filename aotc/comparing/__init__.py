"""Where values and texts differ, whoever compares them and whatever for."""
