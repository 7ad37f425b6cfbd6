"""`bundle.report()` for monitoring systems. Nothing imports these modules unless asked for."""
