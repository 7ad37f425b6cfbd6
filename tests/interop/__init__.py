"""What others make of our files: docs/signing.md run with their tools, and none of our code."""
