"""What the user's code read, watched as it runs, and whether that is as it was."""
