"""Our files read by the tools of others: signing.md run with none of our code."""
