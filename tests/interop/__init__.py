"""What others make of our files: signing.md run with their tools, and none of our code."""
