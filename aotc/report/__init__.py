"""What is known about builds and bundles, as JSON-able data first and as tables second."""
