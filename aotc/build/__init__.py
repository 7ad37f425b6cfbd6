"""Runs the stages: plans the work, starts the child processes, and holds the one pipeline."""
